package httpengine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

// gate delays each request until the test releases it.
type gate struct{ open chan struct{} }

// inGate runs a test with pushes that wait at a gate.
func inGate(t *testing.T, serve http.HandlerFunc, test func(t *testing.T, r *rig, g *gate)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		if serve == nil {
			serve = created
		}
		r := newRig(t, httpengine.Config{}, func(w http.ResponseWriter, req *http.Request) {
			<-g.open
			serve(w, req)
		})
		test(t, r, g)
	})
}

// pending is a push in progress.
type pending struct {
	done    chan struct{}
	results []duly.PushResult
	err     error
}

func (r *rig) begin(ctx context.Context, jobs ...duly.Job) *pending {
	p := &pending{done: make(chan struct{})}
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	go func() {
		defer close(p.done)
		p.results, p.err = r.Push(ctx, jobs)
	}()
	synctest.Wait() // returns when the push waits in the batcher
	return p
}

// got expects these IDs as the results of the push.
func (p *pending) got(t *testing.T, ids ...string) {
	t.Helper()
	<-p.done
	if p.err != nil || len(p.results) != len(ids) {
		t.Fatalf("the push of %q is answered %+v, %v", ids, p.results, p.err)
	}
	for i, id := range ids {
		if p.results[i].ID != id || p.results[i].Status != duly.Created {
			t.Errorf("%q is answered %+v", id, p.results[i])
		}
	}
}

func sentIDs(t *testing.T, s seen) string {
	t.Helper()
	jobs, err := wire.ReadPush(s.body, "shop")
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(jobs.Values))
	for i, j := range jobs.Values {
		ids[i] = j.ID
	}
	return strings.Join(ids, " ")
}

func (r *rig) sent(t *testing.T, want ...string) {
	t.Helper()
	requests := r.requests()
	if len(requests) != len(want) {
		t.Errorf("%d requests were sent, want %d", len(requests), len(want))
	}
	for i, s := range requests {
		if got := sentIDs(t, s); i < len(want) && got != want[i] {
			t.Errorf("request %d carries %q, want %q", i, got, want[i])
		}
	}
}

// C4.3: calls that are made during a request are joined into the next request, in their order, and
// each gets its own results.
func TestCallsAreJoinedDuringARequest(t *testing.T) {
	inGate(t, nil, func(t *testing.T, r *rig, g *gate) {
		ctx := t.Context()
		first := r.begin(ctx, duly.Job{ID: "a"})
		second := r.begin(ctx, duly.Job{ID: "b"}, duly.Job{ID: "c"})
		third := r.begin(ctx, duly.Job{ID: "d", OrderKey: "\xff"}, duly.Job{ID: "e"})
		close(g.open)
		first.got(t, "a")
		second.got(t, "b", "c")
		<-third.done
		if third.err != nil || third.results[1].ID != "e" || third.results[1].Status != duly.Created {
			t.Errorf("the third is answered %+v, %v", third.results, third.err)
		}
		wants(t, "its bad item", third.results[0].Err, duly.CodeInvalid)
		r.sent(t, "a", "b c e")
	})
}

// C4.5, C4.6: joined calls keep the limits of a single call.
func TestJoinedCallsStayWithinTheBounds(t *testing.T) {
	inGate(t, nil, func(t *testing.T, r *rig, g *gate) {
		ctx := t.Context()
		jobs := func(prefix string, n, size int) []duly.Job {
			jobs := make([]duly.Job, n)
			for i := range jobs {
				jobs[i] = duly.Job{ID: fmt.Sprintf("%s%d", prefix, i), Body: bytes.Repeat([]byte("x"), size)}
			}
			return jobs
		}

		all := []*pending{
			r.begin(ctx, duly.Job{ID: "a"}),
			r.begin(ctx, jobs("b", 600, 1)...), r.begin(ctx, jobs("c", 400, 1)...), r.begin(ctx, duly.Job{ID: "d"}),
			r.begin(ctx, jobs("e", 5, 1<<20)...), r.begin(ctx, jobs("f", 4, 1<<20)...),
		}

		close(g.open)
		for _, p := range all {
			<-p.done
			if p.err != nil {
				t.Error(p.err)
			}
		}

		var counts []int
		for _, s := range r.requests() {
			counts = append(counts, len(strings.Fields(sentIDs(t, s))))
		}
		if fmt.Sprint(counts) != "[1 1000 6 4]" {
			t.Errorf("the requests carry %v jobs, want [1 1000 6 4]", counts)
		}
	})
}

