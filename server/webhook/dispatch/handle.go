package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
	"github.com/dulymq/duly/worker"
)

// longestWait is how long a job that cannot be sent waits until its next look.
const longestWait = 5 * time.Minute

// handle makes one try, and returns how the worker settles the job.
func (d *Dispatcher) handle(ctx context.Context, w *worker.Delivery) error {
	job := &delivery{Delivery: w.Delivery}
	job.namespace, job.Receipt = unwrap(w.Receipt)
	d.checkClock(job)

	n, isNotice := parseNotice(job)
	if isNotice {
		switch wait, drop := d.judgeNotice(ctx, job, n); {
		case drop:
			return nil
		case wait > 0:
			return worker.Snooze(wait)
		}
	}
	to, err := d.cfg.Resolver.Resolve(ctx, &job.Delivery)
	if err != nil {
		return d.unresolved(job, err)
	}
	d.enabled(job.namespace, to.To)
	d.users.note(job.namespace, webhook.HostOf(to.To.URL))

	decision, took := d.try(ctx, job, to.To, n)
	if decision.Rule == notSent {
		return d.heldBack(job, to.To, decision)
	}
	if decision.Disables {
		decision.Delay = d.disable(ctx, job, to.To)
	}
	if !isNotice {
		if instead := d.notify(ctx, w, job, to, decision); instead != nil {
			return instead
		}
	}
	return settlement(w, job, to.To, decision, took)
}

// notSent is the rule of a decision about a job that was not sent.
const notSent = "C16.71"

// delivery is a delivery with its namespace and its own receipt.
type delivery struct {
	duly.Delivery
	namespace string
}

// releases returns how many earlier deliveries of the job ended in release.
func (j *delivery) releases() int {
	p, _ := contract.ParseReceipt(j.Receipt)
	return max(int(p.Delivery)-1-j.Failures-j.Stalls, 0)
}

// webhookID returns the webhook-id of the job. Engines do not store whether a client
// generated an ID, so every webhook-id names the namespace and the queue.
func (j *delivery) webhookID(n *notice) string {
	if n != nil {
		return sign.NoticeID(sign.ID(j.namespace, j.Queue, n.ID, false), n.end)
	}
	return sign.ID(j.namespace, j.Queue, j.ID, false)
}

// try sends the job.
func (d *Dispatcher) try(ctx context.Context, job *delivery, to *webhook.Destination, n *notice) (outcome.Decision, time.Duration) {
	give, err := d.memory.take(ctx, len(job.Body))
	if err != nil {
		return outcome.Decision{Rule: notSent, As: duly.Release}, 0
	}
	defer give()

	began := d.cfg.Clock.Mono()
	one := webhook.Job{Namespace: job.namespace, WebhookID: job.webhookID(n), Delivery: &job.Delivery}
	ended := func(int, duly.Settlement) {}
	if d.cfg.Trace != nil {
		one.Trace = func() (headers map[string]string) {
			headers, ended = d.cfg.Trace(ctx, &job.Delivery, webhook.HostOf(to.URL))
			return headers
		}
	}
	decision := d.sender.Send(ctx, one, to)
	ended(decision.Status, decision.As)
	took := d.cfg.Clock.Mono() - began
	if decision.Rule != notSent {
		d.tried(job, to, decision, took)
	}
	return decision, took
}

// tried reports a request to the observer.
func (d *Dispatcher) tried(job *delivery, to *webhook.Destination, decision outcome.Decision, took time.Duration) {
	if d.cfg.Observer.Tried == nil {
		return
	}
	d.cfg.Observer.Tried(Try{
		Namespace: job.namespace, Queue: job.Queue, Target: to.Target, Host: webhook.HostOf(to.URL), Status: decision.Status, As: decision.As,
		Took: took, Bytes: len(job.Body), First: job.Attempt == 1 && job.releases() == 0, Late: job.Now.Sub(job.Due),
	})
}

// heldBack returns how a job is settled that was not sent.
func (d *Dispatcher) heldBack(job *delivery, to *webhook.Destination, decision outcome.Decision) error {
	if decision.Delay == nil { // the lease is lost, or the server stops
		return worker.Release()
	}
	if d.cfg.Observer.HeldBack != nil {
		d.cfg.Observer.HeldBack(job.namespace, to.Target, webhook.HostOf(to.URL))
	}
	return worker.Snooze(*decision.Delay)
}

