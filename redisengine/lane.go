package redisengine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// inFlight is how many calls of a lane are on their way at once: one that the
// server works on, and one that is there when it has finished.
const inFlight = 2

// lane brings the calls of many callers together: while calls are on their
// way the next ones gather, and go out as one. No timer takes part, so a lone
// caller waits for nobody.
//
// Callers that come back together when nothing is on its way, because one call
// has answered them all, go out as two halves: else server and callers would
// take turns for ever, and one of them always be idle.
type lane struct {
	mu      sync.Mutex
	waiting []*joint
	idle    int        // items of those that came when nothing was on its way
	spare   [][]*joint // room for those that wait next
	senders int
	flying  int  // calls that are on their way
	last    int  // callers of the call that was sent last
	used    bool // since the last sweep
	// send runs what was gathered and fills in its results.
	send func(ctx context.Context, calls []*joint) error
}

// leastHalf is the least number of items that are sent as a half: a call costs
// about as much as a few of them.
const leastHalf = 16

// joint is one caller's part of a joint call.
type joint struct {
	items int
	bytes int // of bodies
	// args are what its items add to the script's arguments.
	args []string
	// Of pushes: when the jobs are due; their kinds; the aliases of own IDs, and
	// order and merge key of each, as far as jobs have some; large bodies.
	whens  []int64
	kinds  []kind
	names  []string
	keys   []string
	bodies []string
	// waited: of pushes, all of its items were waited for in a call before.
	waited bool
	// answered is given the script's answer to its items.
	answered func(r jointReply)
	// share is what a Reserve gets, and lease what it names, in µs; 0: as each job
	// says. Only those of one lease go out together.
	share    *share
	lease    int64
	deadline time.Time // zero: none
	err      error
	done     chan struct{} // holds one when it was answered
}

// joints are kept with their channels and the room for their arguments.
var joints = sync.Pool{New: func() any { return &joint{done: make(chan struct{}, 1)} }}

// newJoint is a part of so many items. What it holds is given up by join.
func newJoint(items int) *joint {
	j := joints.Get().(*joint)
	j.items = items
	return j
}

// mostKept bounds the arguments that a joint has kept room for.
const mostKept = 256

// free gives a joint back that nobody else holds.
func (j *joint) free() {
	kept := joint{done: j.done}
	if cap(j.args) <= mostKept {
		clear(j.args)
		clear(j.kinds)
		kept.args, kept.whens, kept.kinds = j.args[:0], j.whens[:0], j.kinds[:0]
	}
	*j = kept
	joints.Put(j)
}

// join hands a call over and waits until it was answered, or until the
// caller's context ends: the call then goes on without it.
func (l *lane) join(ctx context.Context, e *Engine, j *joint) error {
	j.deadline, _ = ctx.Deadline()
	if !l.enter(e, j) {
		return duly.ErrClosed
	}
	select {
	case <-j.done:
		err := j.err
		j.free()
		return err
	case <-ctx.Done():
		return duly.Unanswered(ctx.Err())
	}
}

// enter lets a call wait for its turn. False: the engine is closed, and the call
// is given up.
func (l *lane) enter(e *Engine, j *joint) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.used = append(l.waiting, j), true
	if l.flying == 0 {
		l.idle += j.items
	}
	if !l.hire(e) { // nothing runs, and nobody else waits
		l.waiting, l.idle = nil, 0
		j.free()
		return false
	}
	return true
}

// hire begins another sender unless there are enough; false: there is none. The
// caller holds the lock.
func (l *lane) hire(e *Engine) bool {
	if l.senders < inFlight && e.work.begin(func() { l.run(e) }) {
		l.senders++
	}
	return l.senders > 0
}

// run sends what has gathered until nothing is left.
func (l *lane) run(e *Engine) {
	for {
		l.yield()
		calls := l.gather(e)
		if len(calls) == 0 {
			return
		}
		ctx, end := jointContext(e.ctx, calls)
		err := l.send(ctx, calls)
		end()
		l.mu.Lock()
		l.flying--
		l.mu.Unlock()
		for i, c := range calls {
			c.err = err
			c.done <- struct{}{} // it has room, and c is its caller's again
			calls[i] = nil
		}
		l.mu.Lock()
		l.spare = append(l.spare, calls[:0])
		l.mu.Unlock()
	}
}

// yield lets callers that are about to join do so, for as long as some do: those
// that a call of several has answered come back together, and the first of them
// is not to travel alone. It costs a turn of the scheduler, not time.
func (l *lane) yield() {
	n, last := l.gathered()
	for i := 0; i < mostYields && last > 1; i++ {
		runtime.Gosched()
		more, _ := l.gathered()
		if more <= n {
			return
		}
		n = more
	}
}

// mostYields bounds that: those who still come go out with the next call.
const mostYields = 3

// gathered is how many callers wait, and how many the last call had.
func (l *lane) gathered() (waiting, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting), l.last
}

// gather takes the waiting calls, as many as fit into one.
func (l *lane) gather(e *Engine) []*joint {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := duly.MaxBatch
	if l.flying == 0 && l.idle >= 2*leastHalf {
		most = min(most, l.items()-l.idle/2)
	}
	l.idle = 0
	var calls []*joint
	if len(l.waiting) > 0 {
		calls = l.pick(most)
	}
	if len(calls) == 0 {
		l.senders--
		return nil
	}
	l.flying++
	l.last = len(calls)
	if len(l.waiting) > 0 {
		l.hire(e)
	}
	return calls
}

// pick takes the first call that waits and those behind it that go with it, up
// to so many items, and leaves out those whose callers have gone. The caller
// holds the lock.
func (l *lane) pick(most int) []*joint {
	all := l.waiting
	l.waiting = nil
	if last := len(l.spare) - 1; last >= 0 {
		l.waiting, l.spare = l.spare[last], l.spare[:last]
	}
	calls := all[:0]
	items, bytes, full := 0, 0, false
	for _, c := range all {
		full = full || len(calls) > 0 && c.lease == calls[0].lease && (items+c.items > most || bytes+c.bytes > duly.MaxBatchBytes)
		switch {
		case full || len(calls) > 0 && c.lease != calls[0].lease:
			l.waiting = append(l.waiting, c)
		case c.share == nil || c.share.send():
			calls = append(calls, c)
			items, bytes = items+c.items, bytes+c.bytes
		}
	}
	clear(all[len(calls):])
	return calls
}

// items counts what waits. The caller holds the lock.
func (l *lane) items() (n int) {
	for _, c := range l.waiting {
		n += c.items
	}
	return n
}

// jointContext ends when the last of the callers has no time left; if one of
// them has no deadline, the link's own bound holds.
func jointContext(ctx context.Context, calls []*joint) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, c := range calls {
		if c.deadline.IsZero() {
			return context.WithoutCancel(ctx), func() {} // nothing can end it, so nobody has to watch for that
		}
		if c.deadline.After(last) {
			last = c.deadline
		}
	}
	return context.WithDeadline(ctx, last)
}