// C4.2: a caller whose context ends does not affect the others.
func TestCanceledCallerDoesNotAffectOthers(t *testing.T) {
	inGate(t, nil, func(t *testing.T, r *rig, g *gate) {
		flying, cancelFlying := context.WithCancel(t.Context())
		waiting, cancelWaiting := context.WithCancel(t.Context())
		first := r.begin(flying, duly.Job{ID: "a"})
		second := r.begin(waiting, duly.Job{ID: "b"})
		third := r.begin(t.Context(), duly.Job{ID: "c"})
		cancelFlying()
		cancelWaiting()
		<-first.done
		<-second.done
		wants(t, "what was sent", first.err, duly.CodeUnavailable)
		if !errors.Is(first.err, context.Canceled) {
			t.Errorf("%v does not say why", first.err)
		}
		if second.err != context.Canceled {
			t.Errorf("a push that was not sent returns %v", second.err)
		}
		close(g.open)
		third.got(t, "c")
		r.sent(t, "a", "c")
	})
}

// After Push has returned, with or without an error, the caller may change its jobs.
func TestJobsAreNotUsedAfterPush(t *testing.T) {
	inGate(t, nil, func(t *testing.T, r *rig, g *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		body := []byte("mine")
		jobs := []duly.Job{{ID: "b", Queue: "q", Body: body}}
		first := r.begin(t.Context(), duly.Job{ID: "a"})
		ended := make(chan struct{})

		go func() {
			defer close(ended)
			_, _ = r.Push(ctx, jobs)
		}()
		synctest.Wait()
		g.open <- struct{}{}
		first.got(t, "a")
		synctest.Wait() // returns when the second request was sent
		cancel()
		<-ended
		jobs[0].ID = "z"
		copy(body, "ours")
		close(g.open)
		synctest.Wait()
		if s := r.requests()[1]; sentIDs(t, s) != "b" || !strings.Contains(s.body, "mine") {
			t.Errorf("the sent body is %s", s.body)
		}
	})
}

// C4.8: the error of a joined request is the error of each of its calls.
func TestErrorOfJoinedRequestIsReturnedToEachCall(t *testing.T) {
	inGate(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, duly.ErrFull) },
		func(t *testing.T, r *rig, g *gate) {
			first := r.begin(t.Context(), duly.Job{ID: "a"})
			second, third := r.begin(t.Context(), duly.Job{ID: "b"}), r.begin(t.Context(), duly.Job{ID: "c"})
			close(g.open)
			for _, p := range []*pending{first, second, third} {
				<-p.done
				wants(t, "a push", p.err, duly.CodeFull)
			}
			r.sent(t, "a", "b c")
		})
}

// A joined request without an answer is not sent again.
func TestJoinedRequestWithoutAnswerIsNotRepeated(t *testing.T) {
	inGate(t, func(w http.ResponseWriter, _ *http.Request) { hijack(w).Close() }, func(t *testing.T, r *rig, g *gate) {
		first := r.begin(t.Context(), duly.Job{ID: "a"})
		second, third := r.begin(t.Context(), duly.Job{ID: "b"}), r.begin(t.Context(), duly.Job{ID: "c"})
		close(g.open)
		for _, p := range []*pending{first, second, third} {
			<-p.done
			wants(t, "a push", p.err, duly.CodeUnavailable)
		}
		r.sent(t, "a", "b c")
	})
}

