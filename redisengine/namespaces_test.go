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

// A list of namespaces that was lost is made again by the sweep of whoever uses
// them, and what is overdue there waits for no other sweep: then Check of another
// process sees their queues, and what is wrong in them.
func TestLostNamespacesAreHealed(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	maker := at(t, withPrefix(server.URL(), prefix), c)
	for _, namespace := range []string{"gone", "left", "some"} {
		pushOne(t, maker, duly.Job{Namespace: namespace, Queue: "q", Delay: time.Minute})
	}
	server.Must("DEL", prefix+":namespaces")
	e := at(t, withPrefix(server.URL(), prefix), c) // begins when the list is lost
	for _, namespace := range []string{"gone", "some"} {
		pushOne(t, e, duly.Job{Namespace: namespace, Queue: "q", Delay: time.Minute})
	}
	server.Must("DEL", prefix+":{gone}:birth", prefix+":{gone}:configs", prefix+":{gone}:queues")
	c.Advance(time.Hour)
	must(t, e.Sweep(t.Context()))
	if names := server.Must("ZRANGE", prefix+":namespaces", 0, -1).([]any); !slices.Equal(names, []any{"some"}) {
		t.Errorf("the list has %q, want the one that is there and in use", names)
	}
	ready, err := e.List(t.Context(), duly.QueueRef{Namespace: "some", Name: "q"}, duly.ListParams{State: duly.StateReady})
	if err != nil || len(ready.Jobs) != 2 {
		t.Errorf("%d jobs are ready, %v", len(ready.Jobs), err)
	}
	server.Must("DEL", prefix+":{some/q/0}:ready")
	other := at(t, withPrefix(server.URL(), prefix), c)
	report, err := other.Check(t.Context(), contract.CheckParams{})
	if err != nil || report.Jobs != 2 || !slices.ContainsFunc(report.Faults, func(f contract.Fault) bool { return f.Kind == "job_in_no_set" }) {
		t.Errorf("another process sees %+v, %v", report, err)
	}
}

// zadds is how often a server was called to add to a sorted set.
var zadds = regexp.MustCompile(`cmdstat_zadd:calls=\d+`)

// A list that has lost nothing is written to by no sweep.
func TestSweepWritesNoListThatIsWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	pushOne(t, e, duly.Job{Queue: "q", Delay: time.Hour})
	must(t, e.Sweep(t.Context()))
	before := server.Must("INFO", "commandstats").(string)
	must(t, e.Sweep(t.Context()))
	count := func(stats string) string { return zadds.FindString(stats) }
	if after := server.Must("INFO", "commandstats").(string); count(after) != count(before) {
		t.Errorf("the server was sent %s, and before the sweep it was %s", count(after), count(before))
	}
}
