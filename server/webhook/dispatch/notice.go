package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
	"github.com/dulymq/duly/worker"
)

const (
	// noticeDelay is the delay of a notice. The dispatcher promotes it earlier, unless the
	// dispatcher has died.
	noticeDelay = time.Minute
	// noticeCall is the timeout of one call to the engine about a notice.
	noticeCall = 10 * time.Second
	timeForm   = "2006-01-02T15:04:05.000Z07:00"
)

// notice is the body of a notice, with the parts of its ID.
type notice struct {
	ID        string `json:"id"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	// Outcome is done or dead, like the prefix of the ID.
	Outcome  string `json:"outcome"`
	Attempts int    `json:"attempts"`
	// Status is the status of the last answer; 0 without an answer.
	Status int    `json:"status"`
	Error  string `json:"error"`
	At     string `json:"at"`

	end    string
	number duly.Number
}

// parseNotice reports whether a job is a notice. A producer can push a job with the ID and body of
// a notice. That job is handled as a notice of its own queue, which does no harm.
func parseNotice(job *delivery) (*notice, bool) {
	end, number, ok := strings.Cut(job.ID, ":")
	if !ok || end != sign.Done && end != sign.Dead {
		return nil, false
	}
	n := &notice{end: end}
	if n.number, ok = duly.ParseNumber(number); !ok {
		return nil, false
	}

	// A producer may use an ID of this form for another job, so the body must agree with the ID.
	if json.Unmarshal(job.Body, n) != nil ||
		n.Namespace != job.namespace || n.Queue != job.Queue || n.Outcome != end || n.ID == "" {
		return nil, false
	}
	return n, true
}

// checkNotice reads the state of the job that a notice reports. It returns how long the
// notice waits, or that it is dropped because it would be false.
func (d *Dispatcher) checkNotice(
	ctx context.Context, job *delivery, n *notice,
) (wait time.Duration, drop bool) {
	// If the state can't be read, the notice might be false, so it waits.
	state, err := d.reportedState(ctx, job, n)
	if err != nil {
		return postponement(job.releases()), false
	}

	// A missing job has ended, and was not retained.
	alive := state != duly.StateNone && state != duly.StateDone && state != duly.StateDead
	switch {
	case alive:
		return postponement(job.releases()), false
	case n.end == sign.Dead && state != duly.StateDead, n.end == sign.Done && state == duly.StateDead:
		return 0, true
	}
	return 0, false
}

// reportedState returns the state of the job that a notice reports, or StateNone if the job does
// not exist.
func (d *Dispatcher) reportedState(ctx context.Context, job *delivery, n *notice) (duly.State, error) {
	config, err := d.cfg.Engine.Config(ctx, duly.QueueRef{Namespace: job.namespace, Name: job.Queue})
	if err != nil {
		return duly.StateNone, err
	}

	// Any receipt of the job finds the job, even after its end.
	receipt := contract.ReceiptParts{
		Queue: job.Queue, Shard: contract.ShardOf(n.ID, config.Shards), Number: n.number, Delivery: 1,
	}.Receipt()
	info, err := d.cfg.Engine.GetByReceipt(ctx, job.namespace, receipt)
	if errors.Is(err, duly.ErrNotFound) {
		return duly.StateNone, nil
	}
	return info.State, err
}

// notify stores the notice of a job that is about to end. If that fails, it returns another
// settlement for the job.
func (d *Dispatcher) notify(
	ctx context.Context, w *worker.Delivery, job *delivery, to *Route, decision outcome.Decision,
) error {
	end, url := noticeOf(job, to, decision)
	if url == "" {
		return nil
	}
	n := noticeJob(job, end, url, decision, d.cfg.Clock)
	// The job's slot must not wait for a slow engine for long.
	ctx, cancel := withTimeout(ctx, d.cfg.Clock, noticeCall)
	defer cancel()
	results, err := d.cfg.Engine.Push(ctx, []duly.Job{n})
	if err == nil {
		err = results[0].Err
	}
	if err == nil {
		// The notice is due in a minute, and settled makes it due at once.
		d.notices.add(w.Receipt, duly.QueueRef{Namespace: job.namespace, Name: job.Queue}, n.ID)
		return nil
	}

	// The job must not end before its notice is stored, or the notice could be lost.
	if d.cfg.Observer.NoticeFailed != nil {
		d.cfg.Observer.NoticeFailed(job.namespace, job.Queue)
	}
	d.logLimit.do("notice "+job.namespace+"/"+job.Queue, func() {
		d.cfg.Log.Error("the notice of a job could not be stored; the job waits", "namespace", job.namespace,
			"queue", job.Queue, "id", job.ID, "code", string(duly.CodeOf(err)))
	})
	return worker.Snooze(contract.BackoffDelay(job.Backoff, job.ID, job.Failures+1))
}

// noticeOf returns the kind and the destination of a decision's notice, or "".
func noticeOf(job *delivery, to *Route, decision outcome.Decision) (end, url string) {
	switch {
	case decision.As == duly.Ack:
		return sign.Done, to.OnDone
	case decision.As == duly.Bury, decision.As == duly.Nack && job.Attempt >= job.Tries:
		return sign.Dead, to.OnDead
	}
	return "", ""
}

// noticeJob returns the notice of a job.
func noticeJob(job *delivery, end, url string, decision outcome.Decision, c duly.Clock) duly.Job {
	// The number makes the ID unique, so a repeated try stores the same notice.
	p, _ := contract.ParseReceipt(job.Receipt)
	body, _ := json.Marshal(notice{ // marshaling a notice never fails
		ID: job.ID, Queue: job.Queue, Namespace: job.namespace, Outcome: end, Attempts: job.Attempt,
		Status: decision.Status, Error: contract.CutError(decision.Error), At: c.Now().UTC().Format(timeForm),
	})
	return duly.Job{
		ID: end + ":" + p.Number.String(), Namespace: job.namespace, Queue: job.Queue, Body: body,
		Headers: map[string]string{"content-type": "application/json"}, Callback: url, Delay: noticeDelay,
		// The queue's settings must not expire a notice, nor keep it after its end.
		TTL: duly.None, Retain: duly.None,
	}
}

// settled promotes the notice of a settled job. It does so even if the lease was lost, because a
// repeated settle is refused although the first one counted. If the notice is false, checkNotice
// drops it.
func (d *Dispatcher) settled(w *worker.Delivery, _ duly.Settlement, err error) {
	n, ok := d.notices.remove(w.Receipt)
	if !ok || err != nil && !errors.Is(err, duly.ErrLeaseLost) {
		return
	}
	// The worker settles many jobs in this goroutine, so it must not wait for the engine.
	d.background.Go(func() {
		ctx, cancel := withTimeout(context.Background(), d.cfg.Clock, noticeCall)
		defer cancel()
		// If this fails, the notice is due later, or it is being sent already.
		_ = d.cfg.Engine.Promote(ctx, n.queue, n.id)
	})
}

// withTimeout returns a context that ends after a time of the clock.
func withTimeout(
	ctx context.Context, c duly.Clock, d time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := c.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
