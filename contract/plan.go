package contract

import (
	"time"

	"github.com/dulymq/duly/internal/clock"

	"github.com/dulymq/duly"
)

// Planned is a job as an engine stores it: judged, with every default taken
// and every time on the engine's clock, in ms since 1970.
type Planned struct {
	// Job has Due, Delay and Made as they were pushed; everything else is
	// filled in. MaxStalls, TTL and Retain are None where there is none.
	duly.Job
	// PushedAt is when the job was made by its push, or requeued.
	PushedAt int64
	// DueAt is its due moment.
	DueAt int64
	// ExpiresAt is the end of its TTL; 0 for none.
	ExpiresAt int64
	// MergeKey is the key that it merges by, "" for none. One that was taken
	// from the body begins with a control character and so is never equal to
	// one that was set.
	MergeKey string
}

// PlanJob checks the job and fills in its defaults, for a queue of that configuration at
// the engine's time now. It does not change the job's ID.
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
		p.ExpiresAt = clock.CeilMilli(now.Add(p.TTL))
	}
	return p, p.checkExpiry(j.TTL == 0)
}

// fill takes the defaults.
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

// DueIn is the moment, in ms, that lies a delay ahead: of a push, a nack, a
// release or an update. It is rounded up, so that it is never early; a delay of
// 0 is now.
func DueIn(delay time.Duration, now time.Time) int64 {
	if delay == 0 {
		return clock.Milli(now)
	}
	return clock.CeilMilli(now.Add(delay))
}

// dueAt is the due moment of a job that has a delay or names the moment.
func dueAt(delay time.Duration, due, now time.Time) int64 {
	if due.After(now) {
		return clock.CeilMilli(due)
	}
	return DueIn(delay, now)
}

func (p *Planned) checkExpiry(byDefault bool) error {
	latest := clock.Milli(duly.MaxTime)
	switch {
	case p.DueAt > latest:
		return Invalid("delay", "ends beyond %s", duly.MaxTime.Format(time.RFC3339Nano))
	case p.ExpiresAt > latest:
		return Invalid("ttl", "ends beyond %s", duly.MaxTime.Format(time.RFC3339Nano))
	case p.ExpiresAt != 0 && p.DueAt > p.ExpiresAt:
		return EndsTooSoon(p.TTL, byDefault)
	}
	return nil
}

// Keep is what a push with MergeKeep does to the waiting job: its expiry
// becomes the later of the two.
func (p *Planned) Keep(newer *Planned) {
	if p.outlivedBy(newer.ExpiresAt) {
		p.ExpiresAt, p.TTL = newer.ExpiresAt, newer.TTL
	}
}

// outlivedBy tells whether an expiry, 0 for none, is later than the job's own.
func (p *Planned) outlivedBy(expiresAt int64) bool {
	return p.ExpiresAt != 0 && (expiresAt == 0 || expiresAt > p.ExpiresAt)
}

// Replace is what a push with MergeReplace does to the waiting job: every
// field is the newer one's but ID, keys, Until, and the moment it was made.
func (p *Planned) Replace(newer *Planned) {
	old := *p
	*p = *newer
	p.ID, p.OrderKey, p.MergeKey = old.ID, old.OrderKey, old.MergeKey
	p.Merge.Key, p.Merge.Until = old.Merge.Key, old.Merge.Until
	p.PushedAt = old.PushedAt
	if wait := newer.Merge.MaxWait; wait > 0 {
		// The bound may lie in the past, never the due: nobody overtakes.
		p.DueAt = max(min(p.DueAt, old.PushedAt+clock.Millis(wait)), newer.PushedAt)
	}
}

// ComeBack is what a running job that is dropped for this newer waiting one
// leaves to it under MergeKeep: the earlier due, the later expiry.
func (p *Planned) ComeBack(dueAt, expiresAt int64) {
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
