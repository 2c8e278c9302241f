package contract_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestStatesKeepNamesAndNumbers(t *testing.T) {
	t.Parallel()
	want := map[duly.State]string{1: "delayed", 2: "ready", 3: "blocked", 4: "leased", 5: "dead", 6: "done"}
	if len(duly.States) != len(want) {
		t.Errorf("there are %d states", len(duly.States))
	}
	for s, name := range want {
		if s.String() != name {
			t.Errorf("state %d is %s, want %s", s, s, name)
		}
		got, err := contract.ParseState(name)
		if err != nil || got != s {
			t.Errorf("%s is read as %s (%v)", name, got, err)
		}
		var again duly.State
		if text, _ := s.MarshalText(); again.UnmarshalText(text) != nil || again != s {
			t.Errorf("%s travels as %s", s, again)
		}
	}
	for _, text := range []string{"", "none", "Ready", "ready ", "state(7)"} {
		if s, err := contract.ParseState(text); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q is read as %s (%v)", text, s, err)
		}
	}
}

func TestUnknownValuesAreFormattedAsNumbers(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]fmt.Stringer{
		"state(200)": duly.State(200), "event(200)": contract.Event(200), "outcome(9)": duly.PushStatus(9), "settlement(9)": duly.Settlement(9),
	} {
		if got := value.String(); got != want {
			t.Errorf("the name of %s is %s", want, got)
		}
	}
}

// C3.28: the state table is consistent. enginetest compares the engines with the table.
func TestTableIsConsistent(t *testing.T) {
	t.Parallel()
	for _, e := range contract.Events {
		possible := 0
		for _, s := range duly.States {
			tr := contract.Next(s, e)
			if !tr.Possible() {
				if tr.Refused != "" || tr.Status != 0 {
					t.Errorf("%s of a %s job can't happen and is answered", e, s)
				}
				continue
			}
			possible++
			if tr.Refused != "" && !slices.Equal(tr.To, []duly.State{s}) {
				t.Errorf("%s of a %s job is refused and changes it", e, s)
			}
			if tr.Status != 0 && e != contract.EventPush && e != contract.EventMerge {
				t.Errorf("%s of a %s job has a push's outcome", e, s)
			}
			for i, to := range tr.To {
				if to > duly.StateDone || slices.Contains(tr.To[:i], to) {
					t.Errorf("%s of a %s job goes to %s", e, s, tr.To)
				}
			}
		}
		if possible == 0 {
			t.Errorf("%s can meet no job", e)
		}
	}
}

// C3.1: every state can be reached from the two states of a new job, and every state can be left.
func TestTableReachesEveryState(t *testing.T) {
	t.Parallel()
	reached := map[duly.State]bool{duly.StateDelayed: true, duly.StateReady: true}
	for range duly.States {
		for s := range reached {
			for _, e := range contract.Events {
				for _, to := range contract.Next(s, e).To {
					reached[to] = true
				}
			}
		}
	}
	for _, s := range duly.States {
		if !reached[s] {
			t.Errorf("no event leads to %s", s)
		}
		if !slices.Contains(contract.Next(s, contract.EventDelete).To, duly.StateNone) {
			t.Errorf("a %s job can't be deleted", s)
		}
	}
	if !reached[duly.StateNone] {
		t.Error("no job ever goes")
	}
}

// Only a leased job has a current receipt.
func TestTableRefusesEverySettleButOfALeasedJob(t *testing.T) {
	t.Parallel()
	for _, e := range []contract.Event{
		contract.EventAck, contract.EventNack, contract.EventRelease, contract.EventBury, contract.EventExtend,
	} {
		for _, s := range duly.States {
			if refused := contract.Next(s, e).Refused == duly.CodeLeaseLost; refused == (s == duly.StateLeased) {
				t.Errorf("%s of a %s job: refused %t", e, s, refused)
			}
		}
	}
}

func TestTableHasNoTransitionForUnknownStates(t *testing.T) {
	t.Parallel()
	for _, e := range append(contract.Events[:], 99, 255) {
		for _, s := range []duly.State{duly.StateNone, 7, 255} {
			if contract.Next(s, e).Possible() {
				t.Errorf("%s of %s is possible", e, s)
			}
		}
	}
}

func TestSettlementsAreEvents(t *testing.T) {
	t.Parallel()
	for as, e := range map[duly.Settlement]contract.Event{
		duly.Ack: contract.EventAck, duly.Nack: contract.EventNack, duly.Release: contract.EventRelease, duly.Bury: contract.EventBury,
	} {
		if contract.EventOf(as) != e || as.String() != e.String() {
			t.Errorf("%s is the event %s", as, contract.EventOf(as))
		}
		var again duly.Settlement
		if text, _ := as.MarshalText(); again.UnmarshalText(text) != nil || again != as {
			t.Errorf("%s travels as %s", as, again)
		}
	}
	var as duly.Settlement
	for _, text := range []string{"", "none", "Ack", "nack "} {
		if !errors.Is(as.UnmarshalText([]byte(text)), duly.ErrInvalid) {
			t.Errorf("%q is read as %s", text, as)
		}
	}
}

func TestOutcomesTravelByName(t *testing.T) {
	t.Parallel()
	for o, name := range map[duly.PushStatus]string{duly.Created: "created", duly.Merged: "merged", duly.Exists: "exists"} {
		var again duly.PushStatus
		if text, _ := o.MarshalText(); string(text) != name || again.UnmarshalText(text) != nil || again != o {
			t.Errorf("%s travels as %s", name, again)
		}
	}
	var o duly.PushStatus
	if !errors.Is(o.UnmarshalText([]byte("none")), duly.ErrInvalid) {
		t.Error("none is read as an outcome")
	}
}
