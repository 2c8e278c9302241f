package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// tries is the number of failures that make a job of the load dead. Stalls never do.
const tries = 3

// rounding is the largest difference in ms between a time of the engine and the same time on the
// client's clock.
const rounding = 2

// phase is the state of a job. The specification does not distinguish ready, blocked and delayed,
// because the load pushes every job due now and without keys.
type phase uint8

const (
	absent phase = iota
	waiting
	leased
	dead
)

// jobState is the state of one ID in the specification.
type jobState struct {
	phase    phase
	number   string // receipt number of the current job; empty until its first delivery
	ended    uint64 // ended deliveries of the current job
	failures int
	deadline int64 // of a leased job: the wall time in ms before which it must not be reclaimed
}

// step is an operation on one ID.
type step struct {
	kind     string
	receipt  contract.ReceiptParts // for settle and extend
	as       string                // for settle
	lease    int64                 // for extend, in ms
	sent     int64                 // wall time, ms
	answered int64                 // wall time, ms
	// hidden counts the Reserves from this queue that were called before this answer and never
	// answered. Each may have caused one delivery that no client knows.
	hidden uint64
}

// answer is the result of a call. If it is not known, the call may have been executed.
type answer struct {
	known    bool
	verdict  string
	state    duly.State // for get, and for a push that returns exists
	number   string     // for reserve
	delivery uint64
	failures int
	leaseEnd int64
}

// specification is one job as docs/contract.md describes it (§2–§4).
var specification = porcupine.Model{
	Init: func() any { return jobState{} },
	Step: func(s, in, out any) (bool, any) {
		st, op, a := s.(jobState), in.(step), out.(answer)
		next, ok := st.take(&op, &a)
		return ok, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

func (s jobState) take(op *step, a *answer) (jobState, bool) {
	switch op.kind {
	case "push":
		return s.push(op, a)
	case "reserve":
		return s.reserve(op, a)
	case "settle", "extend":
		return s.byReceipt(op, a)
	case "delete":
		return s.delete(a)
	case "requeue":
		return s.requeue(a)
	case "get":
		return s.get(op, a)
	case "empty":
		return s.empty(op)
	}
	panic("an operation without a rule: " + op.kind)
}

// push follows C2.4 and C2.35.
func (s jobState) push(op *step, a *answer) (jobState, bool) {
	fresh := jobState{phase: waiting}
	switch {
	case !a.known && s.phase != absent:
		return s, true
	case !a.known || a.verdict == "created":
		return fresh, s.phase == absent
	}
	return s.observe(a.state, op)
}

// reserve follows C3.8, C11.10 to C11.12 and C1.9.
func (s jobState) reserve(op *step, a *answer) (jobState, bool) {
	if s.phase == leased {
		var ok bool
		if s, ok = s.stall(op); !ok {
			return s, false
		}
	}
	next := s.ended + 1
	ok := s.phase == waiting && (s.number == "" || s.number == a.number) &&
		a.delivery >= next && a.delivery-next <= op.hidden && a.failures == s.failures
	s.phase, s.number, s.ended, s.deadline = leased, a.number, a.delivery-1, a.leaseEnd
	return s, ok
}

// stall reclaims a job whose lease has ended by the time of the answer.
func (s jobState) stall(op *step) (jobState, bool) {
	if op.answered+rounding < s.deadline {
		return s, false
	}
	s.phase, s.deadline = waiting, 0
	s.ended++
	return s, true
}

// byReceipt follows the fencing rules C1.7 and C4.36. Only the current receipt settles or extends
// a job.
func (s jobState) byReceipt(op *step, a *answer) (jobState, bool) {
	current := s.phase == leased && s.number == op.receipt.Number.String() && op.receipt.Delivery == s.ended+1
	switch {
	case !a.known && !current:
		return s, true
	case !a.known || a.verdict == "ok":
		if op.kind == "extend" {
			s.deadline = op.sent + op.lease
			return s, current
		}
		return s.settle(op.as), current
	case current: // although the answer is lease_lost
		return s.stall(op)
	}
	return s, true
}

func (s jobState) settle(as string) jobState {
	if as == duly.Ack.String() {
		return jobState{}
	}
	s.ended, s.deadline, s.phase = s.ended+1, 0, waiting
	if as == duly.Nack.String() {
		s.failures++
	}
	if as == duly.Bury.String() || s.failures >= tries {
		s.phase = dead
	}
	return s
}

// delete follows C3.26 and C3.27.
func (s jobState) delete(a *answer) (jobState, bool) {
	if a.known && a.verdict == "not_found" {
		return s, s.phase == absent
	}
	return jobState{}, !a.known || s.phase != absent
}

// requeue follows C3.24, C3.25 and C4.66.
func (s jobState) requeue(a *answer) (jobState, bool) {
	switch {
	case !a.known && s.phase != dead:
		return s, true
	case a.verdict == "not_found":
		return s, s.phase == absent
	case a.verdict == "conflict":
		return s, s.phase == waiting || s.phase == leased
	}
	ok := s.phase == dead
	s.phase, s.failures = waiting, 0
	return s, ok
}

func (s jobState) get(op *step, a *answer) (jobState, bool) {
	switch {
	case !a.known:
		return s, true
	case a.verdict == "not_found":
		return s, s.phase == absent
	case a.failures != s.failures:
		return s, false
	}
	return s.observe(a.state, op)
}

// observe reports whether the job may be in the state that an answer names.
func (s jobState) observe(state duly.State, op *step) (jobState, bool) {
	switch {
	case s.phase == absent:
		return s, false
	case state == duly.StateDead:
		return s, s.phase == dead
	case state == duly.StateLeased && s.phase == waiting && op.hidden > 0:
		return jobState{phase: leased, number: s.number, ended: s.ended, failures: s.failures}, true
	case state == duly.StateLeased:
		return s, s.phase == leased
	case s.phase == leased:
		return s.stall(op)
	}
	return s, s.phase == waiting
}

// empty checks that this job was not ready at some time of a Reserve without a result (C4.13).
func (s jobState) empty(op *step) (jobState, bool) {
	return s, s.phase != waiting || op.hidden > 0
}
