package contract

import (
	"time"

	"github.com/dulymq/duly"
)

// Servers and package httpengine exchange the following types for bulk operations. An engine does not read them.

// OperationKind is what an operation does with its jobs.
type OperationKind string

// The kinds of operations.
const (
	OperationRequeue OperationKind = "requeue"
	OperationDelete  OperationKind = "delete"
	OperationPromote OperationKind = "promote"
	OperationPurge   OperationKind = "purge"
)

// OperationState is the state of an operation.
type OperationState string

// The states of operations. The last three are final.
const (
	// OperationQueued waits for other operations of the server.
	OperationQueued  OperationState = "queued"
	OperationRunning OperationState = "running"
	// OperationWaiting has requeued its canary. It waits for an operator or for the results of these jobs.
	OperationWaiting OperationState = "waiting"
	OperationPaused  OperationState = "paused"
	// OperationInterrupted had not ended when its server stopped.
	OperationInterrupted OperationState = "interrupted"
	OperationStopped     OperationState = "stopped"
	OperationFailed      OperationState = "failed"
	OperationDone        OperationState = "done"
)

// OperationStates lists all states.
var OperationStates = []OperationState{
	OperationQueued, OperationRunning, OperationWaiting, OperationPaused, OperationInterrupted, OperationStopped,
	OperationFailed, OperationDone,
}

// Ended reports whether the state is final.
func (s OperationState) Ended() bool {
	return s == OperationStopped || s == OperationFailed || s == OperationDone
}

// NewOperation asks a server for an operation.
type NewOperation struct {
	Kind  OperationKind
	Queue string
	// Group is the fingerprint of a group of dead jobs. IDs are the IDs of jobs. Without both, an operation takes
	// all jobs of the State, which each kind except a purge sets by itself.
	Group string
	IDs   []string
	State duly.State
	// Rate is in jobs per second. 0 means no limit.
	Rate float64
	// Canary is the canary of a requeue, nil for none.
	Canary *OperationCanary
	// Tries and TTL are the fields of [duly.RequeueParams].
	Tries int
	TTL   time.Duration
}

// OperationCanary is the first part of a requeue.
type OperationCanary struct {
	// Jobs is the number of its jobs. 0 means 10.
	Jobs int
	// Then says what happens after these jobs: [CanaryWait] or [CanaryContinue].
	Then string
	// Succeeded and Failed are the numbers of jobs that have ended. A server sets them.
	Succeeded, Failed int
}

// What an operation does after its canary.
const (
	// CanaryWait waits for an operator. It is the default.
	CanaryWait = "wait"
	// CanaryContinue continues when 90 % of the jobs have succeeded.
	CanaryContinue = "continue"
)

// Operation is an operation as a server shows it.
type Operation struct {
	ID, Namespace string
	Kind          OperationKind
	Queue         string
	// By is the name of the caller who started it.
	By string
	// Filter describes the jobs in words. Group, IDs and JobState are the same as data. IDs is the number of IDs.
	Filter string
	Group  string
	IDs    int
	// Servers store operations as JSON, which has no text for [duly.StateNone].
	JobState duly.State `json:",omitzero"`
	Tries    int
	TTL      time.Duration

	State OperationState
	// Reason says why it waits, was stopped or failed. Error is the last error of a call that it repeats.
	Reason, Error string
	Canary        *OperationCanary
	// Rate is the limit in jobs per second, 0 for none, and CurrentRate the present rate.
	Rate, CurrentRate float64

	// Found is the number of jobs that match. It is complete if Counted is set.
	Found   int64
	Counted bool
	// Taken is the sum of the other three.
	Taken, Done, Skipped, Failed int64

	// Started is also the time that jobs must not be newer than.
	Started, ExpectedEnd, Ended time.Time
	// Answers are the last results of jobs, oldest first. A list has none.
	Answers []OperationAnswer
}

// OperationAnswer is the result of one job.
type OperationAnswer struct {
	At      time.Time
	ID      string
	Outcome string // done, skipped or failed
	Error   string
}
