package jobfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// numbered lists n jobs, with their numbers as IDs and priorities. Each call takes cost.
type numbered struct {
	n     int
	cost  time.Duration
	clock *clock.Fake
	fails int // the call with this number fails, 0 for none

	calls, listed int
}

func (l *numbered) List(_ context.Context, _ duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	if l.calls++; l.calls == l.fails {
		return page, duly.ErrUnavailable
	}
	l.clock.Advance(l.cost)
	at := 0
	if p.Cursor != "" {
		at, _ = strconv.Atoi(p.Cursor)
	}
	for ; at < l.n && len(page.Jobs) < p.Limit; at++ {
		j := duly.JobInfo{}
		j.ID, j.Priority = strconv.Itoa(at), at
		page.Jobs = append(page.Jobs, j)
	}
	if l.listed += len(page.Jobs); at < l.n {
		page.Next = strconv.Itoa(at)
	}
	return page, nil
}

// walk follows all pages of a search.
func walk(t *testing.T, l *numbered, limit int, match func(j *duly.JobInfo) bool) (ids []int, examined, pages int) {
	t.Helper()
	list := duly.ListParams{PageParams: duly.PageParams{Limit: limit}}
	for {
		f, err := Page(t.Context(), l, l.clock, duly.QueueRef{}, list, time.Second, match)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Jobs) > limit {
			t.Fatalf("a page has %d jobs, want at most %d", len(f.Jobs), limit)
		}
		for i := range f.Jobs {
			ids = append(ids, f.Jobs[i].Priority)
		}
		examined, pages = examined+f.Examined, pages+1
		if list.Cursor = f.Next; f.Next == "" {
			return ids, examined, pages
		}
	}
}

func TestPagesHaveEachMatchOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ n, every, limit int }{
		{0, 1, 10}, {1, 1, 1}, {10_000, 1, 100}, {10_000, 3, 100}, {10_000, 499, 7}, {10_000, 9999, 100}, {2600, 500, 2},
		{1234, 7, 1},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			l := &numbered{n: tt.n, clock: clock.NewFake()}
			ids, examined, _ := walk(t, l, tt.limit, func(j *duly.JobInfo) bool { return j.Priority%tt.every == 0 })
			var want []int
			for i := 0; i < tt.n; i += tt.every {
				want = append(want, i)
			}
			if !slices.Equal(ids, want) || examined != tt.n {
				t.Errorf("found %d of %d jobs, examined %d of %d", len(ids), len(want), examined, tt.n)
			}
			// A page costs at most one call that is repeated with a smaller limit.
			if most := 2*len(want)/tt.limit + tt.n/step + 2; l.calls > most {
				t.Errorf("%d calls, want at most %d", l.calls, most)
			}
		})
	}
}

func TestPageEndsAfterItsBudget(t *testing.T) {
	t.Parallel()
	l := &numbered{n: 100_000, cost: 300 * time.Millisecond, clock: clock.NewFake()}
	_, examined, pages := walk(t, l, 100, func(*duly.JobInfo) bool { return false })
	if examined != l.n || pages != l.n/step/4 {
		t.Errorf("examined %d jobs on %d pages, want %d on %d", examined, pages, l.n, l.n/step/4)
	}
}

func TestPageReturnsTheError(t *testing.T) {
	t.Parallel()
	l := &numbered{n: 2000, clock: clock.NewFake(), fails: 3}
	list := duly.ListParams{PageParams: duly.PageParams{Limit: 100}}
	f, err := Page(t.Context(), l, l.clock, duly.QueueRef{}, list, time.Second, func(j *duly.JobInfo) bool {
		return j.Priority == 7
	})
	if !errors.Is(err, duly.ErrUnavailable) || len(f.Jobs) != 1 || f.Examined != 2*step || f.Next != "1000" {
		t.Errorf("%d jobs, examined %d, next %q, %v", len(f.Jobs), f.Examined, f.Next, err)
	}
}

// A job that matches between the two calls of a page must not make the page too long.
func TestListThatChangesBetweenCalls(t *testing.T) {
	t.Parallel()
	l := &numbered{n: 3000, clock: clock.NewFake()}
	seen := 0
	ids, _, _ := walk(t, l, 10, func(j *duly.JobInfo) bool {
		seen++
		return j.Priority%25 == 0 || seen > 700 && j.Priority%5 == 0
	})
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) < 3000/25 {
		t.Errorf("found %d jobs, want each one once: %v", len(ids), ids)
	}
}
