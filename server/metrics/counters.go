package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// counters count the operations of this process on the jobs of one queue, or on the messages of one
// topic.
type counters struct {
	pushed    [duly.Exists + 1]atomic.Int64 // pushed jobs by outcome
	published [duly.Exists + 1]atomic.Int64 // published messages of a topic by outcome
	delivered atomic.Int64
	settled   [duly.Bury + 1]atomic.Int64 // settled jobs by settlement
	late      atomic.Pointer[durations]   // histogram of lateness; nil means the common histogram
	ticks     [len(tickOutcomes)]atomic.Int64
	tickLate  atomic.Pointer[durations] // histogram of the lateness of ticks; nil without ticks, and as late
}

// tickOutcomes are the outcomes of ticks, in the order of their counters.
var tickOutcomes = [...]string{"fired", "skipped", "missed"}

// pushes returns the counters of pushed jobs. It returns nil for nil.
func (c *counters) pushes() []atomic.Int64 {
	if c == nil {
		return nil
	}
	return c.pushed[:]
}

// settles returns the counters of settlements. It returns none for nil.
func (c *counters) settles() []atomic.Int64 {
	if c == nil {
		return nil
	}
	return c.settled[:]
}

// counterSet holds the counters of all queues.
type counterSet struct {
	slots         *Slots[duly.QueueRef, *counters]
	maxHistograms int
	other         counters // counters of the queues without a slot
	otherLate     *durations
	otherTickLate *durations
}

func newCounterSet(maximum int) *counterSet {
	s := &counterSet{maxHistograms: min(maximum, maxHistograms), otherLate: newDurations(latenessBounds),
		otherTickLate: newDurations(latenessBounds)}
	s.slots = NewSlots(SlotsConfig[duly.QueueRef, *counters]{
		Max: maximum, New: s.newCounters, Evict: func(_ duly.QueueRef, c *counters) { s.evict(c) },
		Name: func(q duly.QueueRef) (string, string) { return q.Namespace, q.Name },
	})
	return s
}

// get returns the counters of a queue with its full name.
func (s *counterSet) get(ref duly.QueueRef) *counters {
	if c, ok := s.slots.Get(ref); ok {
		return c
	}
	return &s.other
}

// tickLateness returns the histogram of a queue's ticks. Few queues have schedules, so it is created with the
// first tick. A queue whose deliveries share a histogram shares this one too.
func (s *counterSet) tickLateness(c *counters) *durations {
	if c.late.Load() == nil {
		return s.otherTickLate
	}
	if c.tickLate.Load() == nil {
		c.tickLate.CompareAndSwap(nil, newDurations(latenessBounds))
	}
	// The queue may lose it meanwhile.
	if h := c.tickLate.Load(); h != nil {
		return h
	}
	return s.otherTickLate
}

// newCounters creates the counters of a queue. The histograms are divided among namespaces in the
// same way as the slots.
func (s *counterSet) newCounters(ref duly.QueueRef, all map[duly.QueueRef]*counters) *counters {
	c, histograms, total := &counters{}, map[string]int{}, 0
	for q, k := range all {
		if k.late.Load() != nil {
			histograms[q.Namespace]++
			total++
		}
	}

	// A histogram takes much more memory than counters, so fewer queues have one.
	if total >= s.maxHistograms && !s.freeHistogram(all, histograms, histograms[ref.Namespace]) {
		return c
	}
	c.late.Store(newDurations(latenessBounds))
	return c
}

// freeHistogram takes a histogram from a namespace with the most histograms, unless the namespace
// with own histograms has a fair share already. It reports whether a histogram is free now.
// histograms has their number by namespace.
func (s *counterSet) freeHistogram(all map[duly.QueueRef]*counters, histograms map[string]int, own int) bool {
	most := 0
	for _, n := range histograms {
		most = max(most, n)
	}
	// Taking a histogram would only swap the two namespaces.
	if own+1 >= most {
		return false
	}

	for q, c := range all {
		if h := c.late.Load(); h != nil && histograms[q.Namespace] == most {
			c.late.Store(nil)
			s.otherLate.absorb(h)
			s.takeTickLateness(c)
			return true
		}
	}
	return false
}

// evict adds the counts of a queue that loses its slot to the common counts. A concurrent count may
// be lost.
func (s *counterSet) evict(c *counters) {
	// Each count moves in one atomic step, so a concurrent increment ends up in one of the two
	// places.
	for i := range c.pushed {
		s.other.pushed[i].Add(c.pushed[i].Swap(0))
	}
	for i := range c.published {
		s.other.published[i].Add(c.published[i].Swap(0))
	}
	s.other.delivered.Add(c.delivered.Swap(0))
	for i := range c.settled {
		s.other.settled[i].Add(c.settled[i].Swap(0))
	}
	for i := range c.ticks {
		s.other.ticks[i].Add(c.ticks[i].Swap(0))
	}
	if h := c.late.Swap(nil); h != nil {
		s.otherLate.absorb(h)
	}
	s.takeTickLateness(c)
}

