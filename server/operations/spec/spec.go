// Package spec validates and describes requests for operations.
package spec

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/operations/record"
)

const (
	// maxRate bounds the rate, in jobs per second.
	maxRate = 1e6
	// defaultCanary is the number of jobs of a canary.
	defaultCanary = 10
)

// Access returns the right that a caller needs to start or change an operation: that of the route for the same change.
// An operation that finds jobs by itself also needs the right to list them.
func Access(kind contract.OperationKind, byIDs bool) auth.Access {
	switch {
	case kind != contract.OperationDelete && kind != contract.OperationPromote:
		return auth.Admin
	case byIDs:
		return auth.Produce
	}
	return auth.Both
}

// Validate returns [duly.ErrInvalid] with every bad field. It fills in the state and the default of the canary.
func Validate(namespace string, n *contract.NewOperation) error {
	var f contract.BadFields
	queue := duly.QueueRef{Namespace: namespace, Name: n.Queue}
	f.Take(contract.ValidateQueue(queue))

	switch n.Kind {
	case contract.OperationRequeue:
		requeueOf(&f, n, queue)
	case contract.OperationDelete:
		deleteOf(&f, n)
	case contract.OperationPromote:
		stateOf(&f, n, duly.StateDelayed)
	case contract.OperationPurge:
		purgeOf(&f, n)
	default:
		f.Add("kind", "must be requeue, delete, promote or purge")
	}

	if n.Kind != contract.OperationRequeue && (n.Canary != nil || n.Tries != 0 || n.TTL != 0) {
		f.Add("kind", "is %s, but canary, tries and ttl are for a requeue; leave them out", kindText(n.Kind))
	}
	selectionOf(&f, n)
	if n.Rate != 0 && !(n.Rate >= 0.001 && n.Rate <= maxRate) {
		f.Add("rate", "is %g, must be between 0.001 and %d jobs per second; leave it out for no limit", n.Rate, int(maxRate))
	}
	return f.Err()
}

// kindText returns a kind that is safe in an error.
func kindText(k contract.OperationKind) string { return contract.Quoted(string(k)) }

// stateOf sets the state of the jobs, which the kind determines.
func stateOf(f *contract.BadFields, n *contract.NewOperation, state duly.State) {
	if n.State != duly.StateNone && n.State != state {
		f.Add("state", "is %s, must be %s for the kind %s; leave it out", n.State, state, n.Kind)
	}
	if n.State = state; len(n.IDs) > 0 && state == duly.StateDelayed {
		n.State = duly.StateNone // a waiting job in any state is promoted
	}
}

func requeueOf(f *contract.BadFields, n *contract.NewOperation, queue duly.QueueRef) {
	stateOf(f, n, duly.StateDead)
	f.Take(contract.ValidateRequeueFor(&duly.RequeueParams{N: 1, Tries: n.Tries, TTL: n.TTL}, queue))
	c := n.Canary
	if c == nil {
		return
	}

	// The caller keeps its own canary.
	n.Canary = &contract.OperationCanary{Jobs: c.Jobs, Then: c.Then}
	if c = n.Canary; c.Jobs == 0 {
		c.Jobs = defaultCanary
	}
	if c.Jobs < 1 || c.Jobs > record.MaxSample {
		f.Add("canary.jobs", "is %d, must be between 1 and %d", c.Jobs, record.MaxSample)
	}
	switch c.Then {
	case "":
		c.Then = contract.CanaryWait
	case contract.CanaryWait, contract.CanaryContinue:
	default:
		f.Add("canary.then", "must be %s or %s", contract.CanaryWait, contract.CanaryContinue)
	}
}

func deleteOf(f *contract.BadFields, n *contract.NewOperation) {
	switch {
	case n.Group != "":
		stateOf(f, n, duly.StateDead)
	case len(n.IDs) == 0:
		f.Add("ids", "are missing; give ids or a group, or use the kind purge for all jobs of a state")
	}
}

func purgeOf(f *contract.BadFields, n *contract.NewOperation) {
	if n.State == duly.StateNone {
		f.Add("state", "is missing; name the state of the jobs, such as dead")
	}
	if len(n.IDs) > 0 || n.Group != "" {
		f.Add("ids", "and group are not for a purge, which takes all jobs of a state; use the kind delete")
	}
}

// selectionOf checks the group and the IDs.
func selectionOf(f *contract.BadFields, n *contract.NewOperation) {
	if n.Group != "" {
		switch {
		case len(n.IDs) > 0:
			f.Add("group", "and ids are both set, give one of them")
		case n.Kind == contract.OperationPromote:
			f.Add("group", "has dead jobs, which can't be promoted; leave it out")
		case !failures.IsFingerprint(n.Group):
			f.Add("group", "must have 12 hexadecimal digits; take it from dead list --groups")
		}
	}
	if len(n.IDs) > duly.MaxBatch {
		f.Add("ids", "are more than %d; start several operations", duly.MaxBatch)
		return
	}

	seen := make(map[string]bool, len(n.IDs))
	for _, id := range n.IDs {
		if err := contract.ValidateID(id); err != nil {
			f.Add("ids", "have the bad ID %s: it must have 1 to %d letters, digits and ._-:", contract.Quoted(id), duly.MaxID)
			return
		}
		// A job must count once.
		if seen[id] {
			f.Add("ids", "have %s twice", contract.Quoted(id))
			return
		}
		seen[id] = true
	}
}

// Words describes the jobs of an operation.
func Words(n *contract.NewOperation, start time.Time) string {
	at := start.UTC().Format("2006-01-02 15:04:05.000 UTC")
	switch {
	case len(n.IDs) == 1:
		return "the job " + n.IDs[0]
	case len(n.IDs) > 1:
		return fmt.Sprintf("%d jobs by ID, the first is %s", len(n.IDs), n.IDs[0])
	case n.Group != "":
		return fmt.Sprintf("dead jobs of the group %s that died until %s", n.Group, at)
	case n.State == duly.StateDead:
		return "all dead jobs that died until " + at
	case n.State == duly.StateDone:
		return "all done jobs that ended until " + at
	}
	return fmt.Sprintf("all %s jobs that were pushed until %s", n.State, at)
}
