package duly

import (
	"strings"
	"time"
)

// From is a place in a log: "start", "end", a time (RFC 3339), a position, or the Next
// of a [ReadPage], which begins with "next:".
type From string

// The two ends of a log.
const (
	// FromStart is the oldest message that is stored. It is also the zero From.
	FromStart From = "start"
	// FromEnd is the first message that enters from now on.
	FromEnd From = "end"
)

// FromTime is the first message that entered at that time or later.
func FromTime(t time.Time) From { return From(t.UTC().Format(time.RFC3339Nano)) }

// FromPosition is the message at that position. Seek and CreateGroup use the time of
// the position for the other shards.
func FromPosition(p Position) From { return From(p.String()) }

// NextPrefix begins the form of a From that only Read accepts. The format of the text
// after it is private to the engine.
const NextPrefix = "next:"

// FromKind is a form of a [From].
type FromKind uint8

// The forms.
const (
	KindStart FromKind = iota + 1
	KindEnd
	KindTime
	KindPosition
	KindNext
)

// FromParts is a parsed From. Only the field of its kind is set.
type FromParts struct {
	Kind     FromKind
	Time     time.Time
	Position Position
	// Next is the text after [NextPrefix].
	Next string
}

// Parts parses a From. It returns [ErrInvalid] if the text has none of the forms.
func (f From) Parts() (FromParts, error) {
	switch {
	case f == "" || f == FromStart:
		return FromParts{Kind: KindStart}, nil
	case f == FromEnd:
		return FromParts{Kind: KindEnd}, nil
	case strings.HasPrefix(string(f), NextPrefix):
		return FromParts{Kind: KindNext, Next: string(f)[len(NextPrefix):]}, nil
	}
	if n, ok := ParseNumber(string(f)); ok {
		return FromParts{Kind: KindPosition, Position: n}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, string(f)); err == nil {
		return FromParts{Kind: KindTime, Time: t}, nil
	}
	return FromParts{}, Invalid("from",
		"is %s, must be start, end, a time like 2026-01-31T08:00:00Z, or a position of the topic",
		quoted(string(f), MaxID))
}

// PartsIn parses a From for a topic. It returns [ErrInvalid] for a position of another
// topic. next reports whether the Next of a page is allowed.
func (f From) PartsIn(topic QueueRef, next bool) (FromParts, error) {
	p, err := f.Parts()
	switch {
	case err != nil:
		return p, err
	case p.Kind == KindNext && !next:
		return p, Invalid("from", "is the next of a page, which only a read accepts; give start, end, a time or a position")
	case p.Kind == KindPosition && PositionPartsOf(p.Position).Topic != TopicChecksum(topic):
		return p, Invalid("from", "is a position of another topic than %s", topic)
	}
	return p, nil
}
