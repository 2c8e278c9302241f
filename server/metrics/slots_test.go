package metrics

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/observe"
)

// largeNamespace is a namespace with many queues. Its name comes first.
const largeNamespace = "aaa"

// Fault R5: a namespace with many queues takes no series from other namespaces, neither in a survey nor
// in the counts of this process.
func TestNamespacesShareSeries(t *testing.T) {
	t.Parallel()
	const most = 20
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c})
	m := New(Config{Queues: most})
	counting := observe.New(e, m.Observer())
	push := func(namespace string, n int) {
		t.Helper()
		for i := range n {
			q := fmt.Sprintf("q%03d", i)
			_, err := counting.Push(t.Context(), []duly.Job{{Namespace: namespace, Queue: q, Body: []byte("x")}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = counting.Reserve(t.Context(), duly.ReserveParams{
				Namespace: namespace, Queues: []string{q}, Max: 1, Lease: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	push(largeNamespace, 10*most)
	push("shop", 3)
	push("zoo", most)
	push(largeNamespace, 10*most)

	gatherer := m.Gatherer(NewSurvey(SurveyConfig{Engine: e, Registry: e, Clock: c, Queues: most}))
	for _, metric := range []string{
		"duly_queue_oldest_ready_seconds", "duly_jobs_pushed_total", "duly_delivery_lateness_seconds",
	} {
		got := seriesByNamespace(t, gatherer, metric)
		shop, zoo, large := got["shop"], got["zoo"], got[largeNamespace]
		if shop != 3 || zoo < 8 || large < 8 || shop+zoo+large != most {
			t.Errorf("%s: series by namespace %v", metric, got)
		}
	}
}

// seriesByNamespace counts the series of a metric by namespace, except _other.
func seriesByNamespace(t *testing.T, g prometheus.Gatherer, metric string) map[string]int {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}

	n := map[string]int{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "namespace" && label.GetValue() != otherName {
					n[label.GetValue()]++
				}
			}
		}
	}
	return n
}

// The total does not change when a queue loses its slot.
func TestEvictionKeepsTotal(t *testing.T) {
	t.Parallel()
	m := New(Config{Queues: 4})
	engine := observe.New(model.New(model.Config{Clock: clock.NewFake()}), m.Observer())
	const each = 7
	for i := range 10 {
		namespace := largeNamespace
		if i > 6 {
			namespace = fmt.Sprint("n", i)
		}
		for range each {
			jobs := []duly.Job{{Namespace: namespace, Queue: fmt.Sprint("q", i)}}
			if _, err := engine.Push(context.Background(), jobs); err != nil {
				t.Fatal(err)
			}
		}
	}

	total := m.queues.other.pushed[duly.Created].Load()
	for _, c := range m.queues.slots.All() {
		total += c.pushed[duly.Created].Load()
	}
	if n := len(m.queues.slots.All()); total != 10*each || n != 4 {
		t.Errorf("%d of %d pushes are counted, in %d slots", total, 10*each, n)
	}
}

func TestDivideIsFair(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		slots        int
		wanted, want []int
	}{
		{10, nil, []int{}}, {10, []int{3}, []int{3}}, {10, []int{30}, []int{10}}, {0, []int{3}, []int{0}},
		{10, []int{30, 2}, []int{8, 2}}, {10, []int{2, 30, 30}, []int{2, 4, 4}},
		{11, []int{30, 1, 30, 0}, []int{5, 1, 5, 0}}, {2, []int{5, 5, 5}, []int{1, 1, 0}},
	} {
		if got := divide(tt.slots, tt.wanted); !slices.Equal(got, tt.want) {
			t.Errorf("%d among %v: %v, want %v", tt.slots, tt.wanted, got, tt.want)
		}
	}
}

// A namespace without a histogram gets one from the namespace with the most histograms, until both
// have a fair share.
func TestNamespacesShareHistograms(t *testing.T) {
	t.Parallel()
	set := newCounterSet(100)
	set.maxHistograms = 2
	for _, tt := range []struct {
		queue, namespace string
		want             bool
	}{
		{"1", largeNamespace, true}, {"2", largeNamespace, true}, {"3", largeNamespace, false},
		{"1", "shop", true}, {"2", "shop", false}, {"4", largeNamespace, false},
	} {
		q := duly.QueueRef{Namespace: tt.namespace, Name: tt.queue}
		if got := set.get(q).late.Load() != nil; got != tt.want {
			t.Errorf("%s has a histogram: %t, want %t", q, got, tt.want)
		}
	}
}

// A request is counted while it waits.
func TestWaitingRequestsAreCounted(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c})
	defer e.Close()
	m := New(Config{})
	counting := observe.New(&duringWait{Engine: e, do: func() {
		if n := m.waiting.Load(); n != 1 {
			t.Errorf("%d requests wait during a Wait, want 1", n)
		}
	}}, m.Observer())
	if _, err := counting.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}}); err != nil {
		t.Error(err)
	}
	if n := m.waiting.Load(); n != 0 {
		t.Errorf("%d requests wait after it, want 0", n)
	}
}

type duringWait struct {
	contract.Engine
	do func()
}

func (d *duringWait) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	d.do()
	return d.Engine.Wait(ctx, p)
}
