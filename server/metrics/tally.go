package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// tally is what this process has done with the jobs of one queue.
type tally struct {
	pushed    [duly.Exists + 1]atomic.Int64 // by outcome
	delivered atomic.Int64
	settled   [duly.Bury + 1]atomic.Int64 // by settlement
	late      *durations                  // nil: in the others' together
}

// pushes are the counters of pushes; of no tally none.
func (c *tally) pushes() []atomic.Int64 {
	if c == nil {
		return nil
	}
	return c.pushed[:]
}

// settles are the counters of settlements; of no tally none.
func (c *tally) settles() []atomic.Int64 {
	if c == nil {
		return nil
	}
	return c.settled[:]
}

// tallies are those of all queues. They are found without a lock: a new queue
// makes a new map.
type tallies struct {
	most, mostLate int

	mu    sync.Mutex // held to change known
	known atomic.Pointer[map[duly.QueueRef]*tally]
	other tally // of the queues beyond most
	late  *durations
}

func newTallies(most int) *tallies {
	t := &tallies{most: most, mostLate: min(most, mostHistograms), late: newDurations(latenessBounds)}
	t.known.Store(&map[duly.QueueRef]*tally{})
	return t
}

// of finds the tally of a queue, named in full.
func (t *tallies) of(ref duly.QueueRef) *tally {
	known := *t.known.Load()
	if c := known[ref]; c != nil {
		return c
	}
	if len(known) >= t.most {
		return &t.other
	}
	return t.add(ref)
}

func (t *tallies) add(ref duly.QueueRef) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.known.Load()
	if c := known[ref]; c != nil {
		return c
	}
	if len(known) >= t.most {
		return &t.other
	}
	c := &tally{}
	if t.lateKnown(known) < t.mostLate {
		c.late = newDurations(latenessBounds)
	}
	more := make(map[duly.QueueRef]*tally, len(known)+1)
	for r, old := range known {
		more[r] = old
	}
	more[ref] = c
	t.known.Store(&more)
	return c
}

// lateKnown is how many queues have a histogram of their own.
func (t *tallies) lateKnown(known map[duly.QueueRef]*tally) (n int) {
	for _, c := range known {
		if c.late != nil {
			n++
		}
	}
	return n
}

// forget makes room where a queue is gone.
func (t *tallies) forget(ref duly.QueueRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.known.Load()
	if known[ref] == nil {
		return
	}
	less := make(map[duly.QueueRef]*tally, len(known))
	for r, old := range known {
		if r != ref {
			less[r] = old
		}
	}
	t.known.Store(&less)
}

// Delivered is how many jobs of each queue this process has fetched, of those
// queues that are counted apart.
func (m *Metrics) Delivered() map[duly.QueueRef]int64 {
	known := *m.tallies.known.Load()
	all := make(map[duly.QueueRef]int64, len(known))
	for ref, c := range known {
		all[ref] = c.delivered.Load()
	}
	return all
}

// tell writes all of them down.
func (t *tallies) tell(ch chan<- prometheus.Metric) {
	for ref, c := range *t.known.Load() {
		c.tell(ch, ref.Namespace, ref.Name)
	}
	t.other.tell(ch, otherName, otherName)
	t.late.tell(ch, jobLateness, otherName, otherName)
}

// tell leaves out what has not happened: most queues are pushed to by some
// servers and emptied through others.
func (c *tally) tell(ch chan<- prometheus.Metric, namespace, queue string) {
	some := func(m *defined, n int64, labels ...string) {
		if n > 0 {
			count(ch, m, n, append([]string{namespace, queue}, labels...)...)
		}
	}
	for o := duly.Created; o <= duly.Exists; o++ {
		some(jobsPushed, c.pushed[o].Load(), o.String())
	}
	some(jobsDelivered, c.delivered.Load())
	for s := duly.Ack; s <= duly.Bury; s++ {
		some(jobsSettled, c.settled[s].Load(), s.String())
	}
	if c.late != nil {
		c.late.tell(ch, jobLateness, namespace, queue)
	}
}

// codes counts errors by their code.
type codes map[duly.Code]*atomic.Int64

func newCodes() codes {
	c := codes{}
	for _, code := range duly.Codes() {
		c[code] = &atomic.Int64{}
	}
	return c
}

func (c codes) add(code duly.Code) {
	n := c[code]
	if n == nil { // an engine's that nobody knows
		n = c[duly.CodeInternal]
	}
	n.Add(1)
}

func (c codes) tell(ch chan<- prometheus.Metric, m *defined) {
	for code, n := range c {
		if n := n.Load(); n > 0 {
			count(ch, m, n, string(code))
		}
	}
}
