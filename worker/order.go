package worker

import (
	"cmp"
	"slices"

	"github.com/dulymq/duly"
)

// order says in which order the queues are asked. It belongs to the fetch
// loop alone.
type order interface {
	// next is the order for one call. The slice is never changed afterwards:
	// a call that was given up may still read it.
	next() []string
	// took gets what a call has brought that asked in that order. Two of them may be
	// under way.
	took(asked []string, deliveries []duly.Delivery)
}

// newOrder returns a strict order of the routes, or one by weights. It names no queue
// for a route that is for all of them.
func newOrder(routes []*route, strictly bool) order {
	if routes[0].every {
		return strict(nil)
	}
	queues := make([]string, len(routes))
	weights := make([]int, len(routes))
	for i, r := range routes {
		queues[i], weights[i] = r.queue, r.weight
	}

	if strictly || len(routes) == 1 {
		return strict(queues)
	}
	return newWeighted(queues, weights)
}

// strict asks a queue only when those before it had nothing.
type strict []string

func (s strict) next() []string                 { return s }
func (s strict) took([]string, []duly.Delivery) {}

// weighted is stride scheduling: every job moves its queue forward by
// 1/weight, and the queue that is least far goes first. Over a backlog the
// shares are exact whatever the size of the calls, and nothing is drawn by
// lot.
type weighted struct {
	lanes []*lane // in the order of the last call that was sent
	by    map[string]*lane
}

type lane struct {
	queue  string
	weight float64
	pass   float64 // jobs taken / weight
	took   int     // by the last call
}

func newWeighted(queues []string, weights []int) *weighted {
	w := &weighted{by: make(map[string]*lane, len(queues))}
	for i, q := range queues {
		l := &lane{queue: q, weight: float64(weights[i])}
		w.lanes, w.by[q] = append(w.lanes, l), l
	}
	// At first the heaviest goes first.
	slices.SortStableFunc(w.lanes, func(a, b *lane) int { return cmp.Compare(b.weight, a.weight) })
	return w
}

func (w *weighted) next() []string {
	slices.SortStableFunc(w.lanes, func(a, b *lane) int { return cmp.Compare(a.pass, b.pass) })
	queues := make([]string, len(w.lanes))
	for i, l := range w.lanes {
		queues[i] = l.queue
	}
	return queues
}

// took charges the queues. One that was asked and had no more must not save up
// its turns while it is empty, or it would shut the others out when it fills
// up again: it is moved to where the queues stand that were served.
func (w *weighted) took(asked []string, deliveries []duly.Delivery) {
	if len(deliveries) == 0 {
		return
	}
	for i := range deliveries {
		if l := w.by[deliveries[i].Queue]; l != nil {
			l.took++
		}
	}
	last, now := 0, w.by[asked[0]].pass
	for i, q := range asked {
		if l := w.by[q]; l.took > 0 {
			last, now = i, l.pass
		}
	}
	for _, q := range asked[:last] { // those before the last one served are drained
		l := w.by[q]
		l.pass = max(l.pass, now)
	}
	for _, l := range w.lanes {
		l.pass += float64(l.took) / l.weight
		l.took = 0
	}
}
