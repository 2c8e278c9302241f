package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
	"github.com/dulymq/duly/worker"
)

// maxPostponement is the longest time for which a job that cannot be sent is released.
const maxPostponement = 5 * time.Minute

// handle makes one try, and returns how the worker settles the job.
func (d *Dispatcher) handle(ctx context.Context, w *worker.Delivery) error {
	job := &delivery{Delivery: w.Delivery}
	job.namespace, job.Receipt = unwrap(w.Receipt)
	d.checkClock(job)

	// A notice must be true, so it is sent only if the state of the reported job agrees.
	n, isNotice := parseNotice(job)
	if isNotice {
		switch wait, drop := d.checkNotice(ctx, job, n); {
		case drop:
			return nil
		case wait > 0:
			return worker.Snooze(wait)
		}
	}

	// Settings are read for each try, so a change applies to old jobs too.
	to, err := d.cfg.Resolver.Resolve(ctx, &job.Delivery)
	if err != nil {
		return d.postpone(job, err)
	}
	d.noteEnabled(job.namespace, to.To)
	d.hosts.add(job.namespace, webhook.HostOf(to.To.URL))

	decision, took := d.try(ctx, job, to.To, n)
	if decision.Rule == webhook.NotSent {
		return d.heldBack(job, to.To, decision)
	}
	// A 410 stops the whole target, and the target's other jobs wait for an operator.
	if decision.Disables {
		decision.Delay = d.disable(ctx, job, to.To)
	}
	// The notice is stored before the job ends. Otherwise a crash in between would lose the notice.
	if !isNotice {
		if instead := d.notify(ctx, w, job, to, decision); instead != nil {
			return instead
		}
	}
	return settlement(w, job, to.To, decision, took)
}

// delivery is a delivery with its namespace and its own receipt.
type delivery struct {
	duly.Delivery
	namespace string
}

// releases returns the number of the job's earlier deliveries that ended in release.
func (j *delivery) releases() int { return webhook.Job{Delivery: &j.Delivery}.Releases() }

// webhookID returns the webhook-id of the job. Engines do not store whether a client
// generated an ID, so every webhook-id names the namespace and the queue.
func (j *delivery) webhookID(n *notice) string {
	if n != nil {
		return sign.NoticeID(sign.ID(j.namespace, j.Queue, n.ID, false), n.end)
	}
	return sign.ID(j.namespace, j.Queue, j.ID, false)
}

// try sends the job, when there is memory for its body.
func (d *Dispatcher) try(
	ctx context.Context, job *delivery, to *webhook.Destination, n *notice,
) (outcome.Decision, time.Duration) {
	release, err := d.memory.acquire(ctx, len(job.Body))
	if err != nil {
		return outcome.Decision{Rule: webhook.NotSent, As: duly.Release}, 0
	}
	defer release()

	began := d.cfg.Clock.Mono()
	one := webhook.Job{Namespace: job.namespace, WebhookID: job.webhookID(n), Delivery: &job.Delivery}
	// The span begins only when the request begins, not while the job waits at its gate.
	ended := func(int, duly.Settlement) {}
	if d.cfg.Trace != nil {
		one.Trace = func() (headers map[string]string) {
			headers, ended = d.cfg.Trace(ctx, &job.Delivery, webhook.HostOf(to.URL))
			return headers
		}
	}

	decision := d.sender.Send(ctx, one, to)
	ended(decision.Status, decision.As)
	// A job that its gate held back made no request.
	took := d.cfg.Clock.Mono() - began
	if decision.Rule != webhook.NotSent {
		d.reportTry(job, to, decision, took)
	}
	return decision, took
}

// reportTry reports a request to the observer.
func (d *Dispatcher) reportTry(job *delivery, to *webhook.Destination, decision outcome.Decision, took time.Duration) {
	if d.cfg.Observer.Tried == nil {
		return
	}
	d.cfg.Observer.Tried(Try{
		Namespace: job.namespace, Queue: job.Queue, Target: to.Target, Host: webhook.HostOf(to.URL),
		Status: decision.Status, As: decision.As, Took: took, Bytes: len(job.Body),
		First: job.Attempt == 1 && job.releases() == 0, Late: job.Now.Sub(job.Due),
	})
}

// heldBack returns the settlement of a job that its gate has held back.
func (d *Dispatcher) heldBack(job *delivery, to *webhook.Destination, decision outcome.Decision) error {
	if decision.Delay == nil { // the lease is lost, or the server is stopping
		return worker.Release()
	}
	if d.cfg.Observer.HeldBack != nil {
		d.cfg.Observer.HeldBack(job.namespace, to.Target, webhook.HostOf(to.URL))
	}
	return worker.Snooze(*decision.Delay)
}

