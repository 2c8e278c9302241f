package failures

import "github.com/dulymq/duly"

// Known returns the groups of a namespace as the last looks have counted them. It makes no call, and leaves out a queue
// that a look is counting.
func (t *Tracker) Known(namespace string) *Report {
	t.mu.Lock()
	known := map[duly.QueueRef]*queue{}
	for ref, q := range t.queues {
		if ref.Namespace == namespace {
			known[ref] = q
		}
	}
	t.mu.Unlock()

	r := &Report{groups: map[string]*Group{}}
	for ref, q := range known {
		select {
		case <-q.turn:
			if q.shown != nil {
				r.add(ref.Name, q.shown)
			}
			q.turn <- struct{}{}
		default:
		}
	}
	r.sort()
	return r
}