// takeTickLateness takes the histogram of ticks from a queue.
func (s *counterSet) takeTickLateness(c *counters) {
	if h := c.tickLate.Swap(nil); h != nil {
		s.otherTickLate.absorb(h)
	}
}

// remove frees the slot of a destroyed queue.
func (s *counterSet) remove(ref duly.QueueRef) { s.slots.Remove(ref) }

// Delivered returns how many deliveries this process has reserved from each queue that has separate
// counters.
func (m *Metrics) Delivered() map[duly.QueueRef]int64 {
	counters := m.queues.slots.All()
	all := make(map[duly.QueueRef]int64, len(counters))
	for ref, c := range counters {
		all[ref] = c.delivered.Load()
	}
	return all
}

// LatenessBounds returns the bounds of the buckets of [Metrics.Lateness].
func LatenessBounds() []time.Duration { return slices.Clone(latenessBounds) }

// Lateness returns how late this process delivered the jobs of a namespace, or of one of its queues: the counts of the
// buckets, and of longer times. Queues that share a histogram are left out, so the counts may fall.
func (m *Metrics) Lateness(namespace, queue string) []uint64 {
	sum := make([]uint64, len(latenessBounds)+1)
	for ref, c := range m.queues.slots.All() {
		h := c.late.Load()
		if h == nil || ref.Namespace != namespace || queue != "" && ref.Name != queue {
			continue
		}
		for i := range sum {
			sum[i] += h.counts[i].Load()
		}
	}
	return sum
}

// CallBounds returns the bounds of the buckets of [Metrics.Calls].
func CallBounds() []time.Duration { return slices.Clone(callBounds) }

// Calls returns the durations of the calls of each engine: the counts of the buckets, and of longer calls.
func (m *Metrics) Calls() map[string][]uint64 {
	engines := map[string][]uint64{}
	for name, h := range *m.calls.Load() {
		sum := engines[name[0]]
		if sum == nil {
			sum = make([]uint64, len(callBounds)+1)
			engines[name[0]] = sum
		}
		for i := range sum {
			sum[i] += h.counts[i].Load()
		}
	}
	return engines
}

// NotStored returns the number of jobs that were refused as full or not durable.
func (m *Metrics) NotStored() int64 {
	return m.jobsRefused[duly.CodeFull].Load() + m.jobsRefused[duly.CodeNotDurable].Load()
}

func (s *counterSet) collect(ch chan<- prometheus.Metric) {
	for ref, c := range s.slots.All() {
		c.collect(ch, ref.Namespace, ref.Name)
	}
	s.other.collect(ch, otherName, otherName)
	s.otherLate.collect(ch, jobLateness, otherName, otherName)
	s.otherTickLate.collect(ch, tickLateness, otherName, otherName)
}

// collect omits counters that are zero, because with several servers, many queues are pushed to
// through some of them and emptied through others.
func (c *counters) collect(ch chan<- prometheus.Metric, namespace, queue string) {
	nonZero := func(m *definition, n int64, labels ...string) {
		if n > 0 {
			counterValue(ch, m, n, append([]string{namespace, queue}, labels...)...)
		}
	}

	for o := duly.Created; o <= duly.Exists; o++ {
		nonZero(jobsPushed, c.pushed[o].Load(), o.String())
	}
	for o := duly.Created; o <= duly.Exists; o++ {
		nonZero(published, c.published[o].Load(), o.String())
	}
	nonZero(jobsDelivered, c.delivered.Load())
	for s := duly.Ack; s <= duly.Bury; s++ {
		nonZero(jobsSettled, c.settled[s].Load(), s.String())
	}
	for i, outcome := range tickOutcomes {
		nonZero(ticks, c.ticks[i].Load(), outcome)
	}
	if h := c.late.Load(); h != nil {
		h.collect(ch, jobLateness, namespace, queue)
	}
	if h := c.tickLate.Load(); h != nil {
		h.collect(ch, tickLateness, namespace, queue)
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
	// An engine may have codes of its own.
	if n == nil {
		n = c[duly.CodeInternal]
	}
	n.Add(1)
}

func (c codes) collect(ch chan<- prometheus.Metric, m *definition) {
	for code, n := range c {
		if n := n.Load(); n > 0 {
			counterValue(ch, m, n, string(code))
		}
	}
}
