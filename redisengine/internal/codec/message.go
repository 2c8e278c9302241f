package codec

import (
	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Text is a message's text, "" for none.
func Text(m *rueidis.RedisMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}

// Integer is a message's number, also where it is one with a fraction or a
// text.
func Integer(m *rueidis.RedisMessage) int64 {
	if n, err := m.AsInt64(); err == nil {
		return n
	}
	f, _ := m.AsFloat64()
	return int64(f)
}

// Elements is a message's items, nil for none.
func Elements(m *rueidis.RedisMessage) []rueidis.RedisMessage {
	items, _ := m.ToArray()
	return items
}

// ReadPage reads a page of a script's answer, names and values in turn. next is the
// name after which the next page begins, "" for none.
func ReadPage(msg *rueidis.RedisMessage) (items []rueidis.RedisMessage, next string) {
	all := Elements(msg)
	if len(all) < 3 {
		return nil, ""
	}
	if Integer(&all[0]) == 1 { // others follow
		next = Text(&all[len(all)-2])
	}
	return all[1:], next
}

// State is a message's state; none for what is no state.
func State(m *rueidis.RedisMessage) duly.State {
	s, err := contract.ParseState(Text(m))
	if err != nil {
		return duly.StateNone
	}
	return s
}
