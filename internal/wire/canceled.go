package wire

import (
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// MaxCursor is the maximum length of the cursor in a request for removed jobs, in bytes.
const MaxCursor = 512

// CanceledAsk reads and writes the request for the jobs that were removed after a cursor. Without a
// cursor the answer says that any leased job may be gone. Wait is how long the server waits for a
// removed job, 0 to duly.MaxWait.
type CanceledAsk struct {
	After string
	Wait  time.Duration
}

// Validate returns [duly.ErrInvalid] with every bad field.
func (a *CanceledAsk) Validate() error {
	var bad contract.BadFields
	if len(a.After) > MaxCursor {
		bad.Add("after", "has %d bytes, may have at most %d; pass the cursor of the last answer, or leave it out",
			len(a.After), MaxCursor)
	}
	if a.Wait < 0 || a.Wait > duly.MaxWait {
		bad.Add("wait", "is %s, must be between 0s and %s",
			duly.FormatDuration(a.Wait), duly.FormatDuration(duly.MaxWait))
	}
	return bad.Err()
}

func (f *fields) canceledAsk(a *CanceledAsk) {
	f.request("CanceledAsk")
	f.text("after", &a.After, optional, `maxLength:"512"`,
		"The cursor of the last answer. Without it, any is true.")
	f.duration("wait", &a.Wait, always, "How long to wait."+waitBounds)
}

// Canceled is the answer to a request for removed jobs.
type Canceled struct {
	Canceled []contract.Canceled
	// Any is set if reports were lost: any leased job of the namespace may be gone.
	Any    bool
	Cursor string
}

func (f *fields) canceled(c *Canceled) {
	f.answer("Canceled")
	list(f, "canceled", &c.Canceled, required, "The jobs that were removed since the cursor.", (*fields).removed)
	f.bool("any", &c.Any, required,
		"True if reports were lost: any leased job of the namespace may be gone.")
	f.text("cursor", &c.Cursor, required, "", "Where to continue: pass it as after.")
}

// removed names the removed jobs of a queue. Without IDs any leased job may be gone.
func (f *fields) removed(c *contract.Canceled) {
	f.answer("Removed")
	f.text("queue", &c.Queue, required, "", "The queue's name.")
	texts(f, "ids", &c.IDs, math.MaxInt, given, "",
		"The IDs of the removed jobs. Absent: any leased job of the queue may be gone.")
}

// SizeOfCanceled returns at least the number of bytes that AppendCanceled adds.
func SizeOfCanceled(c Canceled) int {
	// The names of the fields take fewer bytes than names, and the brackets of an entry fewer than
	// quotes.
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
