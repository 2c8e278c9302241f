package wait

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// Probe shows tests that control the clock what a hub does.
type Probe struct{ h *Hub }

// Probe returns the hub's probe.
func (h *Hub) Probe() Probe { return Probe{h} }

// DisableRecheck turns off the poll every two seconds, so that a lost wake-up stays lost. It must
// be called before the first Wait.
func (p Probe) DisableRecheck() { p.h.recheck = time.Hour }

// Idle blocks until no activity runs inside the hub, and returns the number of activities that ever
// began.
func (p Probe) Idle() uint64 { return p.h.busy.wait() }

// Waiters returns how many callers wait. If quiet is set, it omits callers that wait for a queue
// that may have jobs.
func (p Probe) Waiters(quiet bool) (n int) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for d, v := range p.h.views {
		if v.quiet || !quiet {
			n += p.h.waiters.Waiting(d)
		}
	}
	return n
}

// Outstanding reports whether a waiter of a queue was woken and has not reserved yet.
func (p Probe) Outstanding(ref duly.QueueRef) bool {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	_, outstanding := p.h.waiters.NextExpiry(Door{Ref: ref})
	return outstanding
}

// Turns returns how many blocking calls each group has begun.
func (p Probe) Turns() map[string]uint64 {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	turns := map[string]uint64{}
	for group, w := range p.h.watches {
		turns[group] = w.turns
	}
	return turns
}

// Markers returns the watched markers.
func (p Probe) Markers() (markers []string) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for marker := range p.h.watched {
		markers = append(markers, marker)
	}
	return markers
}

// DueTimers returns for how many shards this process has a due timer.
func (p Probe) DueTimers() int {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return len(p.h.dueTimers)
}

// ForgetDueTimer drops the due timer of a shard.
func (p Probe) ForgetDueTimer(s *catalog.Shard) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if m := p.h.dueTimers[s.Name("marker")]; m != nil {
		m.timer.Stop()
		delete(p.h.dueTimers, s.Name("marker"))
	}
}

// String describes the hub's state for a failed test.
func (p Probe) String() string {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d watchers, %d markers, %d guesses, clock %v\n", len(p.h.watches), len(p.h.watched), p.h.guesses,
		p.h.Local().Mono())
	for d, v := range p.h.views {
		next, outstanding := p.h.waiters.NextExpiry(d)
		fmt.Fprintf(
			&b, "\t%v: %d waiters, quiet %t, known %t, woken %t until %v\n", d, p.h.waiters.Waiting(d), v.quiet,
			v.q != nil, outstanding, next,
		)
	}
	for marker, m := range p.h.dueTimers {
		fmt.Fprintf(&b, "\tkeeps %s: %d at %v\n", marker, m.at, m.fires)
	}
	return b.String()
}