// unresolved returns how a job is settled for which there is no destination now.
func (d *Dispatcher) unresolved(job *delivery, err error) error {
	var refused *guard.Refused
	if errors.As(err, &refused) || errors.Is(err, duly.ErrInvalid) {
		return worker.Bury(&failure{job: job, text: "the destination is refused: " + err.Error(), rule: "C16.70", err: err})
	}

	held := &Held{Reason: Unknown, Err: err}
	errors.As(err, &held)
	switch held.Reason {
	case Disabled:
		d.targets.wait(job.namespace, held.Target)
	case Unreadable:
		d.faults.report("secret "+job.namespace+"/"+held.Target, func() {
			d.cfg.Log.Error("a secret can't be read; its jobs wait", "namespace", job.namespace, "target", held.Target, "error", err)
		})
	default:
		d.faults.report("destination "+job.namespace+"/"+job.Queue+"/"+held.Target, func() {
			d.cfg.Log.Warn("a destination can't be found; its jobs wait", "namespace", job.namespace, "queue", job.Queue, "target", held.Target,
				"code", string(duly.CodeOf(err)))
		})
	}
	if d.cfg.Observer.Waits != nil {
		d.cfg.Observer.Waits(job.namespace, held.Target, held.Reason)
	}
	return worker.Snooze(patience(job.releases()))
}

// patience returns how long a job waits that cannot be sent, after so many releases:
// from the first closure of a gate up to longestWait. A job that waits for days is
// released less than 1000 times, after which a throttled try would count.
func patience(releases int) time.Duration {
	return min(gate.FirstClosure<<min(releases, 6), longestWait)
}

// settlement returns how the worker settles a job that was sent.
func settlement(w *worker.Delivery, job *delivery, to *webhook.Destination, decision outcome.Decision, took time.Duration) error {
	failed := &failure{job: job, host: to.URL.Host, text: decision.Error, took: took, rule: decision.Rule, status: decision.Status}
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
	case decision.Delay != nil:
		return worker.Snooze(*decision.Delay)
	}
	return worker.Release()
}

// failure is the error of a try. Its text goes into the job, and the log gets its parts.
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

// Unwrap returns the cause, if it is an error.
func (f *failure) Unwrap() error { return f.err }

// LogValue implements [slog.LogValuer]. The log has no body and no path.
func (f *failure) LogValue() slog.Value {
	return slog.GroupValue(slog.String("namespace", f.job.namespace), slog.String("host", f.host), slog.Int("status", f.status),
		slog.Int64("ms", f.took.Milliseconds()), slog.String("rule", f.rule))
}

// disable disables the named target of a job that was answered 410.
func (d *Dispatcher) disable(ctx context.Context, job *delivery, to *webhook.Destination) *time.Duration {
	wait := patience(job.releases())
	if err := d.cfg.Resolver.Disable(ctx, job.namespace, to.Target); err != nil {
		d.cfg.Log.Error("a target that answered 410 can't be disabled", "namespace", job.namespace, "target", to.Target, "error", err)
		return &wait
	}
	d.targets.wait(job.namespace, to.Target)
	if d.cfg.Observer.TargetDisabled != nil {
		d.cfg.Observer.TargetDisabled(job.namespace, to.Target)
	}
	d.cfg.Log.Warn("a target is disabled because it answered 410; its jobs wait", "namespace", job.namespace, "target", to.Target, "host", to.URL.Host)
	return &wait
}

// enabled lets the gate of a target that was disabled begin slowly.
func (d *Dispatcher) enabled(namespace string, to *webhook.Destination) {
	if to.Target != "" && d.targets.back(namespace, to.Target) {
		d.gates.Restart(webhook.HostOf(to.URL))
		d.cfg.Log.Info("a target is enabled again", "namespace", namespace, "target", to.Target, "host", to.URL.Host)
	}
}

// checkClock compares the clock of this process with that of the engine.
func (d *Dispatcher) checkClock(job *delivery) {
	by := d.cfg.Clock.Now().Sub(job.Now)
	if d.cfg.Observer.ClockDiffers != nil {
		d.cfg.Observer.ClockDiffers(by)
	}
	switch begins, ends := d.watch.note(by); {
	case begins:
		d.cfg.Log.Error("the clock of this server differs from the engine's; receivers may refuse signatures", "by", by)
	case ends:
		d.cfg.Log.Info("the clock of this server agrees with the engine's again", "by", by)
	}
}