// C4.4: if a server refuses a joined request, its calls are sent one by one, so that only the bad one
// fails.
func TestRefusedJoinedRequestIsSentOneByOne(t *testing.T) {
	serve := func(w http.ResponseWriter, req *http.Request) {
		for _, j := range pushed(req) {
			if j.Backoff == "fixed:1s" {
				problem(w, contract.Invalid("request", "has the unknown field backoff"))
				return
			}
		}
		created(w, cloned(req))
	}

	inGate(t, serve, func(t *testing.T, r *rig, g *gate) {
		first := r.begin(t.Context(), duly.Job{ID: "a"})
		second := r.begin(t.Context(), duly.Job{ID: "b"})
		bad := r.begin(t.Context(), duly.Job{ID: "c", Backoff: "fixed:1s"})
		third := r.begin(t.Context(), duly.Job{ID: "d"})
		close(g.open)
		first.got(t, "a")
		second.got(t, "b")
		third.got(t, "d")
		<-bad.done
		wants(t, "the bad one", bad.err, duly.CodeInvalid)
		r.sent(t, "a", "b c d", "b", "c", "d")
	})
}

// C4.4, C13.7: a request that is too large is sent in parts. A single job that is too large gets a
// separate error.
func TestRequestThatIsTooLargeIsHalved(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength > 4000 {
			problem(w, contract.TooLarge("request", "has %d bytes, may have at most 4000", req.ContentLength))
			return
		}
		created(w, req)
	}, func(t *testing.T, r *rig) {
		jobs := make([]duly.Job, 8)
		for i := range jobs {
			jobs[i] = duly.Job{ID: fmt.Sprint(i), Queue: "q", Body: []byte(strings.Repeat("x", 1000))}
		}
		jobs[5].Body = []byte(strings.Repeat("x", 5000))
		results, err := r.Push(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}

		for i, p := range results {
			if i == 5 {
				wants(t, "the large one", p.Err, duly.CodeTooLarge)
			} else if p.Err != nil || p.ID != jobs[i].ID {
				t.Errorf("job %d is answered %+v", i, p)
			}
		}

		outcomes := make([]duly.SettleRequest, 4)
		for i := range outcomes {
			outcomes[i] = duly.SettleRequest{Receipt: "q:0:01J0000000000000000000000A:1", As: duly.Ack,
				Result: []byte(strings.Repeat("x", 5000))}
		}
		errs, err := r.Settle(t.Context(), "", outcomes)
		if err != nil || len(errs) != 4 {
			t.Fatal(errs, err)
		}
		for _, err := range errs {
			wants(t, "a large result", err, duly.CodeTooLarge)
		}
	})
}

// leaving is a context that ends without closing its Done channel.
type leaving struct {
	context.Context
	gone atomic.Bool
}

func (l *leaving) Err() error {
	if l.gone.Load() {
		return context.Canceled
	}
	return nil
}

// C4.4: the results of the first half of a halved request are returned, with any result of the
// second half.
func TestResultsOfFirstHalfAreReturned(t *testing.T) {
	fares := map[string]struct {
		// Error of the second call from the server; nil means that the caller's context ends before
		// the request.
		second error
		code   duly.Code
	}{
		"the limit is used up": {&duly.Error{Code: duly.CodeLimited, RetryAfter: time.Second}, duly.CodeLimited},
		"the queue is full":    {contract.Errorf(duly.CodeFull, "is full"), duly.CodeFull},
		"the caller has gone":  {nil, duly.CodeUnavailable},
	}

	for how, of := range fares {
		t.Run(how, func(t *testing.T) {
			ctx := &leaving{Context: context.Background()}
			inBubble(t, func(w http.ResponseWriter, req *http.Request) {
				switch jobs := pushed(cloned(req)); {
				case len(jobs) > 1:
					problem(w, contract.TooLarge("request", "is too large"))
				case jobs[0].ID == "a":
					ctx.gone.Store(of.second == nil)
					created(w, cloned(req))
				default:
					problem(w, of.second)
				}
			}, func(t *testing.T, r *rig) {
				got, err := r.Push(ctx, []duly.Job{{ID: "a", Queue: "q", Made: true},
					{ID: "b", Queue: "q", Made: true}})
				if err != nil || len(got) != 2 || got[0].Err != nil || got[0].ID != "a" || got[1].ID != "b" {
					t.Fatalf("%+v, %v", got, err)
				}
				wants(t, "the second one", got[1].Err, of.code)
			})
		})
	}
}

// cloned returns a copy of the request, with a body that can be read again.
func cloned(req *http.Request) *http.Request {
	copied := *req
	copied.Body, _ = req.GetBody()
	return &copied
}
