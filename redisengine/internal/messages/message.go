package messages

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// These are the flags of a message's value.
const (
	hasID = 1 << iota
	hasKey
	hasHeaders
)

// Pack returns the value of a message: flags, the parts that they announce, and the body.
func Pack(m *duly.Message) string {
	b := make([]byte, 1, 1+len(m.ID)+len(m.Key)+len(m.Body)+2)
	if m.ID != "" {
		b[0] |= hasID
		b = append(append(b, byte(len(m.ID))), m.ID...)
	}
	if m.Key != "" {
		b[0] |= hasKey
		b = append(append(b, byte(len(m.Key))), m.Key...)
	}
	if len(m.Headers) > 0 {
		b[0] |= hasHeaders
		headers := codec.PackHeaders(m.Headers)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(headers))), headers...)
	}
	return rueidis.BinaryString(append(b, m.Body...))
}

// Read fills in the message of a value. It returns false for a damaged value.
func Read(m *duly.Message, value string) (ok bool) {
	if value == "" {
		return false
	}
	flags, rest := value[0], value[1:]
	text := func() (s string) {
		if rest == "" || len(rest) <= int(rest[0]) {
			rest, ok = "", false
			return ""
		}
		s, rest = rest[1:1+rest[0]], rest[1+rest[0]:]
		return s
	}

	// An unknown flag means that the value is damaged.
	ok = flags < hasHeaders<<1
	if flags&hasID != 0 {
		// The clones let the large answer be collected while a caller keeps the message.
		m.ID = strings.Clone(text())
	}
	if flags&hasKey != 0 {
		m.Key = strings.Clone(text())
	}
	if flags&hasHeaders != 0 {
		if len(rest) < 2 {
			return false
		}
		n := 2 + int(binary.BigEndian.Uint16([]byte(rest[:2])))
		if len(rest) < n {
			return false
		}
		var known bool
		m.Headers, known = codec.UnpackHeaders(strings.Clone(rest[2:n]))
		ok, rest = ok && known, rest[n:]
	}
	m.Body = []byte(rest)
	return ok
}

// Place is the position of a message in its shard.
type Place struct {
	Ordinal uint64
	Millis  int64
}

// PlaceSize is the length of a stored place.
const PlaceSize = 11

// PlaceOf returns the place of a position.
func PlaceOf(p duly.Position) Place {
	parts := contract.PositionPartsOf(p)
	return Place{parts.Ordinal, parts.Millis}
}

// String returns the place as it is stored.
func (p Place) String() string { return string(p.Append(nil)) }

// Append appends the place as it is stored.
func (p Place) Append(b []byte) []byte {
	b = append(b, byte(p.Ordinal>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Ordinal))
	b = binary.BigEndian.AppendUint16(b, uint16(p.Millis>>32))
	return binary.BigEndian.AppendUint32(b, uint32(p.Millis))
}

// ReadPlace reads a stored place. The place may follow another text.
func ReadPlace(s string) (p Place, ok bool) {
	if len(s) < PlaceSize {
		return p, false
	}
	b := []byte(s[len(s)-PlaceSize:])
	p.Ordinal = uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
	p.Millis = int64(binary.BigEndian.Uint16(b[5:]))<<32 | int64(binary.BigEndian.Uint32(b[7:]))
	return p, true
}

// readID reads the ID of an entry in the stream.
func readID(id string) (p Place, ok bool) {
	ms, ordinal, _ := strings.Cut(id, "-")
	var err1, err2 error
	p.Millis, err1 = strconv.ParseInt(ms, 10, 64)
	p.Ordinal, err2 = strconv.ParseUint(ordinal, 10, 64)
	return p, err1 == nil && err2 == nil
}

// Shard is a shard of a topic: the parts of a position other than the place.
type Shard struct {
	Topic    duly.QueueRef
	Index    int
	checksum uint32
}

// ShardOf returns a shard of a topic.
func ShardOf(topic duly.QueueRef, index int) Shard {
	return Shard{topic, index, contract.TopicChecksum(topic)}
}

// Position returns the position of the message at a place.
func (s Shard) Position(p Place) duly.Position {
	return contract.PositionParts{Millis: p.Millis, Ordinal: p.Ordinal, Shard: s.Index, Topic: s.checksum}.Position()
}

// ReadEntry reads an entry of the stream: its ID and its fields.
func ReadEntry(m *rueidis.RedisMessage) (p Place, value string, ok bool) {
	items := codec.Elements(m)
	if len(items) < 2 {
		return p, "", false
	}
	p, ok = readID(codec.Text(&items[0]))
	fields := codec.Elements(&items[1])
	if !ok || len(fields) != 2 || codec.Text(&fields[0]) != "m" {
		return p, "", false
	}
	return p, codec.Text(&fields[1]), true
}

// Entry reads an entry of the stream as contract.Entry.
func (s Shard) Entry(m *rueidis.RedisMessage) (e contract.Entry, ok bool) {
	p, value, ok := ReadEntry(m)
	if !ok || !Read(&e.Message, value) {
		return e, false
	}
	e.Namespace, e.Topic = s.Topic.Namespace, s.Topic.Name
	e.Position, e.EnteredAt = s.Position(p), clock.FromMilli(p.Millis)
	return e, true
}

// Delayed reads the record of a delayed message.
func Delayed(topic duly.QueueRef, name, record string) (m duly.Message, ok bool) {
	if len(record) < PlaceSize {
		return m, false
	}
	// The record begins with a sequence number and the due time, which have the sizes of a place.
	place, _ := ReadPlace(record[:PlaceSize])
	if !Read(&m, record[PlaceSize:]) {
		return m, false
	}
	m.Namespace, m.Topic, m.Due = topic.Namespace, topic.Name, clock.FromMilli(place.Millis)
	m.ID, _, _ = strings.Cut(name, "\x00")
	return m, true
}

// DelayedName returns the name of a delayed message.
func DelayedName(key, id string) string {
	if key == "" {
		return id
	}
	return id + "\x00" + key
}
