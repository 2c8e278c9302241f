package redisengine_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// TestLostNamespacesAreRestored checks that the sweep of a process restores a lost list of the
// namespaces that it uses, and moves their overdue jobs in the same sweep. Check of another
// process then finds their queues and faults.
func TestLostNamespacesAreRestored(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	maker := at(t, withPrefix(server.URL(), prefix), c)
	for _, namespace := range []string{"gone", "left", "some"} {
		pushOne(t, maker, duly.Job{Namespace: namespace, Queue: "q", Delay: time.Minute})
	}
	server.Must("DEL", prefix+":namespaces")
	e := at(t, withPrefix(server.URL(), prefix), c) // opened after the list of namespaces was lost
	for _, namespace := range []string{"gone", "some"} {
		pushOne(t, e, duly.Job{Namespace: namespace, Queue: "q", Delay: time.Minute})
	}
	server.Must("DEL", prefix+":{gone}:birth", prefix+":{gone}:configs", prefix+":{gone}:queues")
	c.Advance(time.Hour)
	must(t, e.Sweep(t.Context()))
	if names := server.Must("ZRANGE", prefix+":namespaces", 0, -1).([]any); !slices.Equal(names, []any{"some"}) {
		t.Errorf("the list has %q, want the namespaces that exist and are in use", names)
	}
	ready, err := e.List(t.Context(), duly.QueueRef{Namespace: "some", Name: "q"}, duly.ListParams{State: duly.StateReady})
	if err != nil || len(ready.Jobs) != 2 {
		t.Errorf("%d jobs are ready, %v", len(ready.Jobs), err)
	}
	server.Must("DEL", prefix+":{some/q/0}:ready")
	other := at(t, withPrefix(server.URL(), prefix), c)
	report, err := other.Check(t.Context(), contract.CheckParams{})
	if err != nil || report.Jobs != 2 || !slices.ContainsFunc(report.Faults,
		func(f contract.Fault) bool { return f.Kind == "job_in_no_set" }) {
		t.Errorf("Check of another process returned %+v, %v", report, err)
	}
}

// zadds matches the server's statistics of ZADD calls.
var zadds = regexp.MustCompile(`cmdstat_zadd:calls=\d+`)

// TestSweepDoesNotWriteACompleteList checks that a sweep writes nothing to a list that is
// complete.
func TestSweepDoesNotWriteACompleteList(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	pushOne(t, e, duly.Job{Queue: "q", Delay: time.Hour})
	must(t, e.Sweep(t.Context()))
	before := server.Must("INFO", "commandstats").(string)
	must(t, e.Sweep(t.Context()))
	count := func(stats string) string { return zadds.FindString(stats) }
	if after := server.Must("INFO", "commandstats").(string); count(after) != count(before) {
		t.Errorf("the sweep made %s ZADD calls, want %s as before the sweep", count(after), count(before))
	}
}
