package redisengine_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
)

// TestJoinedPushesStoreEveryJob checks that plain jobs of concurrent callers each keep their
// number, whatever the order of the callers. The queue has a limit, so all jobs go to random
// shards.
func TestJoinedPushesStoreEveryJob(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	q := duly.Q("q")
	if err := e.Configure(t.Context(), q, duly.QueueConfig{MaxJobs: 10_000}); err != nil {
		t.Fatal(err)
	}
	const callers, calls = 16, 30
	var ids []string
	for range callers * calls {
		ids = append(ids, duly.MakeID(&duly.Job{}))
	}
	slices.Sort(ids)
	var all sync.WaitGroup
	// Each caller begins with its newest job.
	for caller := range callers {
		all.Go(func() {
			for i := range calls {
				id := ids[(callers-1-caller)*calls+calls-1-i]
				r, err := e.Push(t.Context(), []duly.Job{{Queue: q.Name, ID: id, Made: true}})
				if err != nil || r[0].Status != duly.Created {
					t.Error(r, err)
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if _, err := e.Get(t.Context(), q, id); err != nil {
			t.Error(id, err)
		}
	}
	report, err := e.Check(t.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("Check found %+v, %v", report.Faults, err)
	}
}
