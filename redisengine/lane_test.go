package redisengine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// C11.18: while calls are on their way the next ones gather, and go out as one
// script call. Each caller sees its own result alone.
func TestCallsOfManyGoOutAsOne(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	g.push(1, 0) // makes the queue
	g.ack(g.reserve(1))
	_ = g.e.Delete(t.Context(), duly.Q("q"), "x")
	s := g.gear()
	const callers = 100
	gather := func(what string, l *lane, call func(i int)) {
		t.Helper()
		state := func() (senders, waiting int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.senders, len(l.waiting)
		}
		counts := g.calls(func() {
			g.server.Pause()
			var all sync.WaitGroup
			defer all.Wait()
			defer g.server.Continue()
			for i := range callers {
				all.Go(func() { call(i) })
				redistest.Await(t, "the caller is there", func() bool {
					senders, waiting := state()
					return senders == min(i+1, inFlight) && waiting == max(0, i+1-inFlight)
				})
			}
		})
		if n := counts["FCALL"]; n != inFlight+1 {
			t.Errorf("%d callers: %d script calls for %s, want %d that were on their way and one for the others", callers, n, what, inFlight)
		}
	}

	var mu sync.Mutex
	created, existed := map[string]bool{}, 0
	gather("push", &s.push, func(i int) {
		job := duly.Job{Queue: "q", Body: []byte(fmt.Sprint(i)), ID: duly.NewNumber().String(), Made: true}
		results, err := g.e.Push(g.Context(), []duly.Job{job})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(results) != 1 || results[0].ID != job.ID || results[0].Outcome != duly.Created {
			t.Errorf("caller %d: %+v, %v", i, results, err)
		}
		created[job.ID] = true
	})
	ds := g.reserve(callers)
	gather("settle", &s.settle, func(i int) {
		outcomes := []duly.Outcome{{Receipt: ds[i/2*2].Receipt, As: duly.Ack}} // two callers for every second job
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
	gather("delete", &s.remove, func(i int) {
		err := g.e.Delete(g.Context(), duly.Q("q"), ds[i/2].ID) // two callers for each job
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
	gather("reserve", &s.reserve, func(i int) {
		if ds := g.reserve(1); ds[0].Queue != "q" {
			t.Errorf("caller %d: %+v", i, ds)
		}
	})
	if len(created) != callers || existed != callers/2 {
		t.Errorf("%d jobs were created and %d settles came second, want %d and %d", len(created), existed, callers, callers/2)
	}
}

// Callers that come back together when nothing is on its way go out as two
// halves; those who come while something is, as one.
func TestCallersWhoComeBackTogetherAreHalved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		flying, items int
		callers       int
		want          []int
	}{
		{"64 callers when nothing is on its way", 0, 1, 64, []int{32, 32}},
		{"64 callers while a call is on its way", 1, 1, 64, []int{64}},
		{"a few callers", 0, 1, 2*leastHalf - 1, []int{2*leastHalf - 1}},
		{"batches are not divided", 0, 100, 3, []int{100, 200}},
		{"one batch", 0, 100, 1, []int{100}},
		{"more than fits into a call", 0, 600, 2, []int{600, 600}},
	} {
		e := &Engine{ctx: t.Context()}
		sent := make(chan int, c.callers)
		over := make(chan struct{})
		l := &lane{senders: inFlight, flying: c.flying} // nobody is hired before all have come
		l.send = func(_ context.Context, calls []*joint) error {
			n := 0
			for _, call := range calls {
				n += call.items
			}
			sent <- n
			<-over
			return nil
		}
		var all sync.WaitGroup
		for range c.callers {
			all.Go(func() {
				if err := l.join(t.Context(), e, newJoint(c.items)); err != nil {
					t.Error(err)
				}
			})
		}
		redistest.Await(t, "all have come", func() bool {
			n, _ := l.gathered()
			return n == c.callers
		})
		l.mu.Lock()
		l.senders = c.flying
		l.hire(e)
		l.mu.Unlock()
		var got []int
		for range c.want {
			got = append(got, <-sent)
		}
		close(over)
		all.Wait()
		e.work.end()
		if !slices.Equal(got, c.want) || len(sent) > 0 {
			t.Errorf("%s go out as %v, want %v", c.what, got, c.want)
		}
	}
}
