package cancelfeed

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// maxBytes bounds the reports that a feed keeps.
	maxBytes = 64 << 10
	// sizeOfEntry is the size of an entry without its texts.
	sizeOfEntry = 48
	// pace is the minimum time between two wake-ups of a feed's callers.
	pace = 25 * time.Millisecond
)

// feed keeps the latest reports of one namespace.
type feed struct {
	id   string
	stop context.CancelFunc

	// Feeds.mu guards these fields.

	callers   int
	idleSince time.Duration // monotonic time at which the last caller left
	idleTimer duly.Timer    // closes the feed without callers; nil while it has callers

	mu          sync.Mutex
	err         error         // error of a closed feed
	entries     []entry       // reports; their numbers are in (dropped, last]
	size        int           // size of the entries in bytes
	last        uint64        // number of the latest report
	dropped     uint64        // reports up to this number are incomplete
	ready       bool          // whether the engine's watch has begun
	visible     uint64        // number up to which callers see reports
	changed     chan struct{} // closed when visible changes
	publishedAt time.Duration // monotonic time at which changed was last closed
	scheduled   bool          // whether a timer is going to publish
}

// entry is a removed job.
type entry struct {
	number uint64
	queue  string
	id     string // empty means any leased job of the queue
}

func newFeed(stop context.CancelFunc) *feed {
	return &feed{
		id: duly.NewNumber().String(), stop: stop, changed: make(chan struct{}),
		publishedAt: clock.Monotonic() - pace, // so that the first report is published at once
	}
}

// gap notes that reports may be missing up to now. The beginning of a watch is a gap.
func (f *feed) gap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
	f.last++
	f.dropLocked(f.last)
	f.wakeLocked()
}

// add keeps a report. It copies the texts, which may be parts of longer strings.
func (f *feed) add(c contract.Canceled) {
	f.mu.Lock()
	defer f.mu.Unlock()

	queue := strings.Clone(c.Queue)
	// Consecutive entries of one queue share the text of its name.
	if last := len(f.entries) - 1; last >= 0 && f.entries[last].queue == queue {
		queue = f.entries[last].queue
	}

	// A report that is too long is replaced by "any leased job of the queue".
	if size := 0; c.IDs != nil {
		for _, id := range c.IDs {
			size += sizeOfEntry + len(id)
		}
		if size > maxBytes/2 {
			c.IDs = nil
		}
	}

	if c.IDs == nil {
		f.addLocked(queue, "")
	}
	for _, id := range c.IDs {
		f.addLocked(queue, strings.Clone(id))
	}
	f.wakeLocked()
}

func (f *feed) addLocked(queue, id string) {
	f.last++
	e := entry{f.last, queue, id}
	f.entries = append(f.entries, e)
	if f.size += e.size(); f.size > maxBytes {
		f.dropLocked(f.entries[len(f.entries)/2].number)
	}
}

// size counts the queue's name with each entry, although entries share it.
func (e *entry) size() int { return sizeOfEntry + len(e.queue) + len(e.id) }

// dropLocked drops the entries up to a number.
func (f *feed) dropLocked(number uint64) {
	f.dropped = number
	// A new slice frees the memory of the dropped entries.
	kept := make([]entry, 0, len(f.entries))
	f.size = 0
	for _, e := range f.entries {
		if e.number > number {
			kept = append(kept, e)
			f.size += e.size()
		}
	}
	f.entries = kept
}

// wakeLocked publishes new reports, at once or when pace allows it.
func (f *feed) wakeLocked() {
	if f.scheduled {
		return
	}
	if rest := f.publishedAt + pace - clock.Monotonic(); rest > 0 {
		f.scheduled = true
		clock.System().AfterFunc(rest, f.publish)
		return
	}
	f.publishLocked()
}

func (f *feed) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scheduled = false
	f.publishLocked()
}

func (f *feed) publishLocked() {
	f.visible, f.publishedAt = f.last, clock.Monotonic()
	close(f.changed)
	f.changed = make(chan struct{})
}

// close stops the watch and wakes all callers. The first error counts.
func (f *feed) close(err error) {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	if f.err = err; err == nil {
		f.err = duly.ErrClosed
	}
	f.publishLocked()
}

// read returns the reports after a cursor. The channel changed is closed when there may be more
// reports.
func (f *feed) read(after string) (answer Reports, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := readCursor(after)
	number, ok := at.position(f.id)
	ok = ok && number <= f.last
	answer.Cursor = at.with(position{f.id, f.visible})

	switch {
	case f.err != nil:
		return answer, nil, f.err
	case !ok:
		// Before the watch has begun, reports may still be missed. Its beginning is a
		// gap, also for a caller that continues from this answer's cursor.
		answer.Any = f.ready
	case number < f.dropped:
		answer.Any = f.dropped <= f.visible
	default:
		answer.Canceled = f.sinceLocked(number)
	}
	return answer, f.changed, nil
}

// sinceLocked returns the reports after a number. It joins adjacent reports of one
// queue.
func (f *feed) sinceLocked(number uint64) (list []contract.Canceled) {
	for _, e := range f.entries {
		if e.number <= number || e.number > f.visible {
			continue
		}
		last := len(list) - 1
		switch {
		case e.id == "":
			list = append(list, contract.Canceled{Queue: e.queue})
		case last >= 0 && list[last].Queue == e.queue && list[last].IDs != nil:
			list[last].IDs = append(list[last].IDs, e.id)
		default:
			list = append(list, contract.Canceled{Queue: e.queue, IDs: []string{e.id}})
		}
	}
	return list
}
