package redisengine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestConcurrentCallsShareAScriptCall checks that calls which arrive while others are in flight
// share one script call (C11.18). Each caller gets only its own results.
func TestConcurrentCallsShareAScriptCall(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	// The first push creates the queue.
	g.push(1, 0)
	g.ack(g.reserve(1))
	_ = g.e.Delete(t.Context(), duly.Q("q"), "x")
	s := g.batchers()
	const callers = 100
	gather := func(what string, b *jobs.Batcher, call func(i int)) {
		t.Helper()
		counts := g.calls(func() {
			g.server.Pause()
			var all sync.WaitGroup
			defer all.Wait()
			defer g.server.Continue()
			for i := range callers {
				all.Go(func() { call(i) })
				redistest.Await(t, "the caller is there", func() bool {
					return b.Sending() == min(i+1, store.InFlight) && b.Waiting() == max(0, i+1-store.InFlight)
				})
			}
		})
		if n := counts["FCALL"]; n != store.InFlight+1 {
			t.Errorf("%d callers: %d script calls for %s, want %d that were in flight and one for the others", callers, n,
				what, store.InFlight)
		}
	}

	var mu sync.Mutex
	created, existed := map[string]bool{}, 0
	gather("push", &s.Push, func(i int) {
		job := duly.Job{Queue: "q", Body: []byte(fmt.Sprint(i)), ID: duly.NewNumber().String(), Made: true}
		results, err := g.e.Push(g.Context(), []duly.Job{job})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(results) != 1 || results[0].ID != job.ID || results[0].Status != duly.Created {
			t.Errorf("caller %d: %+v, %v", i, results, err)
		}
		created[job.ID] = true
	})
	ds := g.reserve(callers)
	gather("settle", &s.Settle, func(i int) {
		// Every second job has two callers.
		outcomes := []duly.SettleRequest{{Receipt: ds[i/2*2].Receipt, As: duly.Ack}}
		errs, err := g.e.Settle(g.Context(), "", outcomes)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(errs) != 1 || errs[0] != nil && duly.CodeOf(errs[0]) != duly.CodeLeaseLost {
			t.Errorf("caller %d: %v, %v", i, errs, err)
		}
		if errs[0] != nil {
			existed++
		}
	})
	notFound := 0
	g.push(callers/2, 0)
	ds = g.reserve(callers / 2)
	gather("delete", &s.Remove, func(i int) {
		// Each job has two callers.
		err := g.e.Delete(g.Context(), duly.Q("q"), ds[i/2].ID)
		mu.Lock()
		defer mu.Unlock()
		if err != nil && duly.CodeOf(err) != duly.CodeNotFound {
			t.Errorf("caller %d: %v", i, err)
		}
		if err != nil {
			notFound++
		}
	})
	if notFound != callers/2 {
		t.Errorf("%d deletes found nothing, want %d", notFound, callers/2)
	}
	g.push(callers, 0)
	gather("reserve", &s.Reserve, func(i int) {
		if ds := g.reserve(1); ds[0].Queue != "q" {
			t.Errorf("caller %d: %+v", i, ds)
		}
	})
	if len(created) != callers || existed != callers/2 {
		t.Errorf("%d jobs were created and %d settles found a used receipt, want %d and %d", len(created), existed, callers,
			callers/2)
	}
}
