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
		s.Advance(time.Second) // from here on a step may take them back

		acked := make([]error, jobs)
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
			s.judgeReclaimed(d, acked[i])
		}
		for _, d := range s.reserve(jobs) {
			s.ack(d)
		}
	}
	s.sizes(duly.Sizes{Done: rounds * jobs})
}

func (s *scene) judgeReclaimed(d duly.Delivery, acked error) {
	s.Helper()
	info := s.get(d.ID)
	switch {
	case acked == nil:
		if info.State != duly.StateDone || string(info.Result) != d.ID || info.Stalls != 0 || info.Failures != 0 {
			s.Errorf("%s was acked, and is %+v", d.ID, info)
		}
	case errors.Is(acked, duly.ErrLeaseLost):
		if info.State != duly.StateReady || len(info.Result) != 0 || info.Stalls != 1 || info.Failures != 0 {
			s.Errorf("%s was taken back before its ack, and is %+v", d.ID, info)
		}
	default:
		s.Errorf("ack of %s: %v", d.ID, acked)
	}
}
