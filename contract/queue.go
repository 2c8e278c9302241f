package contract

import (
	"math"
	"time"

	"github.com/dulymq/duly/internal/clock"

	"github.com/dulymq/duly"
)

// FillDefaults is d with every zero field taken from the contract's defaults.
func FillDefaults(d duly.Defaults) duly.Defaults {
	if d.Tries == 0 {
		d.Tries = duly.DefaultTries
	}
	if d.MaxStalls == 0 {
		d.MaxStalls = duly.DefaultMaxStalls
	}
	if d.Backoff == "" {
		d.Backoff = duly.DefaultBackoff
	}
	if d.Lease == 0 {
		d.Lease = duly.DefaultLease
	}
	if d.TTL == 0 {
		d.TTL = duly.None
	}
	if d.Retain == 0 {
		d.Retain = duly.None
	}
	return d
}

// DefaultQueueConfig is the configuration of a queue that was never
// configured.
func DefaultQueueConfig() duly.QueueConfig {
	return duly.QueueConfig{
		Shards: 1, Defaults: FillDefaults(duly.Defaults{}), DeadAge: duly.DefaultDeadAge, DeadCount: duly.DefaultDeadCount,
		MaxJobs: duly.None, MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}, Delivery: duly.DeliverPull,
	}
}

// PatchConfig is c changed by a patch: each field of the patch that is not zero. With a
// change of Delivery, what is as it is by default takes the default of the new mode.
func PatchConfig(c duly.QueueConfig, patch duly.QueueConfig) duly.QueueConfig {
	c = deliveredBy(c, patch.Delivery)
	set(&c.Shards, patch.Shards)
	set(&c.Defaults.Tries, patch.Defaults.Tries)
	set(&c.Defaults.MaxStalls, patch.Defaults.MaxStalls)
	set(&c.Defaults.Backoff, patch.Defaults.Backoff)
	set(&c.Defaults.Lease, patch.Defaults.Lease)
	set(&c.Defaults.TTL, patch.Defaults.TTL)
	set(&c.Defaults.Retain, patch.Defaults.Retain)
	set(&c.DeadAge, patch.DeadAge)
	set(&c.DeadCount, patch.DeadCount)
	set(&c.MaxJobs, patch.MaxJobs)
	set(&c.MaxLeased, patch.MaxLeased)
	set(&c.Rate.PerSecond, patch.Rate.PerSecond)
	set(&c.Rate.Burst, patch.Rate.Burst)
	c.Group = patchGroup(c.Group, patch.Group)
	c.Push = patchPush(c.Push, patch.Push)
	if c.Rate.Limited() && c.Rate.Burst == 0 {
		c.Rate.Burst = max(int(burst(c.Rate)), c.Shards) // each shard has its part of it
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// ValidateConfig reports [duly.ErrInvalid] with every bad field of a patch.
func ValidateConfig(c duly.QueueConfig) error {
	var f BadFields
	if n := c.Shards; n != 0 && (n < 1 || n > duly.MaxShards || n&(n-1) != 0) {
		f.Add("shards", "is %d, must be a power of two between 1 and %d", n, duly.MaxShards)
	}
	d := c.Defaults
	checkRules(&f, "defaults.", rules{
		tries: d.Tries, maxStalls: d.MaxStalls, backoff: d.Backoff, ttl: d.TTL, lease: d.Lease, retain: d.Retain,
	})
	if c.DeadAge < 0 && c.DeadAge != duly.None {
		f.Add("dead_age", "is %s, must be at least 1ms, or none", duly.FormatDuration(c.DeadAge))
	}
	checkBound(&f, "dead_count", c.DeadCount)
	checkBound(&f, "max_jobs", c.MaxJobs)
	checkBound(&f, "max_leased", c.MaxLeased)
	r := c.Rate
	if r.PerSecond != 0 && r.PerSecond != duly.None && !(r.PerSecond >= duly.MinRate && r.PerSecond <= duly.MaxRate) || math.IsNaN(r.PerSecond) {
		f.Add("rate", "is %g a second, must be between 0.000001 and %g, or none", r.PerSecond, duly.MaxRate)
	}
	if r.Burst < 0 || r.Burst > duly.MaxBurst {
		f.Add("burst", "is %d, must be between 1 and %d", r.Burst, duly.MaxBurst)
	}
	checkDeliveryConfig(c, &f)
	return f.Err()
}

// checkParts notes every limit that is too small for each shard to have a part of it.
func checkParts(c duly.QueueConfig, f *BadFields) {
	check := func(field string, n int) {
		if n > 0 && n < c.Shards {
			f.Add(field, "is %d, must be at least %d: each of the queue's shards enforces its part", n, c.Shards)
		}
	}
	check("dead_count", c.DeadCount)
	check("max_jobs", c.MaxJobs)
	check("max_leased", c.MaxLeased)
	check("max_held", c.Group.MaxHeld)
	if c.Rate.Limited() {
		check("burst", c.Rate.Burst)
	}
}

// ConfigOfShard is what shard i enforces of the configuration: its part of each
// limit.
func ConfigOfShard(c duly.QueueConfig, i int) duly.QueueConfig {
	for _, limit := range []*int{&c.DeadCount, &c.MaxJobs, &c.MaxLeased, &c.Rate.Burst, &c.Group.MaxHeld} {
		*limit = ShardPart(*limit, c.Shards, i)
	}
	if c.Rate.Limited() {
		c.Rate.PerSecond /= float64(c.Shards)
	}
	return c
}

func checkBound(f *BadFields, field string, n int) {
	if n < duly.None || n > duly.MaxJobsBound {
		f.Add(field, "is %d, must be between 1 and %d, or none", n, int64(duly.MaxJobsBound))
	}
}

// ValidateUpdate reports every bad field; see [ValidateJob].
func ValidateUpdate(u *duly.Update, maxBody int) error {
	var f BadFields
	checkBody(&f, u.Body, maxBody)
	checkHeaders(&f, u.Headers)
	checkSchedule(&f, u.Delay, u.Due)
	checkRules(&f, "", rules{u.Priority, u.Tries, u.MaxStalls, u.Backoff, u.TTL, u.Lease, u.Retain})
	return f.Err()
}

// ApplyUpdate changes the stored job; the update has been validated. It reports
// [duly.ErrInvalid], and the job is then not to be stored, if the job would be due
// after its end.
func ApplyUpdate(u *duly.Update, p *Planned, now time.Time) error {
	if u.Delay != nil {
		p.DueAt = DueIn(*u.Delay, now)
	} else if !u.Due.IsZero() {
		p.DueAt = dueAt(0, u.Due, now)
	}
	if u.Priority != nil {
		p.Priority = *u.Priority
	}
	if u.Body != nil {
		p.Body = u.Body
	}
	if u.Headers != nil {
		p.Headers = lowerHeaders(u.Headers)
	}
	set(&p.Tries, u.Tries)
	set(&p.MaxStalls, u.MaxStalls)
	set(&p.Backoff, u.Backoff)
	set(&p.Lease, u.Lease)
	set(&p.Retain, u.Retain)
	if u.TTL != 0 {
		p.TTL, p.ExpiresAt = u.TTL, 0
		if u.TTL > 0 {
			p.ExpiresAt = clock.CeilMilli(now.Add(u.TTL))
		}
	}
	if u.Delay == nil && u.Due.IsZero() && u.TTL == 0 {
		return nil
	}
	return p.checkExpiry(false)
}
