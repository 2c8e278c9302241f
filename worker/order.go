package worker

import (
	"cmp"
	"slices"

	"github.com/dulymq/duly"
)

// order chooses the order in which a Reserve names the queues. Only the fetch loop uses it.
type order interface {
	// next returns the order for one call. The returned slice is never changed, because a call that
	// the worker has given up may still read it.
	next() []string
	// record records the deliveries of a call that named the queues in the order asked. Two calls
	// may be in flight.
	record(asked []string, deliveries []duly.Delivery)
}

// newOrder returns a strict order of the routes, or an order by weights. With HandleEvery it names
// no queue.
func newOrder(routes []*route, isStrict bool) order {
	if routes[0].every {
		return strictOrder(nil)
	}
	queues := make([]string, len(routes))
	weights := make([]int, len(routes))
	for i, r := range routes {
		queues[i], weights[i] = r.queue, r.weight
	}

	if isStrict || len(routes) == 1 {
		return strictOrder(queues)
	}
	return newWeightedOrder(queues, weights)
}

// strictOrder always names the queues in the same order, and an engine takes jobs of a
// queue only if the queues before it have too few.
type strictOrder []string

func (s strictOrder) next() []string                   { return s }
func (s strictOrder) record([]string, []duly.Delivery) {}

// weightedOrder is stride scheduling: every job adds 1/weight to the pass of its queue, and the
// queue with the lowest pass goes first. With a backlog the shares are exact for calls of any size,
// and nothing is random.
type weightedOrder struct {
	queues []*weightedQueue // queues in the order of the last call
	byName map[string]*weightedQueue
}

type weightedQueue struct {
	name   string
	weight float64
	pass   float64 // sum of 1/weight over the reserved jobs
	jobs   int     // jobs of this queue in the call that is being recorded
}

func newWeightedOrder(names []string, weights []int) *weightedOrder {
	w := &weightedOrder{byName: make(map[string]*weightedQueue, len(names))}
	for i, name := range names {
		q := &weightedQueue{name: name, weight: float64(weights[i])}
		w.queues, w.byName[name] = append(w.queues, q), q
	}
	// At the beginning, the queue with the largest weight goes first.
	slices.SortStableFunc(w.queues, func(a, b *weightedQueue) int { return cmp.Compare(b.weight, a.weight) })
	return w
}

func (w *weightedOrder) next() []string {
	slices.SortStableFunc(w.queues, func(a, b *weightedQueue) int { return cmp.Compare(a.pass, b.pass) })
	names := make([]string, len(w.queues))
	for i, q := range w.queues {
		names[i] = q.name
	}
	return names
}

// record adds the jobs of a call to the passes of their queues.
func (w *weightedOrder) record(asked []string, deliveries []duly.Delivery) {
	if len(deliveries) == 0 {
		return
	}
	for i := range deliveries {
		if q := w.byName[deliveries[i].Queue]; q != nil {
			q.jobs++
		}
	}

	// The queues that were served have the pass of the last queue that had jobs.
	last, pass := 0, w.byName[asked[0]].pass
	for i, name := range asked {
		if q := w.byName[name]; q.jobs > 0 {
			last, pass = i, q.pass
		}
	}
	// The queues before the last one that was served are empty. An empty queue must not save up its
	// turns, because it would block the other queues when it fills up again. So it gets the pass of
	// the queues that were served.
	for _, name := range asked[:last] {
		q := w.byName[name]
		q.pass = max(q.pass, pass)
	}

	for _, q := range w.queues {
		q.pass += float64(q.jobs) / q.weight
		q.jobs = 0
	}
}
