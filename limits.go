package duly

import (
	"time"
)

// None means explicitly none where zero means the default: no TTL, no stall limit, and so on.
const None = -1

// The limits of the contract. All are inclusive.
const (
	// MaxName is the length of a namespace's or queue's name, in bytes.
	MaxName = 255
	// MaxID is the length of a job's ID, in bytes.
	MaxID = 128
	// MaxKey is the length of an order or merge key, in bytes.
	MaxKey = 128
	// MaxHeaders is the number of headers of a job.
	MaxHeaders = 64
	// MaxHeaderBytes is the size of all header names and values together.
	MaxHeaderBytes = 8 << 10
	// DefaultMaxBody is the maximum size of a body, in bytes. An engine can be configured with
	// another limit, up to MaxMaxBody.
	DefaultMaxBody = 1 << 20
	// MaxMaxBody is the largest bound on a body that an engine can be set to.
	MaxMaxBody = 64 << 20
	// MinPriority and MaxPriority bound a job's priority.
	MinPriority, MaxPriority = -1000, 1000
	// MaxTries bounds tries and stalls. The minimum is 1.
	MaxTries = 65535
	// MinLease and MaxLease bound a lease.
	MinLease, MaxLease = 100 * time.Millisecond, 366 * 24 * time.Hour
	// MaxBackoffDelay bounds each delay of a backoff policy.
	MaxBackoffDelay = 366 * 24 * time.Hour
	// MaxBackoffSteps is the number of steps of a staircase.
	MaxBackoffSteps = 64
	// MaxResult is the size of a result given with an ack, in bytes.
	MaxResult = 64 << 10
	// MaxErrorText is where an error text or reason is cut, in bytes.
	MaxErrorText = 4 << 10
	// MaxBatch is the maximum number of items in one call.
	MaxBatch = 1000
	// MaxBatchBytes is the maximum size of all bodies in one call together. A call with one item
	// may exceed it. Reserve and List return fewer items when they reach it.
	MaxBatchBytes = 8 << 20
	// MaxReserveQueues is the maximum number of queues in one Reserve or Wait.
	MaxReserveQueues = 100
	// MaxURL is the length of the URL of a destination, in bytes.
	MaxURL = 2048
	// MaxWait is the longest timeout of one Wait.
	MaxWait = 10 * time.Minute
	// DefaultPage is the length of a list's page without a limit. The maximum is
	// MaxBatch.
	DefaultPage = 100
	// MaxShards is the number of shards of a queue.
	MaxShards = 256
	// MaxDone is the number of done jobs that a queue keeps.
	MaxDone = 100_000
	// DefaultMaxQueues is the maximum number of queues in a namespace. An engine can be configured
	// with another limit.
	DefaultMaxQueues = 10_000
	// MaxJobsBound is the largest number that a queue's bounds (dead count,
	// max jobs, max leased) can be set to.
	MaxJobsBound = 1_000_000_000_000
	// MaxSlow bounds how long a release closes its queue.
	MaxSlow = time.Hour
	// MaxSchedules is the number of schedules of a queue.
	MaxSchedules = 10_000
	// MaxScheduleName is the length of the name and of the owner of a schedule, in bytes.
	MaxScheduleName = 100
	// MaxTemplateBody is the size of the body of a schedule's template, in bytes.
	MaxTemplateBody = 64 << 10
	// MaxTemplateHeaders and MaxTemplateHeaderBytes bound the headers of a template. A run
	// has three more headers.
	MaxTemplateHeaders, MaxTemplateHeaderBytes = MaxHeaders - 3, MaxHeaderBytes - 256
	// MaxJitter bounds the jitter of a schedule.
	MaxJitter = 24 * time.Hour
	// MinWindow and MaxWindow bound the window of a schedule.
	MinWindow, MaxWindow = time.Minute, 366 * 24 * time.Hour
	// MinRate and MaxRate bound a queue's rate limit, in deliveries per second. MaxBurst
	// bounds its burst.
	MinRate, MaxRate, MaxBurst = 0.000_001, 1_000_000.0, 1_000_000
)

// MaxTime is the latest due time and the latest expiry: 9999-12-31T23:59:59.999Z.
var MaxTime = time.Date(9999, time.December, 31, 23, 59, 59, 999_000_000, time.UTC)

// The defaults of a job whose queue was not configured.
const (
	DefaultNamespace = "default"
	DefaultTries     = 16
	DefaultMaxStalls = 8
	DefaultBackoff   = Backoff("exp:1s:1h")
	DefaultLease     = 30 * time.Second
	DefaultDeadAge   = 90 * 24 * time.Hour
	DefaultDeadCount = 100_000
	// DefaultWindow is the window of a schedule.
	DefaultWindow = 24 * time.Hour
)
