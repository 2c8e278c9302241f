package duly

import "fmt"

// State is where a job stands. Every job is in exactly one; a job that is in
// none of them is gone.
type State uint8

// The states. Their numbers are stored by engines and never change.
const (
	StateNone    State = 0 // gone, or not there yet
	StateDelayed State = 1
	StateReady   State = 2
	StateBlocked State = 3
	StateLeased  State = 4
	StateDead    State = 5
	StateDone    State = 6
)

// States lists every state of a job that exists.
var States = [...]State{StateDelayed, StateReady, StateBlocked, StateLeased, StateDead, StateDone}

var stateNames = [...]string{"none", "delayed", "ready", "blocked", "leased", "dead", "done"}

// String is the state's name on every wire.
func (s State) String() string { return nameOf("state", stateNames[:], uint8(s)) }

// nameOf is the name of an enumeration's value. One that has none is told as a
// number, never by another's name: it must not pass for that on a wire.
func nameOf(kind string, names []string, value uint8) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

// Waiting tells whether the job waits for its delivery: delayed, ready or
// blocked. Such a job can be merged into and updated.
func (s State) Waiting() bool {
	return s == StateDelayed || s == StateReady || s == StateBlocked
}

// ParseState reads a state's name. It answers [ErrInvalid] for any other text.
func ParseState(text string) (State, error) {
	for i, name := range stateNames {
		if i > 0 && name == text {
			return State(i), nil
		}
	}
	if text == "" {
		return StateNone, Invalid("state", "is missing; it %s", oneOfStates)
	}
	return StateNone, Invalid("state", "is %s, %s", quoted(text, MaxName), oneOfStates)
}

const oneOfStates = "must be one of delayed, ready, blocked, leased, dead, done"

// check refuses a state that no job is in.
func (s State) check(f *BadFields) {
	if s < StateDelayed || s > StateDone {
		f.Add("state", oneOfStates)
	}
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// Event is something that happens to a job.
type Event uint8

// The events of the contract's state table, in its order.
const (
	EventDue      Event = iota // the due moment has come
	EventExpire                // the TTL is over
	EventTrim                  // Retain, or a bound on dead or done jobs, is over
	EventReserve               // Reserve picks it
	EventKeyFreed              // its order key was given up by another job
	EventAck
	EventBury
	EventNack
	EventRelease
	EventStall // its lease ran out and was taken back
	EventPush  // Push with the same ID
	EventMerge // Push with the same merge key
	EventExtend
	EventUpdate
	EventPromote
	EventRequeue
	EventDelete // Delete and Purge
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

// String names the event for people.
func (e Event) String() string { return nameOf("event", eventNames[:], uint8(e)) }

// Transition is what an event may do to a job.
type Transition struct {
	// To lists the states that the job may be in afterwards, StateNone for
	// gone. Nil: the event can't happen to a job in that state.
	To []State
	// Refused is the code with which the operation is refused; the job then
	// stays as it is.
	Refused Code
	// Outcome is what a push is answered that meets the job: exists or merged.
	// Created means that the push makes a job of its own beside it.
	Outcome PushOutcome
}

// Possible tells whether the event can meet a job in that state at all.
func (t Transition) Possible() bool { return t.To != nil }

// Next is the contract's state table: what e does to a job in state from.
func Next(from State, e Event) Transition {
	if int(e) >= len(Events) || int(from) >= len(stateNames) {
		return Transition{}
	}
	return transitions[e][from]
}

// The rows that several events share.
func stays(s State) Transition                   { return Transition{To: []State{s}} }
func refused(s State, code Code) Transition      { return Transition{To: []State{s}, Refused: code} }
func answered(s State, o PushOutcome) Transition { return Transition{To: []State{s}, Outcome: o} }
func to(states ...State) Transition              { return Transition{To: states} }

type row [len(stateNames)]Transition

// each fills a row by asking f for every state of a job that exists.
func each(f func(State) Transition) (r row) {
	for _, s := range States {
		r[s] = f(s)
	}
	return r
}

// settling is the row of a settle: lease_lost everywhere but on a leased job.
func settling(leased Transition) row {
	r := each(func(s State) Transition { return refused(s, CodeLeaseLost) })
	r[StateLeased] = leased
	return r
}

// waitingOnly is the row of an operation that meets jobs which wait, and is a
// conflict for the others.
func waitingOnly(f func(State) Transition) row {
	return each(func(s State) Transition {
		if s.Waiting() {
			return f(s)
		}
		return refused(s, CodeConflict)
	})
}

var transitions = [len(Events)]row{
	EventDue: {StateDelayed: to(StateReady, StateBlocked)},
	EventExpire: {
		StateDelayed: to(StateNone), StateReady: to(StateNone), StateBlocked: to(StateNone),
		StateLeased: stays(StateLeased), // a lease stops the TTL's hand
	},
	EventTrim:     {StateDead: to(StateNone), StateDone: to(StateNone)},
	EventReserve:  {StateReady: to(StateLeased)},
	EventKeyFreed: {StateBlocked: to(StateReady)},
	EventAck:      settling(to(StateNone, StateDone)),
	EventBury:     settling(to(StateDead)),
	// Gone here is expired or merged away. A delivery that ended keeps its
	// order key, so its job is never blocked afterwards.
	EventNack:    settling(to(StateNone, StateDead, StateReady, StateDelayed)),
	EventRelease: settling(to(StateNone, StateReady, StateDelayed)),
	EventStall:   {StateLeased: to(StateNone, StateDead, StateReady)},
	EventPush:    each(func(s State) Transition { return answered(s, Exists) }),
	EventMerge: each(func(s State) Transition {
		switch {
		case s.Waiting(): // replace may move it to any other waiting state
			return Transition{To: []State{StateDelayed, StateReady, StateBlocked}, Outcome: Merged}
		case s == StateLeased: // until: done
			return Transition{To: []State{s}, Outcome: Merged}
		}
		return answered(s, Created)
	}),
	EventExtend: settling(stays(StateLeased)),
	EventUpdate: waitingOnly(func(State) Transition { return to(StateDelayed, StateReady, StateBlocked) }),
	EventPromote: waitingOnly(func(s State) Transition {
		if s == StateDelayed {
			return to(StateReady, StateBlocked)
		}
		return stays(s)
	}),
	EventRequeue: func() row {
		r := each(func(s State) Transition { return refused(s, CodeConflict) })
		r[StateDead] = to(StateReady, StateBlocked, StateNone)
		return r
	}(),
	EventDelete: each(func(State) Transition { return to(StateNone) }),
}
