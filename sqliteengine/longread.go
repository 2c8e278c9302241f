package sqliteengine

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
)

// A page of a list or a survey takes several milliseconds of processor time.
// With a page on each processor, every step of a push waits until the scheduler
// takes a processor away from one of them, up to 10 ms. So long reads give way:
//
//   - At most half of the processors, and at most maxLongReads, read pages at
//     the same time. Others wait in the order in which they came.
//   - A page is read in slices of sliceTime. Each slice is a read transaction of
//     its own, so a checkpoint need not wait for a page.
//   - While callers write, a page rests for restTime between two slices. On an
//     idle store it does not rest, and is one transaction.

const (
	// maxLongReads leaves at least one of maxReaders for other reads.
	maxLongReads = maxReaders - 1
	// sliceTime is how long a page is read before it gives way.
	sliceTime = 200 * time.Microsecond
	// restTime is how long a page rests between two slices.
	restTime = time.Millisecond
	// writesRecently is how long after its last transaction the writer counts as
	// busy.
	writesRecently = 20 * time.Millisecond
)

// longReads limits the reads of pages.
type longReads struct {
	clock  duly.Clock
	tokens chan struct{} // holds a value for each long read that is running

	writing atomic.Bool  // whether a transaction for callers is running
	wrote   atomic.Int64 // monotonic time at which the last such transaction ended
}

// newLongReads returns limits for that many processors.
func newLongReads(c duly.Clock, processors int) *longReads {
	l := &longReads{clock: c, tokens: make(chan struct{}, min(max(1, processors/2), maxLongReads))}
	l.wrote.Store(int64(c.Mono() - writesRecently))
	return l
}

// writeBegins marks the start of a transaction for callers.
func (l *longReads) writeBegins() { l.writing.Store(true) }

// writeEnds marks the end of a transaction for callers.
func (l *longReads) writeEnds() {
	l.wrote.Store(int64(l.clock.Mono()))
	l.writing.Store(false)
}

// busy reports whether callers write.
func (l *longReads) busy(now time.Duration) bool {
	return l.writing.Load() || now-time.Duration(l.wrote.Load()) < writesRecently
}

// readSlice is the part of a long read that runs in one transaction.
type readSlice struct {
	long     *longReads
	gate     *gate
	end      time.Duration
	timeUsed bool // whether the slice has used up its time
}

// timeUp reports whether the read must end its transaction now. Callers call it only after a row
// that counts as progress, so that every slice makes progress.
func (s *readSlice) timeUp() bool {
	if s.gate.isClosed() {
		return true
	}
	now := s.long.clock.Mono()
	if now < s.end {
		return false
	}
	if s.timeUsed = s.long.busy(now); s.timeUsed {
		return true
	}
	runtime.Gosched()
	s.end = s.long.clock.Mono() + sliceTime
	return false
}
