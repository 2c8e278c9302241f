package contract

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// NextPrefix begins the form of a From that only Read accepts. The format of the text
// after it is private to the engine.
const NextPrefix = "next:"

// FromKind is a form of a [duly.From].
type FromKind uint8

// The kinds of From.
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
	Position duly.Position
	// Next is the text after [NextPrefix].
	Next string
}

// ParseFrom parses a From. It returns [duly.ErrInvalid] if the text has none of the forms.
func ParseFrom(f duly.From) (FromParts, error) {
	switch {
	case f == "" || f == duly.FromStart:
		return FromParts{Kind: KindStart}, nil
	case f == duly.FromEnd:
		return FromParts{Kind: KindEnd}, nil
	case strings.HasPrefix(string(f), NextPrefix):
		return FromParts{Kind: KindNext, Next: string(f)[len(NextPrefix):]}, nil
	}
	if n, ok := duly.ParseNumber(string(f)); ok {
		return FromParts{Kind: KindPosition, Position: n}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, string(f)); err == nil {
		return FromParts{Kind: KindTime, Time: t}, nil
	}
	return FromParts{}, Invalid("from",
		"is %s, must be start, end, a time like 2026-01-31T08:00:00Z, or a position of the topic",
		quoted(string(f), duly.MaxID))
}

// ParseFromIn parses a From for a topic. It returns [duly.ErrInvalid] for a position of another
// topic. next reports whether the Next of a page is allowed.
func ParseFromIn(f duly.From, topic duly.QueueRef, next bool) (FromParts, error) {
	p, err := ParseFrom(f)
	switch {
	case err != nil:
		return p, err
	case p.Kind == KindNext && !next:
		return p, Invalid("from", "is the next of a page, which only a read accepts; give start, end, a time or a position")
	// A position of another topic would name an unrelated message.
	case p.Kind == KindPosition && PositionPartsOf(p.Position).Topic != TopicChecksum(topic):
		return p, Invalid("from", "is a position of another topic than %s", topic)
	}
	return p, nil
}
