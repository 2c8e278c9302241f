package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// tally is what this process has done with the jobs of one queue, or the messages of
// one topic.
type tally struct {
	pushed    [duly.Exists + 1]atomic.Int64 // by outcome
	published [duly.Exists + 1]atomic.Int64 // by outcome, of a topic
	delivered atomic.Int64
	settled   [duly.Bury + 1]atomic.Int64 // by settlement
	late      atomic.Pointer[durations]   // nil: in the others' together
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

// tallies are those of all queues.
type tallies struct {
	places   *Places[duly.QueueRef, *tally]
	mostLate int
	other    tally // of the queues without a place
	late     *durations
}

func newTallies(most int) *tallies {
	t := &tallies{mostLate: min(most, mostHistograms), late: newDurations(latenessBounds)}
	t.places = NewPlaces(PlacesConfig[duly.QueueRef, *tally]{
		Most: most, Join: t.join, Leave: func(_ duly.QueueRef, c *tally) { t.leave(c) },
		Name: func(q duly.QueueRef) (string, string) { return q.Namespace, q.Name },
	})
	return t
}

// of returns the tally of a queue, named in full.
func (t *tallies) of(ref duly.QueueRef) *tally {
	if c, ok := t.places.Of(ref); ok {
		return c
	}
	return &t.other
}

// join makes the tally of a queue. The histograms are shared among the
// namespaces like the places.
func (t *tallies) join(ref duly.QueueRef, known map[duly.QueueRef]*tally) *tally {
	c, late, all := &tally{}, map[string]int{}, 0
	for q, k := range known {
		if k.late.Load() != nil {
			late[q.Namespace]++
			all++
		}
	}

	if all >= t.mostLate && !t.freeLate(known, late, late[ref.Namespace]) {
		return c
	}
	c.late.Store(newDurations(latenessBounds))
	return c
}

// freeLate takes a histogram from the namespace that has the most, unless a
// namespace with so many has as good as its share. It reports whether one is free
// now. late has the histograms by namespace.
func (t *tallies) freeLate(known map[duly.QueueRef]*tally, late map[string]int, own int) bool {
	most := 0
	for _, n := range late {
		most = max(most, n)
	}
	if own+1 >= most {
		return false
	}

	for q, c := range known {
		if h := c.late.Load(); h != nil && late[q.Namespace] == most {
			c.late.Store(nil)
			t.late.take(h)
			return true
		}
	}
	return false
}

// leave adds the counts of a queue that loses its place to those of the others.
// What is counted at this very moment may be lost.
func (t *tallies) leave(c *tally) {
	for i := range c.pushed {
		t.other.pushed[i].Add(c.pushed[i].Swap(0))
	}
	for i := range c.published {
		t.other.published[i].Add(c.published[i].Swap(0))
	}
	t.other.delivered.Add(c.delivered.Swap(0))
	for i := range c.settled {
		t.other.settled[i].Add(c.settled[i].Swap(0))
	}
	if h := c.late.Swap(nil); h != nil {
		t.late.take(h)
	}
}

// forget makes room where a queue is gone.
func (t *tallies) forget(ref duly.QueueRef) { t.places.Forget(ref) }

// Delivered is how many jobs of each queue this process has fetched, of those
// queues that are counted apart.
func (m *Metrics) Delivered() map[duly.QueueRef]int64 {
	known := m.tallies.places.Known()
	all := make(map[duly.QueueRef]int64, len(known))
	for ref, c := range known {
		all[ref] = c.delivered.Load()
	}
	return all
}

// tell writes all of them down.
func (t *tallies) tell(ch chan<- prometheus.Metric) {
	for ref, c := range t.places.Known() {
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
	for o := duly.Created; o <= duly.Exists; o++ {
		some(published, c.published[o].Load(), o.String())
	}
	some(jobsDelivered, c.delivered.Load())
	for s := duly.Ack; s <= duly.Bury; s++ {
		some(jobsSettled, c.settled[s].Load(), s.String())
	}
	if h := c.late.Load(); h != nil {
		h.tell(ch, jobLateness, namespace, queue)
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
