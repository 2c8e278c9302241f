package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
)

// The order of the ticks is an index of table schedules, so SQLite maintains it. The check finds
// all other faults: records that cannot be read, and ticks that the timer would miss (faultMoment).

// schedules reads every schedule of a queue.
func (c *check) schedules(ctx context.Context, q *queue) error {
	last := ""
	// A page that is not full is the last one.
	for n := checkPage; n == checkPage; {
		n = 0
		s := c.t.stmt("check_schedules").Int(1, q.id).Text(2, last).Int(3, checkPage)
		for {
			row, err := s.Step()
			if err != nil {
				return err
			}
			if !row {
				break
			}
			n++
			r, err := scanSchedule(s, q.ref)
			// The name of an unreadable schedule is readable, so the next page starts after that
			// name.
			if last = r.Name; err != nil {
				c.report(faultSchedule, q, r.Name, err.Error(), repairSchedule(q.ref, r.Name))
			}
		}

		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func repairSchedule(ref duly.QueueRef, name string) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil {
			return false, nil
		}
		return q.setAside(t.tx, name)
	}
}
