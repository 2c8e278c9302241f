package batch

import (
	"context"
	"slices"
	"testing"
	"time"
)

func newQueue(values ...int) *Queue[int] {
	q := &Queue[int]{Size: func(v int) (items, bytes int) { return 1, v }}
	q.Put(values...)
	return q
}

func TestTakeReturnsTheValuesThatFit(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		want   []int
	}{
		"all":         {Limits{10, 100}, []int{5, 6, 7}},
		"items":       {Limits{2, 100}, []int{5, 6}},
		"bytes":       {Limits{10, 11}, []int{5, 6}},
		"never none":  {Limits{1, 1}, []int{5}},
		"zero limits": {Limits{}, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(5, 6, 7)
			got := q.Take(nil, c.limits)
			rest := q.Take(got[len(got):], Limits{10, 100})
			if !slices.Equal(got, c.want) || !slices.Equal(append(got[:len(got):len(got)], rest...), []int{5, 6, 7}) {
				t.Errorf("took %v and then %v", got, rest)
			}
			if q.Len() != 0 || len(q.Take(nil, c.limits)) != 0 {
				t.Error("the queue is not empty")
			}
		})
	}
}

func TestQueuePutsBackInFront(t *testing.T) {
	q := newQueue(1, 2, 3)
	first := q.Take(nil, Limits{2, 100})
	q.Close()
	q.PutFirst(first...)
	if got := q.Take(nil, Limits{10, 100}); !slices.Equal(got, []int{1, 2, 3}) {
		t.Error(got)
	}
}

func TestClosedQueueRefusesAndIsEmptied(t *testing.T) {
	q := newQueue(1)
	if q.Closed() {
		t.Error("closed from the beginning")
	}
	q.Close()
	if q.Put(2) || !q.Closed() {
		t.Error("a closed queue takes more")
	}
	if got := q.Take(nil, Limits{10, 100}); !slices.Equal(got, []int{1}) {
		t.Error(got)
	}
}

func TestGatherEndsWhenNothingMoreComes(t *testing.T) {
	for name, c := range map[string]struct {
		want   int
		counts []int
		got    int
	}{
		"enough":        {3, []int{3}, 3},
		"grows":         {9, []int{1, 4, 6, 6}, 6},
		"grows to want": {6, []int{1, 4, 6}, 6},
		"shrinks":       {9, []int{4, 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got := Gather(c.want, func() int {
				asked++
				return c.counts[asked-1]
			})
			if got != c.got || asked != len(c.counts) {
				t.Errorf("got %d after %d questions", got, asked)
			}
		})
	}
}

func TestGatherYieldsALimitedNumberOfTimes(t *testing.T) {
	n := 0
	Gather(1<<30, func() int { n++; return n })
	if n != maxYields+1 {
		t.Errorf("it asked %d times", n)
	}
}

func TestDeadlineIsTheLatestOfTheCalls(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	call := func(d time.Duration) *item {
		ctx := context.Background()
		if d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, begin.Add(d))
			defer cancel()
		}
		i := newItem("x")
		i.Begin(ctx)
		return i
	}
	if last, ok := Deadline([]*item{call(time.Second), call(time.Minute), call(time.Hour), call(time.Second)}); !ok ||
		last != begin.Add(time.Hour) {
		t.Error(last, ok)
	}
	if _, ok := Deadline([]*item{call(time.Second), call(0)}); ok {
		t.Error("one of the callers has no deadline")
	}
}
