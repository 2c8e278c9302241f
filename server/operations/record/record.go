// Package record has the records of operations: what is stored of them, and their files.
package record

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/failures"
)

// Phase is how far an operation is. Only a requeue with a canary has the first two.
type Phase string

// The phases.
const (
	Canary  Phase = "canary" // takes the jobs of the canary
	Judging Phase = "judging"
	Rest    Phase = "rest"
)

// Record is what the file of an operation has.
type Record struct {
	Version   int
	Operation contract.Operation
	Phase     Phase
	// Chosen are the IDs of an operation by IDs, and Next is the index of the first one that no step had.
	Chosen []string `json:",omitempty"`
	Next   int      `json:",omitempty"`
	// Cursor is the place of the current page in the list of jobs. Stay are jobs of the page that were taken and are
	// still listed.
	Cursor string   `json:",omitempty"`
	Stay   []string `json:",omitempty"`
	// Pending are the jobs of a step whose results are not counted.
	Pending []string `json:",omitempty"`
	Sample  Sample
}

// Selects reports whether a job belongs to an operation that looks for its jobs.
func (r *Record) Selects(j *duly.JobInfo) bool {
	o, at := &r.Operation, j.PushedAt
	if o.JobState == duly.StateDead || o.JobState == duly.StateDone {
		at = j.FinishedAt
	}
	return at.UnixMilli() <= o.Started.UnixMilli() && (o.Group == "" || failures.Fingerprint(j.LastError) == o.Group)
}

// Dated reports whether the time of a job decides if it belongs to the operation.
func (r *Record) Dated() bool {
	return r.Operation.IDs == 0 && r.Operation.Kind != contract.OperationPromote ||
		r.Operation.Kind == contract.OperationRequeue
}
