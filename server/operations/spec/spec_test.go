package spec

import (
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
)

// C14.102: an operation needs the right of the route for the same change.
func TestRightOfEachKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []contract.OperationKind{"requeue", "purge", "delete", "promote", "", "x"} {
		for _, byIDs := range []bool{false, true} {
			want := auth.Admin
			if kind == "delete" || kind == "promote" {
				if want = auth.Both; byIDs {
					want = auth.Produce
				}
			}
			if got := Access(kind, byIDs); got != want {
				t.Errorf("%s, by IDs: %v needs %s, want %s", kind, byIDs, got, want)
			}
		}
	}
}

// The words of a filter name the jobs and the time.
func TestWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var got []string
	for _, n := range []contract.NewOperation{
		{IDs: []string{"a"}}, {IDs: []string{"a", "b"}}, {Group: "0123456789ab", State: duly.StateDead}, {State: duly.StateDead},
		{State: duly.StateDone}, {State: duly.StateDelayed},
	} {
		got = append(got, Words(&n, at))
	}
	want := []string{
		"the job a", "2 jobs by ID, the first is a",
		"dead jobs of the group " + "0123456789ab" + " that died until 2030-01-01 12:00:00.000 UTC",
		"all dead jobs that died until 2030-01-01 12:00:00.000 UTC",
		"all done jobs that ended until 2030-01-01 12:00:00.000 UTC",
		"all delayed jobs that were pushed until 2030-01-01 12:00:00.000 UTC",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the words are %q", got)
	}
}
