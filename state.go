package duly

import "fmt"

// State is a state of a job. Every job that exists is in exactly one.
type State uint8

// The states. Their numbers are stored by engines and never change.
const (
	StateNone    State = 0 // deleted, or not yet created
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

// String returns the state's name on every wire.
func (s State) String() string { return nameOf("state", stateNames[:], uint8(s)) }

// nameOf returns the name of an enumeration's value. A value without a name becomes a
// number, because a wire must not take it for another value.
func nameOf(kind string, names []string, value uint8) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

// Waiting reports whether a job in this state waits for its delivery: delayed, ready or
// blocked. A waiting job can be updated, and others can be merged into it.
func (s State) Waiting() bool {
	return s == StateDelayed || s == StateReady || s == StateBlocked
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if i > 0 && name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return invalid("state", "must be one of delayed, ready, blocked, leased, dead, done")
}
