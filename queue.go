package duly

import (
	"time"
)

// Defaults are the values of a queue for fields that a job leaves zero. The comments
// have the bounds and the defaults.
type Defaults struct {
	Tries     int           // 1…65535; default 16
	MaxStalls int           // 1…65535 or None; default 8
	Backoff   Backoff       // default exp:1s:1h
	Lease     time.Duration // 100 ms–366 days; default 30 s
	TTL       time.Duration // at least 1 ms, or None; default None
	Retain    time.Duration // at least 1 ms, or None; default None
}

// QueueConfig is a queue's configuration. The engine stores it, and it can be changed at any time.
// Configure does not change settings whose field is zero. An engine returns the configuration with
// every field filled in, and with None where there is no limit.
type QueueConfig struct {
	// Shards is fixed when the queue is created: a power of two, 1…256. Default 1. An
	// engine that has one shard returns [ErrUnsupported] for more.
	Shards int
	// Defaults are for jobs that are pushed from now on.
	Defaults Defaults
	// DeadAge and DeadCount bound the dead jobs. Defaults 90 days and 100 000. None: no
	// bound.
	DeadAge   time.Duration
	DeadCount int
	// MaxJobs bounds delayed + ready + blocked + leased jobs. A push beyond it returns
	// [ErrFull]. Default None.
	MaxJobs int
	// MaxLeased bounds the jobs that all workers together lease at the same time.
	// Default None.
	MaxLeased int
	// Rate bounds the deliveries per second. Default none.
	Rate Rate
	// Adapt lowers MaxLeased and Rate while the service that the workers call fails. It
	// needs at least one of them. Default none.
	Adapt Adapt
	// Paused is changed by Pause and Resume only. Configure ignores it.
	Paused bool
	// Closing is made by a release with Slow. Configure ignores it.
	Closing Closing
	// Reopen ends the closing of the queue. It is set only for Configure.
	Reopen bool
	// Group has the settings of a group. It is zero for a queue.
	Group GroupConfig
	// Delivery is how the jobs are delivered. It can change only while the queue is
	// empty. It is empty for a group. Default [DeliverPull].
	Delivery DeliveryMode
	// Push has the settings of a push queue. It is zero for any other queue.
	Push PushConfig
}

// Closing is a period in which a queue delivers no jobs. A release with Slow closes a queue.
type Closing struct {
	// Until is when the queue opens. Zero: it is open.
	Until time.Time
	// Reason is the error text of the release. It has at most 200 bytes.
	Reason string
}

// Stats are the sizes, counters and ages of a queue.
type Stats struct {
	Sizes    Sizes
	Counters Counters
	// OldestReady is how long the oldest ready job has been due. 0: there is none.
	OldestReady time.Duration
	// NextDue is the next due time in the future. Zero: there is none.
	NextDue time.Time
	// Schedules is the number of schedules, and NextTick the earliest of their next ticks.
	// Zero: there is none.
	Schedules int64
	NextTick  time.Time
	// Closing is the closing of the shard that opens last.
	Closing Closing
	// Factor is the lowest share of its limits that a shard enforces. 0 means that the limits
	// do not adapt. Probing is the number of shards in probing.
	Factor  float64
	Probing int
	// Tokens is the number of deliveries that the rate allows now, over all shards. It is None
	// without a rate. If it is 0, NextToken is the time of the next token. Otherwise NextToken is
	// zero. Both ignore pause, MaxLeased and closings.
	Tokens    int64
	NextToken time.Time
	// Group has the stats of a group. It is nil for a queue.
	Group *GroupStats
	// Delivery is the delivery mode of the configuration. It is empty for a group, and for a queue
	// that does not exist.
	Delivery DeliveryMode
}

// Sizes are the numbers of jobs in each state, by the clock: a delayed job that is due
// counts as ready, or as blocked if another job holds its order key.
type Sizes struct {
	Delayed, Ready, Blocked, Leased, Dead, Done int64
}

// Of returns the size of one state. It panics for a state that no job is in.
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

// Counters count the events of a queue since it was created. At rest, Pushed = Acked +
// Merged + Expired + Deleted + Dropped + the sizes of delayed, ready, blocked, leased and
// dead.
type Counters struct {
	Pushed    int64 // pushes answered created or merged
	Merged    int64 // merged into a waiting job, or dropped for a newer one
	Delivered int64
	Acked     int64
	Failed    int64 // nacks
	Stalled   int64 // leases taken back
	Released  int64
	Slowed    int64 // releases with Slow, which Released counts too
	Dead      int64 // became dead, for any reason
	Requeued  int64
	Expired   int64
	Deleted   int64 // deleted or purged, except done jobs
	Dropped   int64 // dropped by a bound on dead jobs
}

// Update changes a waiting job. A nil or zero field changes nothing. None removes a TTL, a
// stall limit or Retain.
type Update struct {
	// Delay counts from now, and Due is absolute. At most one of them may be set. A Due in
	// the past means now.
	Delay *time.Duration
	Due   time.Time

	Priority *int
	// Body and Headers change nothing if they are nil. If they are empty, they remove it.
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

// Rate is a token bucket: deliveries per second on average, and a burst after a pause.
// The bucket starts full.
type Rate struct {
	// PerSecond is the refill, [MinRate] to [MaxRate]. Fractions are allowed: 0.1 is one
	// delivery in ten seconds. None: no limit.
	PerSecond float64
	// Burst is the bucket's size, 1 to [MaxBurst]. 0: PerSecond rounded up.
	Burst int
}

// Adapt is the adaptive limit of a queue. Each shard enforces a share of its limits, from
// the floor to 1, which failures lower and successes raise. After 20 failures in a row it
// delivers one job at a time, with pauses of up to 30 s, until one succeeds.
type Adapt struct {
	// Floor is the lowest share, 0.001 to 1. None means that the limits are fixed.
	Floor float64
}

// Adaptive reports whether the limits adapt.
func (a Adapt) Adaptive() bool { return a.Floor > 0 }

// Limited reports whether there is a limit.
func (r Rate) Limited() bool { return r.PerSecond > 0 }

// DeliveryMode is how a queue delivers its jobs.
type DeliveryMode string

// The modes.
const (
	// DeliverPull delivers jobs to callers of Reserve.
	DeliverPull DeliveryMode = "pull"
	// DeliverPush delivers jobs to the dispatchers of the servers, which call a URL.
	DeliverPush DeliveryMode = "push"
)

// PushConfig is the part of a [QueueConfig] that only a push queue has. It is zero in
// the configuration of any other queue. Each field is a destination, or
// [NoDestination], the default.
type PushConfig struct {
	// URL is for jobs without a callback.
	URL string
	// OnDone and OnDead are where the dispatcher reports the end of a job.
	OnDone, OnDead string
}

// NoDestination removes a destination, or means that there is none.
const NoDestination = "none"
