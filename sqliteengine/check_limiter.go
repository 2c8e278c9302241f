package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
)

// The numbers of a limiter correct themselves with the next outcomes. A limiter that waits for a probe
// which is not leased would never open its queue, so the check looks for it.

// limiter compares the limiter of a queue with its configuration and its leased jobs.
func (c *check) limiter(_ context.Context, q *queue) error {
	fault, err := c.t.limiterFault(q)
	if err != nil || fault == "" {
		return err
	}
	ref := q.ref
	c.report(faultLimiter, q, "", fault, func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil {
			return false, nil
		}
		fault, err := t.limiterFault(q)
		if err != nil || fault == "" {
			return false, err
		}
		return true, t.repairLimiter(q)
	})
	return nil
}

// limiterFault describes the fault of the limiter of a queue. It returns "" if there is none.
func (t checkTx) limiterFault(q *queue) (string, error) {
	_, stored, err := t.integer(t.stmt("limiter_has").Int(1, q.id))
	switch {
	case err != nil:
		return "", err
	case stored && q.limiter == nil:
		return "the limits do not adapt, but they have a limiter", nil
	case !stored && q.limiter != nil:
		return "the limits adapt, but they have no limiter", nil
	case q.limiter == nil || !q.limiter.ProbeIsOut():
		return "", nil
	}
	j, err := q.byNumber(t.tx, q.limiter.Probe)
	if err != nil || j != nil && j.state == duly.StateLeased {
		return "", err
	}
	return "the queue waits for probe " + q.limiter.Probe.String() + ", which is not leased", nil
}

// repairLimiter ends a probe that is not leased, and stores or removes the limiter.
func (t checkTx) repairLimiter(q *queue) error {
	if q.limiter == nil {
		_, err := t.stmt("limiter_drop").Int(1, q.id).Run()
		return err
	}
	if q.limiter.ProbeIsOut() {
		q.noteProbeLeft(q.limiter.Probe, t.now)
	}
	return q.putLimiter(t.conn)
}
