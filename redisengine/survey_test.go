package redisengine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// surveyed returns a namespace's survey, by name.
func surveyed(t *testing.T, e *redisengine.Engine, namespace string) map[string]contract.QueueStats {
	t.Helper()
	page, err := e.Survey(t.Context(), namespace, duly.PageParams{Limit: duly.MaxBatch})
	if err != nil || page.Next != "" {
		t.Fatalf("next %q, %v", page.Next, err)
	}
	all := map[string]contract.QueueStats{}
	for _, q := range page.Queues {
		all[q.Name] = q
	}
	return all
}

// TestSurveyReadsIdleQueuesInOneCall checks that a survey makes one call for a hundred idle queues, and one
// for each other queue (C4.94).
func TestSurveyReadsIdleQueuesInOneCall(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	idleQueues(t, e, 1, 50)
	for range 2 { // the first survey reads the configurations
		server.Must("CONFIG", "RESETSTAT")
		if all := surveyed(t, e, "n0"); len(all) != 230 || all["q0"].Stats.Sizes.Delayed != 1 ||
			all["q1"].Stats != (duly.Stats{Delivery: duly.DeliverPull, Tokens: duly.None}) {
			t.Errorf("%d queues, %+v", len(all), all["q0"])
		}
	}
	// Three calls cover the idle queues, and each of the five queues with jobs needs its own call.
	if calls := scriptCalls(server); calls != "fcall_ro 8 " {
		t.Errorf("a survey of 225 idle queues and five others made the calls %s", calls)
	}
}

// TestSurveySeesOtherProcessesChanges checks that a survey reports queues correctly that other
// processes have changed, destroyed or created again since the last survey (C4.94).
func TestSurveySeesOtherProcessesChanges(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	e, other := at(t, withPrefix(server.URL(), prefix), c), at(t, withPrefix(server.URL(), prefix), c)
	ref := func(name string) duly.QueueRef { return duly.QueueRef{Namespace: "some", Name: name} }
	for _, name := range []string{"changed", "made", "gone", "wide", "same"} {
		must(t, other.Configure(t.Context(), ref(name), duly.QueueConfig{Shards: map[string]int{"wide": 8}[name]}))
	}
	if all := surveyed(t, e, "some"); len(all) != 5 {
		t.Fatalf("Survey returned %+v", all)
	}
	must(t, other.Configure(t.Context(), ref("changed"), duly.QueueConfig{MaxJobs: 100}))
	remake(t, other, ref("made"), 4)
	must(t, other.Destroy(t.Context(), ref("gone")))
	for _, name := range []string{"made", "wide", "new"} {
		for range 20 {
			pushOne(t, other, duly.Job{Namespace: "some", Queue: name, Delay: time.Minute})
		}
	}
	for _, advance := range []time.Duration{0, time.Hour} {
		c.Advance(advance)
		all := surveyed(t, e, "some")
		if len(all) != 5 {
			t.Errorf("Survey returned %d queues", len(all))
		}
		for name, q := range all {
			want, err := other.Stats(t.Context(), ref(name))
			if err != nil || q.Err != nil || q.Stats != want {
				t.Errorf("%s is %+v, want %+v (%v, %v)", name, q.Stats, want, q.Err, err)
			}
		}
		if sizes := all["made"].Stats.Sizes; sizes.Delayed+sizes.Ready != 20 {
			t.Errorf("the queue that was created again has the sizes %+v", sizes)
		}
	}
}

// TestSurveyContinuesAfterADamagedQueue checks that damage in one queue does not affect the
// others (C4.94).
func TestSurveyContinuesAfterADamagedQueue(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := at(t, withPrefix(server.URL(), prefix), clock.NewFake())
	const queues = 7
	for i := range queues {
		name := fmt.Sprintf("q%d", i)
		if err := e.Configure(t.Context(), duly.Q(name), duly.QueueConfig{MaxJobs: 100}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			pushOne(t, e, duly.Job{Queue: name})
		}
	}
	server.Must("SET", prefix+":{default/q1/0}:tally", "no hash")
	server.Must("DEL", prefix+":{default/q2/0}:ready")
	server.Must("SET", prefix+":{default/q2/0}:ready", "no sorted set")
	server.Must("HSET", prefix+":{default}:configs", "q3", "no configuration")
	if err := surveyed(t, at(t, withPrefix(server.URL(), prefix), clock.NewFake()),
		"")["q3"].Err; duly.CodeOf(err) != duly.CodeCorrupt {
		t.Errorf("a process that does not know q3 got %v", err)
	}
	for name, q := range surveyed(t, e, "") { // this process has q3 in its cache
		damaged := name == "q1" || name == "q2"
		if code := duly.CodeOf(q.Err); damaged && code != duly.CodeCorrupt || !damaged && q.Err != nil {
			t.Errorf("%s: %v", name, q.Err)
		}
		if want := map[bool]int64{true: 1}[name == "q0" || name == "q4" || name == "q6"]; q.Stats.Sizes.Ready != want {
			t.Errorf("%s has the sizes %+v", name, q.Stats.Sizes)
		}
	}
}
