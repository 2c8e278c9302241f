package codec

import (
	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Text returns a message's text, or "" if it has none.
func Text(m *rueidis.RedisMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}

// Integer returns a message's number. It accepts a string and a fraction as well.
func Integer(m *rueidis.RedisMessage) int64 {
	if n, err := m.AsInt64(); err == nil {
		return n
	}
	f, _ := m.AsFloat64()
	return int64(f)
}

// Elements returns a message's items, or nil if it has none.
func Elements(m *rueidis.RedisMessage) []rueidis.RedisMessage {
	items, _ := m.ToArray()
	return items
}

// ReadPage reads a page of a script's answer, with names and values alternating. next is the name
// after which the next page begins, or "".
func ReadPage(msg *rueidis.RedisMessage) (items []rueidis.RedisMessage, next string) {
	all := Elements(msg)
	if len(all) < 3 {
		return nil, ""
	}
	// More pages follow.
	if Integer(&all[0]) == 1 {
		next = Text(&all[len(all)-2])
	}
	return all[1:], next
}

// State returns a message's state, or StateNone if it is not a state.
func State(m *rueidis.RedisMessage) duly.State {
	s, err := contract.ParseState(Text(m))
	if err != nil {
		return duly.StateNone
	}
	return s
}

// StateText returns a state as scripts read it, "" for StateNone.
func StateText(s duly.State) string {
	if s == duly.StateNone {
		return ""
	}
	return s.String()
}
