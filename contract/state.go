package contract

import (
	"fmt"

	"github.com/dulymq/duly"
)

// ParseState parses the name of a state. It returns [duly.ErrInvalid] for any other text.
func ParseState(text string) (duly.State, error) {
	for _, s := range duly.States {
		if s.String() == text {
			return s, nil
		}
	}
	if text == "" {
		return duly.StateNone, Invalid("state", "is missing; it %s", oneOfStates)
	}
	return duly.StateNone, Invalid("state", "is %s, %s", quoted(text, duly.MaxName), oneOfStates)
}

const oneOfStates = "must be one of delayed, ready, blocked, leased, dead, done"

// checkState adds a fault for a state that no job is in.
func checkState(s duly.State, f *BadFields) {
	if s < duly.StateDelayed || s > duly.StateDone {
		f.Add("state", oneOfStates)
	}
}

// Event is something that happens to a job.
type Event uint8

// The events of the contract's state table, in the order of the table.
const (
	EventDue      Event = iota // the due time is reached
	EventExpire                // the TTL has ended
	EventTrim                  // Retain has ended, or there are too many dead or done jobs
	EventReserve               // Reserve leases the job
	EventKeyFreed              // another job has released the order key
	EventAck
	EventBury
	EventNack
	EventRelease
	EventStall // the lease ran out, and the engine took the job back
	EventPush  // a Push with the same ID
	EventMerge // a Push with the same merge key
	EventExtend
	EventUpdate
	EventPromote
	EventRequeue
	EventDelete // a Delete or a Purge
)

// Events lists every event.
var Events = [...]Event{
	EventDue, EventExpire, EventTrim, EventReserve, EventKeyFreed, EventAck, EventBury, EventNack, EventRelease,
	EventStall, EventPush, EventMerge, EventExtend, EventUpdate, EventPromote, EventRequeue, EventDelete,
}

var eventNames = [...]string{
	"due", "expire", "trim", "reserve", "key freed", "ack", "bury", "nack", "release",
	"stall", "push", "merge", "extend", "update", "promote", "requeue", "delete",
}

// String returns the name of the event for people.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("event(%d)", uint8(e))
}

// Transition is the effect that an event may have on a job.
type Transition struct {
	// To lists the states that the job may have afterwards. StateNone means that it is deleted. It
	// is nil if the event can't happen to a job in that state.
	To []duly.State
	// Refused is the code of the error if the operation fails. The job then does not
	// change.
	Refused duly.Code
	// Status is the status of a push that finds this job: exists or merged. Created means
	// that the push creates another job.
	Status duly.PushStatus
}

// Possible reports whether the event can happen to a job in that state at all.
func (t Transition) Possible() bool { return t.To != nil }

// Next returns the transition of a job in the state `from` at the event e. It is the state table of
// the contract.
func Next(from duly.State, e Event) Transition {
	// The types have more values than the table.
	if int(e) >= len(Events) || int(from) >= len(row{}) {
		return Transition{}
	}
	return transitions[e][from]
}

// The rows that several events share.
func stays(s duly.State) Transition { return Transition{To: []duly.State{s}} }

func refused(s duly.State, code duly.Code) Transition {
	return Transition{To: []duly.State{s}, Refused: code}
}

func answered(s duly.State, o duly.PushStatus) Transition {
	return Transition{To: []duly.State{s}, Status: o}
}

func to(states ...duly.State) Transition { return Transition{To: states} }

type row [len(duly.States) + 1]Transition

// each returns a row with f of every state of a job that exists.
func each(f func(duly.State) Transition) (r row) {
	for _, s := range duly.States {
		r[s] = f(s)
	}
	return r
}

// settling returns the row of a settlement. For every job that is not leased, the result is
// lease_lost.
func settling(leased Transition) row {
	r := each(func(s duly.State) Transition { return refused(s, duly.CodeLeaseLost) })
	r[duly.StateLeased] = leased
	return r
}

// waitingOnly returns the row of an operation on waiting jobs. For other jobs it has a conflict.
func waitingOnly(f func(duly.State) Transition) row {
	return each(func(s duly.State) Transition {
		if s.Waiting() {
			return f(s)
		}
		return refused(s, duly.CodeConflict)
	})
}

var transitions = [len(Events)]row{
	EventDue: {duly.StateDelayed: to(duly.StateReady, duly.StateBlocked)},
	EventExpire: {
		duly.StateDelayed: to(duly.StateNone), duly.StateReady: to(duly.StateNone), duly.StateBlocked: to(duly.StateNone),
		duly.StateLeased: stays(duly.StateLeased), // a lease holds the job even after its TTL
	},
	EventTrim:     {duly.StateDead: to(duly.StateNone), duly.StateDone: to(duly.StateNone)},
	EventReserve:  {duly.StateReady: to(duly.StateLeased)},
	EventKeyFreed: {duly.StateBlocked: to(duly.StateReady)},
	EventAck:      settling(to(duly.StateNone, duly.StateDone)),
	EventBury:     settling(to(duly.StateDead)),
	// StateNone means here that the job has expired, or was merged into another job. A job holds
	// its order key beyond the end of its delivery, so it is never blocked afterwards.
	EventNack:    settling(to(duly.StateNone, duly.StateDead, duly.StateReady, duly.StateDelayed)),
	EventRelease: settling(to(duly.StateNone, duly.StateReady, duly.StateDelayed)),
	EventStall:   {duly.StateLeased: to(duly.StateNone, duly.StateDead, duly.StateReady)},
	EventPush:    each(func(s duly.State) Transition { return answered(s, duly.Exists) }),
	EventMerge: each(func(s duly.State) Transition {
		switch {
		case s.Waiting(): // MergeReplace may move the job to any other waiting state
			return Transition{To: []duly.State{duly.StateDelayed, duly.StateReady, duly.StateBlocked}, Status: duly.Merged}
		case s == duly.StateLeased: // with Until done, a leased job holds its merge key
			return Transition{To: []duly.State{s}, Status: duly.Merged}
		}
		return answered(s, duly.Created)
	}),
	EventExtend: settling(stays(duly.StateLeased)),
	EventUpdate: waitingOnly(func(duly.State) Transition { return to(duly.StateDelayed, duly.StateReady, duly.StateBlocked) }),
	EventPromote: waitingOnly(func(s duly.State) Transition {
		if s == duly.StateDelayed {
			return to(duly.StateReady, duly.StateBlocked)
		}
		return stays(s)
	}),
	EventRequeue: func() row {
		r := each(func(s duly.State) Transition { return refused(s, duly.CodeConflict) })
		r[duly.StateDead] = to(duly.StateReady, duly.StateBlocked, duly.StateNone)
		return r
	}(),
	EventDelete: each(func(duly.State) Transition { return to(duly.StateNone) }),
}

// EventOf returns the event of a settlement in the state table.
func EventOf(s duly.Settlement) Event {
	switch s {
	case duly.Ack:
		return EventAck
	case duly.Nack:
		return EventNack
	case duly.Release:
		return EventRelease
	}
	return EventBury
}
