package duly

import (
	"time"
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

// Rate is a token bucket: deliveries per second on average, and how many may
// come at once after a pause. The bucket starts full.
type Rate struct {
	// PerSecond is the refill, above 0 and up to MaxRate; fractions are
	// allowed (0.1 is one in ten seconds). None: no limit.
	PerSecond float64
	// Burst is the bucket's size, 1…MaxBurst. 0: PerSecond rounded up.
	Burst int
}

// Limited tells whether there is a limit.
func (r Rate) Limited() bool { return r.PerSecond > 0 }

// DeliveryMode is how a queue hands out its jobs.
type DeliveryMode string

// The modes.
const (
	// DeliverPull hands jobs out by Reserve.
	DeliverPull DeliveryMode = "pull"
	// DeliverPush hands jobs to the dispatchers of the servers, which call a URL.
	DeliverPush DeliveryMode = "push"
)

// PushConfig is the part of a [QueueConfig] that only a push queue has. It is zero in
// the configuration of any other queue. Each field is a destination, or
// [NoDestination], the default.
type PushConfig struct {
	// URL is where jobs go that have no callback.
	URL string
	// OnDone and OnDead are where the dispatcher reports the end of a job.
	OnDone, OnDead string
}

// NoDestination removes a destination, or says that there is none.
const NoDestination = "none"
