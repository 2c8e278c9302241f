package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dulymq/duly"
)

// item is a call with an input and a result.
type item struct {
	Call
	name   string
	kind   int
	result string
}

func newItem(name string) *item { return &item{Call: Call{Items: 1}, name: name} }

// recorder records batches, and answers each batch when the test allows it.
type recorder struct {
	*Batcher[*item]
	running sync.WaitGroup
	closed  bool
	open    chan error // each value answers a batch with an error or nil

	guard   sync.Mutex
	batches []string
}

func newRecorder(limits Limits, inFlight int) *recorder {
	r := &recorder{open: make(chan error)}
	r.Batcher = &Batcher[*item]{Limits: limits, InFlight: inFlight, Send: r.send, Go: r.run}
	return r
}

func (r *recorder) run(f func()) bool {
	if !r.closed {
		r.running.Go(f)
	}
	return !r.closed
}

func (r *recorder) send(_ context.Context, calls []*item) error {
	names := ""
	for _, c := range calls {
		names += c.name
	}
	r.guard.Lock()
	r.batches = append(r.batches, names)
	r.guard.Unlock()

	err := <-r.open
	for _, c := range calls {
		if c.Claim() {
			c.result = "done " + c.name
		}
	}
	return err
}

// call begins a call. Its error comes on the channel.
func (r *recorder) call(ctx context.Context, c *item) <-chan error {
	end := make(chan error, 1)
	go func() { end <- r.Do(ctx, c) }()
	synctest.Wait()
	return end
}

func (r *recorder) sent() string {
	r.guard.Lock()
	defer r.guard.Unlock()
	return fmt.Sprint(r.batches)
}

func wantNil(t *testing.T, ends ...<-chan error) {
	t.Helper()
	for i, end := range ends {
		if err := <-end; err != nil {
			t.Errorf("call %d failed: %v", i, err)
		}
	}
}

func TestBatcherJoinsCallsWhileOneIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		items := []*item{newItem("a"), newItem("b"), newItem("c")}
		var ends []<-chan error
		for _, i := range items {
			ends = append(ends, r.call(t.Context(), i))
		}

		close(r.open)
		wantNil(t, ends...)
		if got := r.sent(); got != "[a bc]" {
			t.Errorf("batches are %s, want a alone and b with c", got)
		}
		for _, i := range items {
			if i.result != "done "+i.name || !i.Answered() {
				t.Errorf("%s got %q", i.name, i.result)
			}
		}
	})
}

func TestBatcherKeepsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		items, bytes int
		want         string
	}{
		"items":               {4, 0, "[a bc d]"},
		"bytes":               {1, 50, "[a bc d]"},
		"one call above both": {99, 999, "[a b c d]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(Limits{Items: 9, Bytes: 100}, 1)
				var ends []<-chan error
				for _, name := range []string{"a", "b", "c", "d"} {
					i := newItem(name)
					i.Items, i.Bytes = c.items, c.bytes
					ends = append(ends, r.call(t.Context(), i))
				}

				close(r.open)
				wantNil(t, ends...)
				if got := r.sent(); got != c.want {
					t.Errorf("batches are %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestBatcherKeepsCallsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		r.Together = func(first, call *item) bool { return first.kind == call.kind }
		ends := []<-chan error{r.call(t.Context(), newItem("a"))}
		for n, name := range []string{"b", "C", "d", "E"} {
			i := newItem(name)
			i.kind = n % 2
			ends = append(ends, r.call(t.Context(), i))
		}

		close(r.open)
		wantNil(t, ends...)
		if got := r.sent(); got != "[a bd CE]" {
			t.Errorf("batches are %s, want those of one kind together", got)
		}
	})
}

// Callers that come back together while no batch is in flight are sent as two halves. Callers that
// come while a batch is in flight are sent as one batch.
func TestBatcherHalvesCallersThatComeBackTogether(t *testing.T) {
	for _, c := range []struct {
		what     string
		inFlight int
		items    int
		callers  int
		want     []int
	}{
		{"64 callers, nothing in flight", 0, 1, 64, []int{32, 32}},
		{"64 callers, one batch in flight", 1, 1, 64, []int{64}},
		{"a few callers", 0, 1, 2*minHalf - 1, []int{2*minHalf - 1}},
		{"large calls are not divided", 0, 100, 3, []int{100, 200}},
		{"one large call", 0, 100, 1, []int{100}},
		{"more than fits into a batch", 0, 600, 2, []int{600, 600}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(Limits{Items: 1000, Bytes: 100}, 2)
				sent := make(chan int, c.callers)
				r.Send = func(_ context.Context, calls []*item) error {
					n := 0
					for _, call := range calls {
						n += call.Items
					}
					sent <- n
					return <-r.open
				}
				r.senders, r.inFlight = 2, c.inFlight // no sender starts before all calls are queued
				var ends []<-chan error
				for range c.callers {
					i := newItem("x")
					i.Items = c.items
					ends = append(ends, r.call(t.Context(), i))
				}

				r.mu.Lock()
				r.senders = c.inFlight
				r.start()
				r.mu.Unlock()
				var got []int
				for range c.want {
					got = append(got, <-sent)
				}
				close(r.open)
				wantNil(t, ends...)
				if !slices.Equal(got, c.want) || len(sent) > 0 {
					t.Errorf("batches have %v items, want %v", got, c.want)
				}
			})
		})
	}
}

func TestBatcherHasTwoBatchesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 2)
		var ends []<-chan error
		for _, name := range []string{"a", "b", "c", "d"} {
			ends = append(ends, r.call(t.Context(), newItem(name)))
		}
		if got := r.sent(); got != "[a b]" || r.Sending() != 2 || r.Waiting() != 2 {
			t.Errorf("%d batches are in flight, %s, and %d calls wait", r.Sending(), got, r.Waiting())
		}

		close(r.open)
		wantNil(t, ends...)
		if got := r.sent(); got != "[a b cd]" {
			t.Errorf("batches are %s", got)
		}
	})
}

func TestCallerLeavesItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		ctx, leave := context.WithCancel(t.Context())
		inFlight, queued, stays := newItem("a"), newItem("b"), newItem("c")
		first, second, third := r.call(ctx, inFlight), r.call(ctx, queued), r.call(t.Context(), stays)

		leave()
		if err := <-first; duly.CodeOf(err) != duly.CodeUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("leaving a call in flight returns %v, want unavailable because the context was canceled", err)
		}
		if err := <-second; err != context.Canceled {
			t.Errorf("leaving a queued call returns %v, want the context's own error", err)
		}
		close(r.open)
		wantNil(t, third)

		if got := r.sent(); got != "[a c]" {
			t.Errorf("batches are %s: b was left before", got)
		}
		if inFlight.Answered() || inFlight.result != "" || queued.Answered() {
			t.Errorf("a call that was left was answered: %q", inFlight.result)
		}
	})
}

func TestAClaimedCallWaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		claimed := make(chan struct{})
		r.Send = func(_ context.Context, calls []*item) error {
			if !calls[0].Claim() {
				t.Error("the caller waits, and Claim is false")
			}
			close(claimed)
			<-r.open
			calls[0].result = "late"
			return nil
		}

		ctx, leave := context.WithCancel(t.Context())
		i := newItem("a")
		end := r.call(ctx, i)
		<-claimed
		leave()
		synctest.Wait()
		close(r.open)
		wantNil(t, end)
		if i.result != "late" {
			t.Error("the caller left though its call was claimed")
		}
	})
}

func TestABatchErrorGoesToEachCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		first := r.call(t.Context(), newItem("a"))
		b, c := r.call(t.Context(), newItem("b")), r.call(t.Context(), newItem("c"))
		failed := errors.New("failed")
		r.open <- nil
		r.open <- failed
		wantNil(t, first)
		if err := <-b; err != failed {
			t.Error(err)
		}
		if err := <-c; err != failed {
			t.Error(err)
		}

		r.Send = func(_ context.Context, calls []*item) error {
			calls[0].Err = failed
			return nil
		}
		if err := r.Do(t.Context(), newItem("d")); err != failed {
			t.Errorf("a call with an error of its own returns %v", err)
		}
	})
}

func TestPanicFailsItsBatchOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 2)
		send, panics := r.Send, 0
		r.Send = func(ctx context.Context, calls []*item) error {
			if strings.HasPrefix(calls[0].name, "bad") {
				calls[0].Claim() // marks the call as sent, so its caller waits for the answer
				panic("planted")
			}
			return send(ctx, calls)
		}
		r.Panicked = func(value any, stack []byte) {
			if panics++; value != "planted" || !bytes.Contains(stack, []byte("TestPanicFailsItsBatchOnly")) {
				t.Errorf("Panicked got %v and the stack %s", value, stack)
			}
		}
		close(r.open)

		release := r.Hold()
		bad, neighbour := r.call(t.Context(), newItem("bad")), r.call(t.Context(), newItem("neighbour"))
		release()
		for _, end := range []<-chan error{bad, neighbour} {
			if err := <-end; duly.CodeOf(err) != duly.CodeInternal {
				t.Errorf("a call of a batch that panicked returned %v", err)
			}
		}
		if err := r.DoAlone(t.Context(), newItem("bad alone")); duly.CodeOf(err) != duly.CodeInternal {
			t.Errorf("a call that panicked alone returned %v", err)
		}
		wantNil(t, r.call(t.Context(), newItem("next")), r.call(t.Context(), newItem("another")))
		synctest.Wait()
		if panics != 2 || r.senders != 0 || r.inFlight != 0 {
			t.Errorf("%d panics were reported, want 2; %d senders and %d batches are left", panics, r.senders, r.inFlight)
		}
	})
}

func TestClosedBatcherRefusesCalls(t *testing.T) {
	r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
	r.closed = true
	if err := r.Do(t.Context(), newItem("a")); err != duly.ErrClosed {
		t.Error(err)
	}
	if err := r.DoAlone(t.Context(), newItem("a")); err != duly.ErrClosed {
		t.Error(err)
	}
	if r.Waiting() != 0 {
		t.Error("a refused call waits")
	}
}

func TestDoAloneDoesNotWaitForOtherBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 10, Bytes: 100}, 1)
		first, second := r.call(t.Context(), newItem("a")), r.call(t.Context(), newItem("b"))
		alone := make(chan error, 1)
		go func() { alone <- r.DoAlone(t.Context(), newItem("c")) }()
		synctest.Wait()
		if got := r.sent(); got != "[a c]" {
			t.Errorf("in flight are %s", got)
		}
		close(r.open)
		wantNil(t, first, second, alone)
	})
}

func TestHeldCallsShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 100, Bytes: 100}, 2)
		close(r.open)
		release := r.Hold()
		var ends []<-chan error
		for range 3 * minHalf {
			ends = append(ends, r.call(t.Context(), newItem("x")))
		}
		if r.Waiting() != 3*minHalf {
			t.Errorf("%d calls wait", r.Waiting())
		}
		release()
		wantNil(t, ends...)
		if len(r.batches) != 1 {
			t.Errorf("batches are %s", r.sent())
		}
	})
}

func TestHoldIsRefusedWhileASenderRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Limits{Items: 100, Bytes: 100}, 2)
		end := r.call(t.Context(), newItem("x"))
		if r.Hold() != nil {
			t.Error("a sender runs, and Hold was allowed")
		}

		close(r.open)
		wantNil(t, end)
	})
}

// Each of many callers gets its own result.
func TestBatcherAnswersEveryCallUnderLoad(t *testing.T) {
	r := newRecorder(Limits{Items: 7, Bytes: 100}, 2)
	r.Send = func(_ context.Context, calls []*item) error {
		for _, c := range calls {
			c.result = "done " + c.name
		}
		return nil
	}

	var all sync.WaitGroup
	for caller := range 16 {
		all.Go(func() {
			for n := range 500 {
				i := newItem(fmt.Sprint(caller, n))
				if err := r.Do(t.Context(), i); err != nil || i.result != "done "+i.name {
					t.Error(i.name, i.result, err)
				}
			}
		})
	}

	all.Wait()
	r.running.Wait()
	if r.senders != 0 || len(r.queue) != 0 || r.inFlight != 0 {
		t.Errorf("%d senders, %d calls and %d batches are left", r.senders, len(r.queue), r.inFlight)
	}
}
