package duly

import (
	"math"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// Defaults are what a queue's jobs take for the fields that they leave zero.
type Defaults struct {
	Tries     int           // 1…65535; 16
	MaxStalls int           // 1…65535 or None; 8
	Backoff   Backoff       // exp:1s:1h
	Lease     time.Duration // 100 ms–366 days; 30 s
	TTL       time.Duration // at least 1 ms, or None; None
	Retain    time.Duration // at least 1 ms, or None; None
}

// Filled is d with every zero field taken from the contract's defaults.
func (d Defaults) Filled() Defaults {
	if d.Tries == 0 {
		d.Tries = DefaultTries
	}
	if d.MaxStalls == 0 {
		d.MaxStalls = DefaultMaxStalls
	}
	if d.Backoff == "" {
		d.Backoff = DefaultBackoff
	}
	if d.Lease == 0 {
		d.Lease = DefaultLease
	}
	if d.TTL == 0 {
		d.TTL = None
	}
	if d.Retain == 0 {
		d.Retain = None
	}
	return d
}

// QueueConfig is a queue's configuration, stored in the engine and changed
// live. Given to Configure, a zero field stays as it is; read from an engine,
// every field is filled in and None stands where there is no bound.
type QueueConfig struct {
	// Shards is fixed when the queue is made: a power of two, 1…256. Default
	// 1. An engine that has one shard answers [ErrUnsupported] to more.
	Shards int
	// Defaults are taken by jobs when they are pushed.
	Defaults Defaults
	// DeadAge and DeadCount bound the dead jobs that are kept; 90 days and
	// 100 000. None: unbounded.
	DeadAge   time.Duration
	DeadCount int
	// MaxJobs bounds delayed + ready + blocked + leased jobs: a push beyond it
	// is [ErrFull]. Default None.
	MaxJobs int
	// MaxLeased bounds the jobs that are leased at once, over all workers.
	// Default None.
	MaxLeased int
	// Rate bounds the deliveries per second. Default none.
	Rate Rate
	// Paused is told, and changed by Pause and Resume alone; Configure ignores
	// it.
	Paused bool
	// Group is what only a group has; zero for a queue.
	Group GroupConfig
	// Delivery says who takes the jobs; it changes only while the queue is empty.
	// Default [DeliverPull]. Empty for a group.
	Delivery DeliveryMode
	// Push is what only a push queue has; zero for any other.
	Push PushConfig
}

// DefaultQueueConfig is the configuration of a queue that was never
// configured.
func DefaultQueueConfig() QueueConfig {
	return QueueConfig{
		Shards: 1, Defaults: Defaults{}.Filled(), DeadAge: DefaultDeadAge, DeadCount: DefaultDeadCount,
		MaxJobs: None, MaxLeased: None, Rate: Rate{PerSecond: None}, Delivery: DeliverPull,
	}
}

// With is c changed by a patch: each field of the patch that is not zero. With a
// change of Delivery, what is as it is by default takes the default of the new mode.
func (c QueueConfig) With(patch QueueConfig) QueueConfig {
	c = c.deliveredBy(patch.Delivery)
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
	c.Group = c.Group.with(patch.Group)
	c.Push = c.Push.with(patch.Push)
	if c.Rate.Limited() && c.Rate.Burst == 0 {
		c.Rate.Burst = max(int(c.Rate.burst()), c.Shards) // each shard has its part of it
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// Validate reports [ErrInvalid] with every bad field of a patch.
func (c QueueConfig) Validate() error {
	var f BadFields
	if n := c.Shards; n != 0 && (n < 1 || n > MaxShards || n&(n-1) != 0) {
		f.Add("shards", "is %d, must be a power of two between 1 and %d", n, MaxShards)
	}
	d := c.Defaults
	checkRules(&f, "defaults.", rules{
		tries: d.Tries, maxStalls: d.MaxStalls, backoff: d.Backoff, ttl: d.TTL, lease: d.Lease, retain: d.Retain,
	})
	if c.DeadAge < 0 && c.DeadAge != None {
		f.Add("dead_age", "is %s, must be at least 1ms, or none", FormatDuration(c.DeadAge))
	}
	checkBound(&f, "dead_count", c.DeadCount)
	checkBound(&f, "max_jobs", c.MaxJobs)
	checkBound(&f, "max_leased", c.MaxLeased)
	r := c.Rate
	if r.PerSecond != 0 && r.PerSecond != None && !(r.PerSecond >= MinRate && r.PerSecond <= MaxRate) || math.IsNaN(r.PerSecond) {
		f.Add("rate", "is %g a second, must be between 0.000001 and %g, or none", r.PerSecond, MaxRate)
	}
	if r.Burst < 0 || r.Burst > MaxBurst {
		f.Add("burst", "is %d, must be between 1 and %d", r.Burst, MaxBurst)
	}
	c.checkDelivery(&f)
	return f.Err()
}

// checkParts notes every limit that is too small for each shard to have a part of it.
func (c QueueConfig) checkParts(f *BadFields) {
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

// OfShard is what shard i enforces of the configuration: its part of each
// limit.
func (c QueueConfig) OfShard(i int) QueueConfig {
	for _, limit := range []*int{&c.DeadCount, &c.MaxJobs, &c.MaxLeased, &c.Rate.Burst, &c.Group.MaxHeld} {
		*limit = ShardPart(*limit, c.Shards, i)
	}
	if c.Rate.Limited() {
		c.Rate.PerSecond /= float64(c.Shards)
	}
	return c
}

func checkBound(f *BadFields, field string, n int) {
	if n < None || n > MaxJobsBound {
		f.Add(field, "is %d, must be between 1 and %d, or none", n, int64(MaxJobsBound))
	}
}

// Stats is what a queue holds and what it has done.
type Stats struct {
	Sizes    Sizes
	Counters Counters
	// OldestReady is for how long the oldest ready job has been due; 0 without
	// one.
	OldestReady time.Duration
	// NextDue is the next due moment that lies ahead; zero without one.
	NextDue time.Time
	// Group is what only a group has; nil for a queue.
	Group *GroupStats
	// Delivery is that of the configuration; empty for a group, and for a queue
	// that does not exist.
	Delivery DeliveryMode
}

// Sizes is the number of jobs per state, by the clock: a delayed job that is
// due counts as ready, or as blocked where another job holds its order key.
type Sizes struct {
	Delayed, Ready, Blocked, Leased, Dead, Done int64
}

// Of is the size of one state.
func (s *Sizes) Of(state State) *int64 {
	switch state {
	case StateDelayed:
		return &s.Delayed
	case StateReady:
		return &s.Ready
	case StateBlocked:
		return &s.Blocked
	case StateLeased:
		return &s.Leased
	case StateDead:
		return &s.Dead
	case StateDone:
		return &s.Done
	}
	panic("duly: no size of state " + state.String())
}

// Counters count what has happened in a queue since it was made. At rest,
// Pushed = Acked + Merged + Expired + Deleted + Dropped + the sizes of
// delayed, ready, blocked, leased and dead.
type Counters struct {
	Pushed    int64 // pushes answered created or merged
	Merged    int64 // merged into a waiting job, or dropped for a newer one
	Delivered int64
	Acked     int64
	Failed    int64 // nacks
	Stalled   int64 // leases taken back
	Released  int64
	Dead      int64 // became dead, by whatever way
	Requeued  int64
	Expired   int64
	Deleted   int64 // deleted or purged, done jobs aside
	Dropped   int64 // dropped by a bound on dead jobs
}

// Update changes a waiting job. A nil or zero field stays as it is; None takes
// a TTL, a stall limit or Retain away.
type Update struct {
	// Delay counts from now, Due is absolute; at most one of them. A due in
	// the past is now.
	Delay *time.Duration
	Due   time.Time

	Priority *int
	// Body and Headers: nil stays, empty empties.
	Body      []byte
	Headers   map[string]string
	Tries     int
	MaxStalls int
	Backoff   Backoff
	// TTL counts from now.
	TTL    time.Duration
	Lease  time.Duration
	Retain time.Duration
}

// Validate reports every bad field; see [Job.Validate].
func (u *Update) Validate(maxBody int) error {
	var f BadFields
	checkBody(&f, u.Body, maxBody)
	checkHeaders(&f, u.Headers)
	checkSchedule(&f, u.Delay, u.Due)
	checkRules(&f, "", rules{u.Priority, u.Tries, u.MaxStalls, u.Backoff, u.TTL, u.Lease, u.Retain})
	return f.Err()
}

// Apply changes the stored job; the update has been validated. It reports
// [ErrInvalid], and the job is then not to be stored, if the job would be due
// after its end.
func (u *Update) Apply(p *Planned, now time.Time) error {
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
