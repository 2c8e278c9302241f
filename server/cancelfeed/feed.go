package cancelfeed

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

const (
	// mostBytes bounds what a feed keeps.
	mostBytes = 64 << 10
	// sizeOfEntry is what an entry takes beside its texts.
	sizeOfEntry = 48
	// pace is the least time between two wake-ups of a feed's callers.
	pace = 25 * time.Millisecond
)

// feed keeps the latest reports of one namespace.
type feed struct {
	id   string
	stop context.CancelFunc

	// What follows is guarded by Feeds.mu.

	callers int
	left    time.Duration // when the last caller has gone, monotonic
	idle    clock.Timer   // ends a feed without callers; nil while there are some

	mu      sync.Mutex
	ended   error         // of the watch
	entries []entry       // the numbers up to last, without those up to lost
	size    int           // of the entries, in bytes
	last    uint64        // the number of the latest report
	lost    uint64        // what a caller has up to a lower number is not all of it
	ready   bool          // the engine's watch has begun
	shown   uint64        // callers see reports up to this number
	changed chan struct{} // closed when shown changes
	woken   time.Duration // when it was closed last, monotonic
	armed   bool          // a timer is going to close it
}

// entry is a removed job.
type entry struct {
	number uint64
	queue  string
	id     string // empty: any leased job of the queue
}

func newFeed(stop context.CancelFunc) *feed {
	return &feed{id: duly.NewNumber().String(), stop: stop, changed: make(chan struct{}), woken: clock.Monotonic() - pace}
}

// gap notes that reports may have been lost, as before the watch has begun.
func (f *feed) gap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
	f.last++
	f.dropLocked(f.last)
	f.wakeLocked()
}

// add keeps a report. It copies the texts, which may be parts of longer ones.
func (f *feed) add(c duly.Canceled) {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := strings.Clone(c.Queue)
	if last := len(f.entries) - 1; last >= 0 && f.entries[last].queue == queue {
		queue = f.entries[last].queue
	}

	// A report that is too long says that any leased job may be gone.
	if size := 0; c.IDs != nil {
		for _, id := range c.IDs {
			size += sizeOfEntry + len(id)
		}
		if size > mostBytes/2 {
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
	if f.size += e.size(); f.size > mostBytes {
		f.dropLocked(f.entries[len(f.entries)/2].number)
	}
}

// size counts the queue's name with each entry, although entries share it.
func (e *entry) size() int { return sizeOfEntry + len(e.queue) + len(e.id) }

// dropLocked drops the entries up to a number.
func (f *feed) dropLocked(number uint64) {
	f.lost = number
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

// wakeLocked shows callers what is new, now or when the pace allows it.
func (f *feed) wakeLocked() {
	if f.armed {
		return
	}
	if rest := f.woken + pace - clock.Monotonic(); rest > 0 {
		f.armed = true
		clock.System().AfterFunc(rest, f.show)
		return
	}
	f.showLocked()
}

func (f *feed) show() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	f.showLocked()
}

func (f *feed) showLocked() {
	f.shown, f.woken = f.last, clock.Monotonic()
	close(f.changed)
	f.changed = make(chan struct{})
}

// end ends the watch and wakes all callers; the first error counts.
func (f *feed) end(err error) {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return
	}
	if f.ended = err; err == nil {
		f.ended = duly.ErrClosed
	}
	f.showLocked()
}

// read returns the reports after a cursor. changed is closed when there may be
// more.
func (f *feed) read(after string) (answer wire.Canceled, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := readCursor(after)
	number, known := at.in(f.id)
	known = known && number <= f.last
	answer.Cursor = at.with(place{f.id, f.shown})

	switch {
	case f.ended != nil:
		return answer, nil, f.ended
	case !known:
		// Before the watch has begun, reports may still be lost. Its beginning is a
		// gap, also for a caller that goes on from this answer's cursor.
		answer.Any = f.ready
	case number < f.lost:
		answer.Any = f.lost <= f.shown
	default:
		answer.Canceled = f.sinceLocked(number)
	}
	return answer, f.changed, nil
}

// sinceLocked returns the reports after a number, those of one queue together
// where they follow each other.
func (f *feed) sinceLocked(number uint64) (list []duly.Canceled) {
	for _, e := range f.entries {
		if e.number <= number || e.number > f.shown {
			continue
		}
		last := len(list) - 1
		switch {
		case e.id == "":
			list = append(list, duly.Canceled{Queue: e.queue})
		case last >= 0 && list[last].Queue == e.queue && list[last].IDs != nil:
			list[last].IDs = append(list[last].IDs, e.id)
		default:
			list = append(list, duly.Canceled{Queue: e.queue, IDs: []string{e.id}})
		}
	}
	return list
}
