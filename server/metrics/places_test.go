package metrics

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// crowd is a namespace with many queues, whose names come before all others.
const crowd = "aaa"

// R5: a namespace with many queues takes the series of no other one, neither
// those that the engine is asked for nor those that this process counts.
func TestSeriesAreSharedAmongNamespaces(t *testing.T) {
	t.Parallel()
	const most = 20
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c})
	m := New(Config{Queues: most})
	counting := m.Engine(e)
	push := func(namespace string, n int) {
		t.Helper()
		for i := range n {
			q := fmt.Sprintf("q%03d", i)
			if _, err := counting.Push(t.Context(), []duly.Job{{Namespace: namespace, Queue: q, Body: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
			if _, err := counting.Reserve(t.Context(), duly.ReserveParams{Namespace: namespace, Queues: []string{q}, Max: 1, Lease: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(crowd, 10*most)
	push("shop", 3)
	push("zoo", most)
	push(crowd, 10*most)

	families, err := m.Gatherer(NewSurvey(SurveyConfig{Engine: e, Registry: e, Clock: c, Queues: most})).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"duly_queue_oldest_ready_seconds", "duly_jobs_pushed_total", "duly_delivery_lateness_seconds"} {
		got := map[string]int{}
		for _, f := range families {
			for _, series := range f.GetMetric() {
				for _, label := range series.GetLabel() {
					if f.GetName() == metric && label.GetName() == "namespace" && label.GetValue() != otherName {
						got[label.GetValue()]++
					}
				}
			}
		}
		if got["shop"] != 3 || got["zoo"] < 8 || got[crowd] < 8 || got["shop"]+got["zoo"]+got[crowd] != most {
			t.Errorf("%s: series by namespace %v", metric, got)
		}
	}
}

// What a queue has counted stays in the sum when it loses its place.
func TestTheSumStaysWhenAQueueMakesRoom(t *testing.T) {
	t.Parallel()
	m := New(Config{Queues: 4})
	engine := m.Engine(model.New(model.Config{Clock: clock.NewFake()}))
	const each = 7
	for i := range 10 {
		namespace := crowd
		if i > 6 {
			namespace = fmt.Sprint("n", i)
		}
		for range each {
			if _, err := engine.Push(context.Background(), []duly.Job{{Namespace: namespace, Queue: fmt.Sprint("q", i)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	total := m.tallies.other.pushed[duly.Created].Load()
	for _, c := range m.tallies.places.Known() {
		total += c.pushed[duly.Created].Load()
	}
	if n := len(m.tallies.places.Known()); total != 10*each || n != 4 {
		t.Errorf("%d pushes are counted of %d, in %d places", total, 10*each, n)
	}
}

func TestPlacesAreDividedFairly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		places       int
		wanted, want []int
	}{
		{10, nil, []int{}}, {10, []int{3}, []int{3}}, {10, []int{30}, []int{10}}, {0, []int{3}, []int{0}},
		{10, []int{30, 2}, []int{8, 2}}, {10, []int{2, 30, 30}, []int{2, 4, 4}}, {11, []int{30, 1, 30, 0}, []int{5, 1, 5, 0}},
		{2, []int{5, 5, 5}, []int{1, 1, 0}},
	} {
		if got := share(tt.places, tt.wanted); !slices.Equal(got, tt.want) {
			t.Errorf("%d among %v: %v, want %v", tt.places, tt.wanted, got, tt.want)
		}
	}
}

// A namespace without a histogram takes one from the namespace with the most, until
// both have their share.
func TestHistogramsAreSharedAmongNamespaces(t *testing.T) {
	t.Parallel()
	tallies := newTallies(100)
	tallies.mostLate = 2
	for _, tt := range []struct {
		queue, namespace string
		want             bool
	}{
		{"1", crowd, true}, {"2", crowd, true}, {"3", crowd, false}, {"1", "shop", true}, {"2", "shop", false}, {"4", crowd, false},
	} {
		q := duly.QueueRef{Namespace: tt.namespace, Name: tt.queue}
		if got := tallies.of(q).late.Load() != nil; got != tt.want {
			t.Errorf("%s has a histogram: %t, want %t", q, got, tt.want)
		}
	}
}

// A request that waits counts while it waits.
func TestWaitingRequestsAreCounted(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c})
	defer e.Close()
	m := New(Config{})
	counting := m.Engine(&duringWait{Contract: e, do: func() {
		if n := m.waiting.Load(); n != 1 {
			t.Errorf("%d requests wait during a Wait, want 1", n)
		}
	}})
	if _, err := counting.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}}); err != nil {
		t.Error(err)
	}
	if n := m.waiting.Load(); n != 0 {
		t.Errorf("%d requests wait after it, want 0", n)
	}
}

type duringWait struct {
	duly.Contract
	do func()
}

func (d *duringWait) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	d.do()
	return d.Contract.Wait(ctx, p)
}