// postpone returns the settlement of a job whose destination cannot be resolved: bury for an
// invalid destination, and release for all other reasons.
func (d *Dispatcher) postpone(job *delivery, err error) error {
	// These faults are permanent, so a retry would be useless.
	var refused *guard.Refused
	if errors.As(err, &refused) || errors.Is(err, duly.ErrInvalid) {
		return worker.Bury(&failure{job: job, text: "the destination is refused: " + err.Error(), rule: "C16.70",
			err: err})
	}

	// An error of the engine has no reason of its own.
	postponed := &Postponed{Reason: Unknown, Err: err}
	errors.As(err, &postponed)
	switch postponed.Reason {
	case Disabled:
		d.disabled.add(job.namespace, postponed.Target)
	case Unreadable:
		d.logLimit.do("secret "+job.namespace+"/"+postponed.Target, func() {
			d.cfg.Log.Error("a secret can't be read; its jobs wait",
				"namespace", job.namespace, "target", postponed.Target, "error", err)
		})
	default:
		d.logLimit.do("destination "+job.namespace+"/"+job.Queue+"/"+postponed.Target, func() {
			d.cfg.Log.Warn("the destination of a job can't be found; the job waits", "namespace", job.namespace,
				"queue", job.Queue, "target", postponed.Target, "code", string(duly.CodeOf(err)))
		})
	}
	if d.cfg.Observer.Postponed != nil {
		d.cfg.Observer.Postponed(job.namespace, postponed.Target, postponed.Reason)
	}
	return worker.Snooze(postponement(job.releases()))
}

// postponement returns the time for which a job that cannot be sent is released. With the number of
// releases it grows from the length of a gate's first closure up to maxPostponement. So a job that
// waits for days has fewer than 1000 releases, after which a throttled try would count.
func postponement(releases int) time.Duration {
	return min(gate.FirstClosure<<min(releases, 6), maxPostponement)
}

// settlement returns the worker's settlement of a job that was sent.
func settlement(
	w *worker.Delivery, job *delivery, to *webhook.Destination, decision outcome.Decision, took time.Duration,
) error {
	failed := &failure{job: job, host: to.URL.Host, text: decision.Error,
		took: took, rule: decision.Rule, status: decision.Status}

	switch {
	case decision.As == duly.Ack && decision.Result != nil:
		return w.SetResult(decision.Result)
	case decision.As == duly.Ack:
		return nil
	case decision.As == duly.Bury:
		return worker.Bury(failed)
	case decision.As == duly.Nack && decision.Delay != nil:
		return worker.RetryAfter(*decision.Delay, failed)
	case decision.As == duly.Nack:
		return failed
	case decision.Delay == nil:
		return worker.Release()
	case decision.Closes:
		// The receiver has no capacity, which lowers the adaptive limit of the queue. The queue stays
		// open, because its other jobs may go to other hosts (C18.18).
		return worker.Overloaded(0, worker.Snooze(*decision.Delay))
	}
	return worker.Snooze(*decision.Delay)
}

// failure is the error of a try. The job gets its text, and the log its parts.
type failure struct {
	job    *delivery
	host   string
	text   string
	rule   string
	status int
	took   time.Duration
	err    error
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap returns the cause, or nil.
func (f *failure) Unwrap() error { return f.err }

// LogValue implements [slog.LogValuer]. The log has no body and no path.
func (f *failure) LogValue() slog.Value {
	return slog.GroupValue(slog.String("namespace", f.job.namespace), slog.String("host", f.host),
		slog.Int("status", f.status), slog.Int64("ms", f.took.Milliseconds()), slog.String("rule", f.rule))
}

// disable disables the named target of a job after the answer 410. It returns how long the
// job is released.
func (d *Dispatcher) disable(ctx context.Context, job *delivery, to *webhook.Destination) *time.Duration {
	wait := postponement(job.releases())
	if err := d.cfg.Resolver.Disable(ctx, job.namespace, to.Target); err != nil {
		d.cfg.Log.Error("a target that answered 410 could not be disabled; retrying at its next try",
			"namespace", job.namespace, "target", to.Target, "error", err)
		// The next try repeats this call, because the host will answer 410 again.
		return &wait
	}

	// When the target is enabled again, its host gets few requests first.
	d.disabled.add(job.namespace, to.Target)
	if d.cfg.Observer.TargetDisabled != nil {
		d.cfg.Observer.TargetDisabled(job.namespace, to.Target)
	}
	d.cfg.Log.Warn("a target is disabled because it answered 410; its jobs wait",
		"namespace", job.namespace, "target", to.Target, "host", to.URL.Host)
	return &wait
}

// noteEnabled restarts the gate of a target that was disabled, so that requests start slowly.
func (d *Dispatcher) noteEnabled(namespace string, to *webhook.Destination) {
	if to.Target != "" && d.disabled.remove(namespace, to.Target) {
		d.gates.Restart(webhook.HostOf(to.URL))
		d.cfg.Log.Info("a target is enabled again",
			"namespace", namespace, "target", to.Target, "host", to.URL.Host)
	}
}

// checkClock compares the clock of this process with the clock of the engine.
func (d *Dispatcher) checkClock(job *delivery) {
	by := d.cfg.Clock.Now().Sub(job.Now)
	if d.cfg.Observer.ClockDiffers != nil {
		d.cfg.Observer.ClockDiffers(by)
	}
	switch begins, ends := d.drift.observe(by); {
	case begins:
		d.cfg.Log.Error("the clock of this server differs from the engine's; receivers may refuse signatures",
			"by", by)
	case ends:
		d.cfg.Log.Info("the clock of this server agrees with the engine's again", "by", by)
	}
}
