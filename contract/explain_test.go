package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// expires and merging hold no job back.
func TestExplanationHeld(t *testing.T) {
	t.Parallel()
	facts := []contract.Fact{{Code: contract.FactExpires}, {Code: contract.FactMerging}}
	if x := (contract.Explanation{State: duly.StateReady, Facts: facts}); x.Held() {
		t.Error("a ready job that may expire is held back")
	}
	if x := (contract.Explanation{State: duly.StateReady, Facts: append(facts, contract.Fact{Code: contract.FactRate})}); !x.Held() {
		t.Error("a ready job without a token is not held back")
	}
	if x := (contract.Explanation{State: duly.StateDone}); !x.Held() {
		t.Error("a done job is not held back")
	}
}

// C4.134, C4.137: no moment of a fact is beyond the latest time of the wire.
func TestMomentsOfFactsAreAtMostMaxTime(t *testing.T) {
	t.Parallel()
	j := duly.JobInfo{State: duly.StateDone, FinishedAt: duly.MaxTime}
	j.Retain = time.Hour
	s := contract.Standing{Job: j, Stored: j.State}
	if f := s.Explain().Facts; len(f) != 2 || !f[0].At.Equal(duly.MaxTime) {
		t.Errorf("the facts of a done job are %+v", f)
	}

	j = duly.JobInfo{State: duly.StateReady, PushedAt: duly.MaxTime}
	j.Merge = duly.Merge{Mode: duly.MergeReplace, MaxWait: time.Hour}
	s = contract.Standing{Job: j, Stored: j.State, MaxLeased: duly.None, NextToken: duly.MaxTime.Add(time.Hour)}
	if f := s.Explain().Facts; len(f) != 2 || !f[0].At.Equal(duly.MaxTime) || !f[1].At.Equal(duly.MaxTime) {
		t.Errorf("the facts of a ready job are %+v", f)
	}
}

// noExplain is an engine without Explain.
type noExplain struct{ duly.Engine }

func TestEngineWithoutExplainIsUnsupported(t *testing.T) {
	t.Parallel()
	_, err := contract.ExplainerOf(noExplain{}).Explain(context.Background(), duly.Q("q"), "a")
	if duly.CodeOf(err) != duly.CodeUnsupported {
		t.Errorf("Explain returns %v, want unsupported", err)
	}
}
