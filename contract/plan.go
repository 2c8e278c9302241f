package contract

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Planned is a valid job in the form that an engine stores: with every default filled in, and
// with times of the engine's clock in ms since 1970.
type Planned struct {
	// Job has Due, Delay and Made as they were pushed. All other fields are filled in. MaxStalls,
	// TTL and Retain are None if the job has no such limit.
	duly.Job
	// PushedAt is when the job was created by its push, or requeued.
	PushedAt int64
	// DueAt is the due time.
	DueAt int64
	// ExpiresAt is the end of the TTL, in ms. 0 means no TTL.
	ExpiresAt int64
	// MergeKey is the key that the job merges by, or "" if it does not merge; see
	// [duly.Merge.EffectiveKey].
	MergeKey string
}

// PlanJob checks the job and fills in its defaults, for a queue with the given configuration at the
// engine's time now. It does not change the job's ID.
func PlanJob(j duly.Job, cfg *duly.QueueConfig, now time.Time, maxBody int) (Planned, error) {
	if err := ValidateJob(&j, maxBody); err != nil {
		return Planned{}, err
	}
	if err := CheckDelivery(&j, cfg); err != nil {
		return Planned{}, err
	}

	p := Planned{Job: j, PushedAt: clock.Milli(now)}
	p.Namespace = NamespaceOr(j.Namespace)
	p.Headers = lowerHeaders(j.Headers)
	p.fill(cfg.Defaults)
	p.DueAt = dueAt(j.Delay, j.Due, now)
	if p.TTL != duly.None {
		// The end is rounded up, so that no job lives shorter than its TTL.
		p.ExpiresAt = clock.CeilMilli(now.Add(p.TTL))
	}
	return p, p.checkExpiry(j.TTL == 0)
}

// fill fills in the defaults.
func (p *Planned) fill(def duly.Defaults) {
	def = FillDefaults(def)
	if p.Tries == 0 {
		p.Tries = def.Tries
	}
	if p.MaxStalls == 0 {
		p.MaxStalls = def.MaxStalls
	}
	if p.Backoff == "" {
		p.Backoff = def.Backoff
	}
	if p.TTL == 0 {
		p.TTL = def.TTL
	}
	if p.Lease == 0 {
		p.Lease = def.Lease
	}
	if p.Retain == 0 {
		p.Retain = def.Retain
	}

	p.Merge, p.MergeKey = fillMerge(p.Merge, p.Body)
}

func fillMerge(m duly.Merge, body []byte) (duly.Merge, string) {
	if !m.Set() {
		return m, ""
	}
	if m.Mode == "" {
		m.Mode = duly.MergeKeep
	}
	if m.Until == "" {
		m.Until = duly.UntilLeased
	}
	return m, m.EffectiveKey(body)
}

// DueIn returns the due time, in ms, after the delay of a push, a nack, a release or an update. It
// is rounded up, so that no job is early. A delay of 0 means now.
func DueIn(delay time.Duration, now time.Time) int64 {
	if delay == 0 {
		return clock.Milli(now)
	}
	return clock.CeilMilli(now.Add(delay))
}

// dueAt returns the due time, in ms, of a job with a delay or a due time.
func dueAt(delay time.Duration, due, now time.Time) int64 {
	if due.After(now) {
		return clock.CeilMilli(due)
	}
	// A due time in the past counts as now.
	return DueIn(delay, now)
}

func (p *Planned) checkExpiry(byDefault bool) error {
	latest := clock.Milli(duly.MaxTime)
	switch {
	case p.DueAt > latest:
		return Invalid("delay", "ends after %s, the latest time that is possible", duly.MaxTime.Format(time.RFC3339Nano))
	case p.ExpiresAt > latest:
		return Invalid("ttl", "ends after %s, the latest time that is possible", duly.MaxTime.Format(time.RFC3339Nano))
	case p.ExpiresAt != 0 && p.DueAt > p.ExpiresAt:
		return EndsTooSoon(p.TTL, byDefault)
	}
	return nil
}

// Keep merges a push with MergeKeep into the waiting job p: the expiry becomes the later of
// the two.
func (p *Planned) Keep(newer *Planned) {
	if p.outlivedBy(newer.ExpiresAt) {
		p.ExpiresAt, p.TTL = newer.ExpiresAt, newer.TTL
	}
}

// outlivedBy reports whether an expiry is later than the job's own. 0 means no expiry.
func (p *Planned) outlivedBy(expiresAt int64) bool {
	return p.ExpiresAt != 0 && (expiresAt == 0 || expiresAt > p.ExpiresAt)
}

// Replace merges a push with MergeReplace into the waiting job p. p gets every field of the
// newer one except ID, keys, Until and PushedAt.
func (p *Planned) Replace(newer *Planned) {
	old := *p
	*p = *newer
	p.ID, p.OrderKey, p.MergeKey = old.ID, old.OrderKey, old.MergeKey
	p.Merge.Key, p.Merge.Until = old.Merge.Key, old.Merge.Until
	p.PushedAt = old.PushedAt

	if wait := newer.Merge.MaxWait; wait > 0 {
		// Until of the merge may be in the past. The due time is not set to the past, so that the
		// job does not overtake older ones.
		p.DueAt = max(min(p.DueAt, old.PushedAt+clock.Millis(wait)), newer.PushedAt)
	}
}

// ComeBack merges a running job, which is dropped after its delivery, into the newer waiting
// job p. With MergeKeep, p gets the earlier due time and the later expiry.
func (p *Planned) ComeBack(dueAt, expiresAt int64) {
	// With MergeReplace, the newer push decides all times.
	if p.Merge.Mode != duly.MergeKeep {
		return
	}
	p.DueAt = min(p.DueAt, dueAt)
	if p.outlivedBy(expiresAt) {
		p.ExpiresAt = expiresAt
		if expiresAt == 0 {
			p.TTL = duly.None
		}
	}
}

// PlanMessage returns the time, in ms, at which a valid message enters the log. It also returns the
// message as the engine stores it: with the namespace, with header names in lower case, and without
// Delay and Due. A Due in the past becomes now. Plan returns [duly.ErrInvalid] for a due time
// beyond [duly.MaxTime].
func PlanMessage(m duly.Message, now time.Time) (stored duly.Message, due int64, err error) {
	if due = dueAt(m.Delay, m.Due, now); due > clock.Milli(duly.MaxTime) {
		return m, 0, Invalid("delay", "ends after %s, the latest time that is possible", duly.MaxTime.Format(time.RFC3339Nano))
	}
	m.Namespace, m.Headers = NamespaceOr(m.Namespace), lowerHeaders(m.Headers)
	m.Delay, m.Due = 0, time.Time{}
	return m, due, nil
}
