package duly_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// pushes is an engine that records the pushed jobs, and loses its first answers.
type pushes struct {
	contract.Engine
	calls   [][]duly.Job
	lost    int   // number of calls at the beginning that end as unavailable
	failure error // error of every later call
}

func (p *pushes) Push(_ context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	p.calls = append(p.calls, slices.Clone(jobs))
	if len(p.calls) <= p.lost {
		return nil, contract.Errorf(duly.CodeUnavailable, "the answer was lost")
	}
	results := make([]duly.PushResult, len(jobs))
	for i, j := range jobs {
		results[i] = duly.PushResult{ID: j.ID, Status: duly.Created}
	}
	return results, p.failure
}

// inBubble runs a test in a synctest bubble, so that its pauses take no real time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

// C2.1, C11.9: the client makes a ULID before its first try and sets Made.
func TestClientMakesIDs(t *testing.T) {
	t.Parallel()
	e := &pushes{}
	c := duly.NewClient(e, duly.ClientConfig{})
	var last string
	for range 50 {
		r, err := c.Push(t.Context(), "q", []byte("b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := duly.ParseNumber(r.ID); !ok || r.ID <= last {
			t.Fatalf("the ID %q came after %q", r.ID, last)
		}
		last = r.ID
	}
	for _, call := range e.calls {
		if !call[0].Made || call[0].Namespace != duly.DefaultNamespace {
			t.Fatalf("pushed was %+v", call[0])
		}
	}
	if _, err := c.Push(t.Context(), "q", nil, duly.ID("order-17")); err != nil {
		t.Fatal(err)
	}
	if own := e.calls[len(e.calls)-1][0]; own.Made || own.ID != "order-17" {
		t.Errorf("an own ID was pushed as %+v", own)
	}
}

// C2.2, C11.10: a repeat has the same ID and does not set Made.
func TestClientRepeatsUnderTheSameID(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &pushes{lost: 3}
		c := duly.NewClient(e, duly.ClientConfig{})
		start := clock.Monotonic()
		results, err := c.PushMany(t.Context(), []duly.Job{{Queue: "q"}, {Queue: "q", ID: "own"}})
		if err != nil || len(results) != 2 {
			t.Fatal(results, err)
		}
		if len(e.calls) != 4 {
			t.Fatalf("there were %d calls", len(e.calls))
		}
		for i, call := range e.calls {
			if call[0].ID != results[0].ID || call[1].ID != "own" || call[0].Made != (i == 0) || call[1].Made {
				t.Errorf("call %d pushed %+v", i, call)
			}
		}
		if took := clock.Monotonic() - start; took != 700*time.Millisecond {
			t.Errorf("the pauses took %s, want 100 + 200 + 400 ms", took)
		}
	})
}

// C11.9: a caller pushes jobs again after unavailable or after a lost answer. That push is a
// repeat too and does not set Made.
func TestPushingTheSameJobsAgainIsARepeat(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{duly.ErrUnavailable, duly.ErrNotDurable, context.Canceled, nil} {
		e := &pushes{failure: failure}
		c := duly.NewClient(e, duly.ClientConfig{Repeats: duly.None})
		jobs := []duly.Job{{Queue: "q"}, {Queue: "q"}}
		for range 2 {
			if _, err := c.PushMany(t.Context(), jobs); !errors.Is(err, failure) {
				t.Fatal(err)
			}
		}
		for i := range jobs {
			first, second := e.calls[0][i], e.calls[1][i]
			if first.ID != second.ID || !first.Made || second.Made {
				t.Errorf("%v: pushed was %+v, then %+v", failure, first, second)
			}
		}
	}
}

// parts is an engine with two parts. The part for the second job is unavailable at first.
type parts struct {
	pushes
	answers []error // answers for the second job, one after the other
	broken  error   // error of every later call
}

func (p *parts) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, _ := p.pushes.Push(ctx, jobs)
	if n := len(p.calls); n <= len(p.answers) {
		results[min(1, len(jobs)-1)].Err = p.answers[n-1]
	} else if p.broken != nil {
		return nil, p.broken
	}
	return results, nil
}

// C13.12: the client repeats only the jobs of a batch that failed. The other jobs keep their
// results.
func TestClientRepeatsTheJobsThatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			answers []error
			broken  error
			calls   int
			want    error
		}{
			{[]error{duly.ErrUnavailable, duly.ErrNotDurable, nil}, nil, 3, nil},
			{[]error{duly.ErrUnavailable, duly.ErrFull}, nil, 2, duly.ErrFull},
			{[]error{duly.ErrFull}, nil, 1, duly.ErrFull},
			{[]error{duly.ErrUnavailable}, duly.ErrUnavailable, 4, duly.ErrUnavailable},
		} {
			e := &parts{answers: c.answers, broken: c.broken}
			results, err := duly.NewClient(e, duly.ClientConfig{}).PushMany(t.Context(), []duly.Job{{Queue: "a"}, {Queue: "b"}, {Queue: "c"}})
			if err != nil || len(e.calls) != c.calls {
				t.Fatalf("%v: %d calls, %v", c.answers, len(e.calls), err)
			}
			for i, want := range []error{nil, c.want, nil} {
				if !errors.Is(results[i].Err, want) || results[i].ID != e.calls[0][i].ID {
					t.Errorf("%v: job %d is answered %+v", c.answers, i, results[i])
				}
			}
			for _, again := range e.calls[1:] {
				if len(again) != 1 || again[0].ID != e.calls[0][1].ID || again[0].Made {
					t.Errorf("%v: pushed again was %+v", c.answers, again)
				}
			}
		}
	})
}

