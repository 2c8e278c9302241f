package enginetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

// reclaimRacesCompletion runs acks concurrently with the steps that reclaim
// expired leases. After a successful ack the job does not change and is not
// delivered again.
func reclaimRacesCompletion(s *scene) {
	const rounds, jobs = 10, 16
	for round := range rounds {
		for i := range jobs {
			s.push(duly.Job{ID: fmt.Sprintf("%d-%d", round, i), Lease: time.Second, Retain: 100 * time.Hour})
		}
		ds := s.reserve(jobs)
		// A step may reclaim the leases from now on.
		s.Advance(time.Second)

		acked := make([]error, jobs)
		// Half of the calls step the queue, half acknowledge a job.
		s.each(2*jobs, func(n *scene, i int) {
			if i%2 == 1 {
				n.step()
				return
			}
			d := ds[i/2]
			acked[i/2] = n.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: []byte(d.ID)})
		})

		s.step()
		for i, d := range ds {
			s.checkReclaimed(d, acked[i])
		}

		// The reclaimed jobs are acked, so that all of them end as done.
		for _, d := range s.reserve(jobs) {
			s.ack(d)
		}
	}
	s.sizes(duly.Sizes{Done: rounds * jobs})
}

func (s *scene) checkReclaimed(d duly.Delivery, acked error) {
	s.Helper()
	info := s.get(d.ID)
	switch {
	case acked == nil:
		if info.State != duly.StateDone || string(info.Result) != d.ID || info.Stalls != 0 || info.Failures != 0 {
			s.Errorf("%s was acked, but Get returns %+v", d.ID, info)
		}
	case errors.Is(acked, duly.ErrLeaseLost):
		if info.State != duly.StateReady || len(info.Result) != 0 || info.Stalls != 1 || info.Failures != 0 {
			s.Errorf("the lease of %s was reclaimed before its ack, but Get returns %+v", d.ID, info)
		}
	default:
		s.Errorf("the ack of %s returns %v, want nil or lease_lost", d.ID, acked)
	}
}
