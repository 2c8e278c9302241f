package wire

import (
	"math"
	"time"

	"github.com/dulymq/duly"
)

// MaxCursor bounds the cursor of a request for removed jobs, in bytes.
const MaxCursor = 512

// CanceledAsk is the request for removed jobs: those after a cursor, and for how
// long to wait until there are some. Without a cursor any leased job may be gone.
type CanceledAsk struct {
	After string
	Wait  time.Duration // 0 to duly.MaxWait; 0 does not wait
}

// Validate returns [duly.ErrInvalid] with every bad field.
func (a *CanceledAsk) Validate() error {
	var bad duly.BadFields
	if len(a.After) > MaxCursor {
		bad.Add("after", "has %d bytes, may have at most %d; pass the cursor of the last answer, or leave it out",
			len(a.After), MaxCursor)
	}
	if a.Wait < 0 || a.Wait > duly.MaxWait {
		bad.Add("wait", "is %s, must be between 0s and %s", duly.FormatDuration(a.Wait), duly.FormatDuration(duly.MaxWait))
	}
	return bad.Err()
}

// Canceled is the answer: which jobs were removed, and where to go on.
type Canceled struct {
	Canceled []duly.Canceled
	// Any: reports were lost, so any leased job of the namespace may be gone.
	Any    bool
	Cursor string
}

// ReadCanceledAsk reads the request for removed jobs.
func ReadCanceledAsk(text string, mode Mode) (a CanceledAsk, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "after":
				a.After = r.string(key)
			case "wait":
				a.Wait, _ = r.duration(key)
			default:
				r.unknown(key)
			}
		}
	})
	return a, err
}

// AppendCanceledAsk writes the request for removed jobs.
func AppendCanceledAsk(dst []byte, a CanceledAsk) []byte {
	o := begin(dst)
	o.text("after", a.After)
	o.duration("wait", a.Wait)
	return o.end()
}

// AppendCanceled writes the answer. A queue without ids has lost any leased job.
func AppendCanceled(dst []byte, c Canceled) []byte {
	o := begin(dst)
	list(&o, "canceled", c.Canceled, func(dst []byte, one *duly.Canceled) []byte {
		o := begin(dst)
		o.string("queue", one.Queue)
		if one.IDs != nil {
			texts(&o, "ids", one.IDs)
		}
		return o.end()
	})
	o.bool("any", c.Any)
	o.string("cursor", c.Cursor)
	return o.end()
}

// SizeOfCanceled is no less than what AppendCanceled adds.
func SizeOfCanceled(c Canceled) int {
	const names, quotes = 64, 3
	n := names + len(c.Cursor)
	for i := range c.Canceled {
		n += names + len(c.Canceled[i].Queue)
		for _, id := range c.Canceled[i].IDs {
			n += quotes + len(id)
		}
	}
	return n
}

// ReadCanceled reads the answer.
func ReadCanceled(text string) (c Canceled, err error) {
	err = readList(text, "canceled", func(r *reader) {
		var one duly.Canceled
		for key := range r.object {
			switch key {
			case "queue":
				one.Queue = r.string(key)
			case "ids":
				if !r.null() {
					one.IDs = append([]string{}, r.strings(key, math.MaxInt)...) // never nil: nil is any job
				}
			default:
				r.unknown(key)
			}
		}
		c.Canceled = append(c.Canceled, one)
	}, func(r *reader, key string) bool {
		switch key {
		case "any":
			c.Any = r.boolean(key)
		case "cursor":
			c.Cursor = r.string(key)
		default:
			return false
		}
		return true
	})

	return c, err
}