func TestClientGivesUpAfterItsRepeats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, c := range []struct{ repeats, calls int }{{0, 4}, {1, 2}, {duly.None, 1}} {
			e := &pushes{lost: 100}
			_, err := duly.NewClient(e, duly.ClientConfig{Repeats: c.repeats, Pause: time.Second}).Push(t.Context(), "q", nil)
			if !errors.Is(err, duly.ErrUnavailable) || len(e.calls) != c.calls {
				t.Errorf("%d repeats: %d calls, %v", c.repeats, len(e.calls), err)
			}
		}
	})
}

func TestClientRepeatsOnlyAfterUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, failure := range []error{duly.ErrFull, duly.ErrInvalid, duly.ErrClosed, duly.ErrTooLarge, context.Canceled} {
			e := &pushes{failure: failure}
			if _, err := duly.NewClient(e, duly.ClientConfig{}).Push(t.Context(), "q", nil); !errors.Is(err, failure) || len(e.calls) != 1 {
				t.Errorf("%v: %d calls, %v", failure, len(e.calls), err)
			}
		}
	})
}

func TestClientStopsRepeatingWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		e := &pushes{lost: 100}
		_, err := duly.NewClient(e, duly.ClientConfig{Repeats: 50}).Push(ctx, "q", nil)
		if !errors.Is(err, duly.ErrUnavailable) || len(e.calls) != 2 {
			t.Errorf("%d calls, %v; want the error of the push", len(e.calls), err)
		}
	})
}

func TestClientPushesJSON(t *testing.T) {
	t.Parallel()
	e := &pushes{}
	c := duly.NewClient(e, duly.ClientConfig{Namespace: "shop"})
	if _, err := c.PushJSON(t.Context(), "q", map[string]any{"order": 17}); err != nil {
		t.Fatal(err)
	}
	j := e.calls[0][0]
	if string(j.Body) != `{"order":17}` || j.Namespace != "shop" {
		t.Errorf("pushed was %+v", j)
	}
	for _, v := range []any{func() {}, make(chan int), json.RawMessage("{")} {
		if _, err := c.PushJSON(t.Context(), "q", v); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%T is answered %v", v, err)
		}
	}
	if len(e.calls) != 1 {
		t.Error("what is no JSON was pushed")
	}
	if got := c.Queue("q"); got != (duly.QueueRef{Namespace: "shop", Name: "q"}) {
		t.Errorf("its queue is %s", got)
	}
}

func TestOptionsSetTheFieldsOfTheirNames(t *testing.T) {
	t.Parallel()
	e := &pushes{}
	due := clock.Epoch
	_, err := duly.NewClient(e, duly.ClientConfig{}).Push(t.Context(), "q", nil,
		duly.ID("x"), duly.Delay(1), duly.Due(due), duly.Priority(2), duly.Tries(3), duly.MaxStalls(4), duly.Retry("fixed:5s"), duly.TTL(6),
		duly.Lease(7), duly.OrderKey("k"), duly.Header("a", "b"), duly.Header("c", "d"), duly.Retain(8), duly.Once("m"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := fmt.Sprintf("%+v", e.calls[0][0]), fmt.Sprintf("%+v", duly.Job{
		ID: "x", Namespace: "default", Queue: "q", Delay: 1, Due: due, Priority: 2, Tries: 3, MaxStalls: 4, Backoff: "fixed:5s", TTL: 6,
		Lease: 7, OrderKey: "k", Headers: map[string]string{"a": "b", "c": "d"}, Retain: 8,
		Merge: duly.Merge{Key: "m", Mode: duly.MergeKeep, Until: duly.UntilDone},
	})
	if got != want {
		t.Errorf("pushed was\n%s, want\n%s", got, want)
	}
	for _, c := range []struct {
		opt  duly.Option
		want duly.Merge
	}{
		{duly.Keep("k"), duly.Merge{Key: "k", Mode: duly.MergeKeep}},
		{duly.Keep(""), duly.Merge{Mode: duly.MergeKeep}},
		{duly.Replace("k", time.Minute), duly.Merge{Key: "k", Mode: duly.MergeReplace, MaxWait: time.Minute}},
	} {
		var j duly.Job
		c.opt(&j)
		if j.Merge != c.want {
			t.Errorf("got %+v, want %+v", j.Merge, c.want)
		}
	}
}

// The error of the only job is the error of Push.
func TestPushReturnsTheErrorOfItsJob(t *testing.T) {
	t.Parallel()
	e := refuses{}
	if _, err := duly.NewClient(e, duly.ClientConfig{}).Push(t.Context(), "q", nil); !errors.Is(err, duly.ErrFull) {
		t.Errorf("it is answered %v", err)
	}
}

type refuses struct{ contract.Engine }

func (refuses) Push(context.Context, []duly.Job) ([]duly.PushResult, error) {
	return []duly.PushResult{{Err: duly.ErrFull}}, nil
}
