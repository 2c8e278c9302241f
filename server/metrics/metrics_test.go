package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// The table of docs/metrics.md is generated from the definitions.
func TestPageListsEveryMetric(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/metrics.md", "<!-- metrics -->\n", "<!-- /metrics -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(page), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}

	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range Definitions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
	}

	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is out of date; run go test ./server/metrics -update", path)
	}
}

// fake is an engine with the queues of a test.
type fake struct {
	contract.Engine
	contract.Registry
	queues []string
	stats  func(ctx context.Context, q duly.QueueRef) (duly.Stats, error)
	asked  atomic.Int64
	paused map[string]bool
	rates  map[string]float64
}

func (f *fake) Namespaces(context.Context, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{Names: []string{"ns"}}, nil
}

func (f *fake) Queues(_ context.Context, _ string, p duly.PageParams) (duly.NamePage, error) {
	if p.Cursor == "" {
		return duly.NamePage{Next: "more"}, nil // a page may be empty although more pages follow
	}
	return duly.NamePage{Names: f.queues}, nil
}

func (f *fake) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	f.asked.Add(1)
	return f.stats(ctx, q)
}

func (f *fake) Config(_ context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	cfg := contract.DefaultQueueConfig()
	cfg.Paused = f.paused[q.Name]
	if rate, ok := f.rates[q.Name]; ok {
		cfg.Rate.PerSecond = rate
	}
	return cfg, nil
}

func survey(f *fake, c duly.Clock, most int) *Survey {
	return NewSurvey(SurveyConfig{Engine: f, Registry: f, Clock: c, Queues: most})
}

// A survey reads the engine at most once a second, and for about a tenth of the time.
func TestSnapshotIsReused(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	took := time.Duration(0)
	f := &fake{queues: []string{"a"}, stats: func(context.Context, duly.QueueRef) (duly.Stats, error) {
		c.Advance(took)
		return duly.Stats{OldestReady: 1}, nil
	}}
	s := survey(f, c, 0)
	reads := func(want int64) {
		t.Helper()
		for range 3 {
			want := duly.QueueRef{Namespace: "ns", Name: "a"}
			snapshot := s.Snapshot(t.Context())
			if !snapshot.Complete || len(snapshot.Queues) != 1 || snapshot.Queues[0].Queue != want {
				t.Errorf("the snapshot is %+v", snapshot)
			}
		}
		if n := f.asked.Load(); n != want {
			t.Errorf("%d reads, want %d", n, want)
		}
	}

	reads(1)
	c.Advance(minAge - 1)
	reads(1)
	took = 300 * time.Millisecond
	c.Advance(1)
	reads(2)
	c.Advance(ageFactor*took - 1)
	reads(2)
	c.Advance(1)
	reads(3)
}

// An incomplete snapshot is marked, and has no sum of the other queues.
func TestIncompleteSnapshotIsMarked(t *testing.T) {
	t.Parallel()
	for name, stats := range map[string]func(ctx context.Context, q duly.QueueRef) (duly.Stats, error){
		"an error": func(_ context.Context, q duly.QueueRef) (duly.Stats, error) {
			if q.Name == "c" {
				return duly.Stats{}, errors.New("broken")
			}
			return duly.Stats{Sizes: duly.Sizes{Ready: 1}}, nil
		},
		"no time": func(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
			if q.Name == "c" {
				<-ctx.Done()
				return duly.Stats{}, ctx.Err()
			}
			return duly.Stats{Sizes: duly.Sizes{Ready: 1}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // in a bubble, the timeout needs no real time
				s := survey(&fake{queues: []string{"a", "b", "c"}, stats: stats}, clock.NewFake(), 2)
				text := gathered(t, s)
				if !strings.Contains(text, "duly_scrape_complete 0") || strings.Contains(text, otherName) ||
					!strings.Contains(text, `duly_queue_jobs{ns,a,ready} 1`) {
					t.Error(text)
				}

				s = survey(&fake{queues: []string{"c", "b", "a"}, stats: stats}, clock.NewFake(), 2)
				text = gathered(t, s)
				if strings.Contains(text, "{ns,c") || !strings.Contains(text, `duly_queue_jobs{ns,b,ready} 1`) {
					t.Error(text)
				}
			})
		})
	}
}

// lister is a list of namespaces.
type lister = func(context.Context, duly.PageParams) (duly.NamePage, error)

// namespacesOf returns the namespaces of the queues in a snapshot.
func namespacesOf(s *Snapshot) string {
	var names []string
	for _, q := range s.Queues {
		names = append(names, q.Queue.Namespace)
	}
	return strings.Join(names, " ")
}

func noStats(context.Context, duly.QueueRef) (duly.Stats, error) { return duly.Stats{}, nil }

// A list that fails does not affect the other lists. A namespace in two lists is read once.
func TestFailingListDoesNotAffectOtherLists(t *testing.T) {
	t.Parallel()
	f := &fake{queues: []string{"a"}, stats: noStats}
	list := func(err error, names ...string) lister {
		return func(context.Context, duly.PageParams) (duly.NamePage, error) { return duly.NamePage{Names: names}, err }
	}
	s := NewSurvey(SurveyConfig{Engine: f, Clock: clock.NewFake(), Namespaces: []lister{
		list(nil, "x", "y"), list(duly.ErrUnavailable), list(nil, "y", "z"),
	}})
	snapshot := s.Snapshot(t.Context())
	if got := namespacesOf(snapshot); got != "x y z" || snapshot.Complete {
		t.Errorf("the snapshot has %s, complete %v", got, snapshot.Complete)
	}
}

// partlyDown is an engine whose namespaces with the prefix "down" fail. One of them panics.
type partlyDown struct{ *fake }

func (p partlyDown) Queues(ctx context.Context, namespace string, params duly.PageParams) (duly.NamePage, error) {
	if namespace == "down2" {
		panic("a fault of the engine")
	}
	if strings.HasPrefix(namespace, "down") {
		return duly.NamePage{}, duly.ErrUnavailable
	}
	return p.fake.Queues(ctx, namespace, params)
}

// A namespace whose queues cannot be listed does not affect the others of its list.
func TestFailingNamespaceDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	f := partlyDown{&fake{queues: []string{"a"}, stats: noStats}}
	pages := map[string]duly.NamePage{
		"": {Names: []string{"down1", "x", "down2", "y"}, Next: "more"}, "more": {Names: []string{"z"}},
	}
	s := NewSurvey(SurveyConfig{Engine: f, Clock: clock.NewFake(), Namespaces: []lister{
		func(_ context.Context, p duly.PageParams) (duly.NamePage, error) { return pages[p.Cursor], nil },
	}})
	snapshot := s.Snapshot(t.Context())
	if got := namespacesOf(snapshot); got != "x y z" || snapshot.Complete {
		t.Errorf("the snapshot has %s, complete %v", got, snapshot.Complete)
	}
}

// paged is an engine with pages of three queues.
type paged struct {
	*fake
	pages atomic.Int64
}

// Survey implements contract.Surveyor.
func (p *paged) Survey(_ context.Context, namespace string, params duly.PageParams) (page contract.SurveyPage, err error) {
	p.pages.Add(1)
	at, _ := strconv.Atoi(params.Cursor)
	for i := at; i < at+3; i++ {
		stats := duly.Stats{Sizes: duly.Sizes{Ready: int64(i)}}
		page.Queues = append(page.Queues, contract.QueueStats{Name: fmt.Sprintf("q%02d", i), Stats: stats})
	}
	if at < 9 {
		page.Next = strconv.Itoa(at + 3)
	}
	return page, nil
}

// Alerts exclude paused queues by their gauge. In the common series of all other queues, the jobs
// of a paused queue do not count as late.
func TestPausedQueuesAreNotLate(t *testing.T) {
	t.Parallel()
	ages := map[string]time.Duration{"a": 1, "b": 9, "c": 8, "d": 2}
	f := &fake{queues: []string{"a", "b", "c", "d"}, paused: map[string]bool{"b": true, "c": true}}
	f.stats = func(_ context.Context, q duly.QueueRef) (duly.Stats, error) {
		return duly.Stats{OldestReady: ages[q.Name] * time.Second}, nil
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(survey(f, clock.NewFake(), 2))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]float64{}
	for _, family := range families {
		if name := family.GetName(); name == "duly_queue_oldest_ready_seconds" || name == "duly_queue_paused" {
			for _, m := range family.GetMetric() {
				got[name+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	want := map[string]float64{
		"duly_queue_oldest_ready_seconds a": 1, "duly_queue_oldest_ready_seconds b": 9,
		"duly_queue_oldest_ready_seconds _other": 2,
		"duly_queue_paused a":                    0, "duly_queue_paused b": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the metrics are %v, want %v", got, want)
	}
}

// The queues that have schedules report how late their earliest tick is.
func TestOverdueTicksAreReported(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	stats := map[string]duly.Stats{
		"due":   {Schedules: 2, NextTick: c.Now().Add(-3 * time.Second)},
		"early": {Schedules: 1, NextTick: c.Now().Add(time.Hour)},
		"none":  {},
		"ended": {Schedules: 1},
	}
	f := &fake{queues: []string{"due", "early", "ended", "none"}}
	f.stats = func(_ context.Context, q duly.QueueRef) (duly.Stats, error) { return stats[q.Name], nil }
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(survey(f, c, 10))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]float64{}
	for _, family := range families {
		if name := family.GetName(); name == "duly_queue_schedules" || name == "duly_queue_tick_overdue_seconds" {
			for _, m := range family.GetMetric() {
				got[name+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	want := map[string]float64{
		"duly_queue_schedules due": 2, "duly_queue_schedules early": 1, "duly_queue_schedules ended": 1,
		"duly_queue_tick_overdue_seconds due": 3, "duly_queue_tick_overdue_seconds early": 0,
		"duly_queue_tick_overdue_seconds ended": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the metrics are %v, want %v", got, want)
	}
}

// C18.54, C18.56: queues with adaptive limits, and closed queues, report the state of their limits.
func TestLimitsAreReported(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	closed := duly.Closing{Until: c.Now().Add(90 * time.Second)}
	stats := map[string]duly.Stats{
		"adapts": {Factor: 0.25, Probing: 3, Closing: closed},
		"closed": {Closing: closed},
		"opened": {Counters: duly.Counters{Released: 4, Slowed: 4}},
		"plain":  {},
		"x":      {Factor: 0.5, Probing: 1},
		"y":      {Factor: 0.75, Probing: 1, Closing: closed, Counters: duly.Counters{Slowed: 2}},
	}
	f := &fake{queues: []string{"adapts", "closed", "opened", "plain", "x", "y"}}
	f.stats = func(_ context.Context, q duly.QueueRef) (duly.Stats, error) { return stats[q.Name], nil }
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(survey(f, c, 4))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]float64{}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "duly_queue_")
		if !slices.Contains([]string{"closed_seconds", "factor", "probing", "slowed_total"}, name) {
			continue
		}
		for _, m := range family.GetMetric() {
			if value := m.GetGauge().GetValue() + m.GetCounter().GetValue(); value != 0 || name != "slowed_total" {
				got[name+" "+m.GetLabel()[1].GetValue()] = value
			}
		}
	}
	want := map[string]float64{
		"closed_seconds adapts": 90, "factor adapts": 0.25, "probing adapts": 3,
		"closed_seconds closed": 90, "closed_seconds opened": 0, "slowed_total opened": 4,
		"closed_seconds _other": 90, "factor _other": 0.5, "probing _other": 2, "slowed_total _other": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the metrics are %v, want %v", got, want)
	}
}

// C4.117: a queue with a rate reports how many deliveries it allows now, also if that is 0.
func TestTokensAreReported(t *testing.T) {
	t.Parallel()
	tokens := map[string]int64{"empty": 0, "full": 7, "plain": duly.None, "z": 5}
	f := &fake{queues: []string{"empty", "full", "plain", "z"}, rates: map[string]float64{"empty": 1, "full": 2, "z": 3}}
	f.stats = func(_ context.Context, q duly.QueueRef) (duly.Stats, error) {
		return duly.Stats{Tokens: tokens[q.Name]}, nil
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(survey(f, clock.NewFake(), 3))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "duly_queue_tokens" {
				got[m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	if want := map[string]float64{"empty": 0, "full": 7}; !maps.Equal(got, want) {
		t.Errorf("the tokens are %v, want %v", got, want)
	}
}

// A survey of many queues needs few calls. Their sum does not depend on their namespaces.
func TestSurveyReadsPages(t *testing.T) {
	t.Parallel()
	p := &paged{fake: &fake{}}

	s := NewSurvey(SurveyConfig{Engine: p, Clock: clock.NewFake(), Queues: 14, Namespaces: []lister{
		func(context.Context, duly.PageParams) (duly.NamePage, error) {
			return duly.NamePage{Names: []string{"x", "y", "z"}}, nil
		},
	}})
	snapshot := s.Snapshot(t.Context())
	if pages, single := p.pages.Load(), p.asked.Load(); !snapshot.Complete || pages != 12 || single != 0 {
		t.Errorf("complete %v, %d pages, %d reads of single queues", snapshot.Complete, pages, single)
	}
	jobs := snapshot.Other.Sizes.Ready
	if len(snapshot.Queues) != 14 || snapshot.OtherQueues != 22 || jobs != 3*66-10-10-6 {
		t.Errorf("%d queues, %d others with %d jobs", len(snapshot.Queues), snapshot.OtherQueues, jobs)
	}
	for i, q := range snapshot.Queues {
		want := duly.QueueRef{Namespace: [...]string{"x", "y", "z"}[i/5], Name: fmt.Sprintf("q%02d", i%5)}
		if q.Queue != want || q.Stats.Sizes.Ready != int64(i%5) {
			t.Errorf("queue %d is %s with %d jobs", i, q.Queue, q.Stats.Sizes.Ready)
		}
	}
}

// An incomplete snapshot of a caller that left is not reused for other callers.
func TestIncompleteSnapshotIsNotReused(t *testing.T) {
	t.Parallel()
	leaving, leave := context.WithCancel(t.Context())
	stats := func(ctx context.Context, _ duly.QueueRef) (duly.Stats, error) {
		leave()
		return duly.Stats{}, ctx.Err()
	}
	s := survey(&fake{queues: []string{"a", "b"}, stats: stats}, clock.NewFake(), 0)
	if snapshot := s.Snapshot(leaving); snapshot.Complete {
		t.Errorf("the caller that left got %+v, want an incomplete snapshot", snapshot)
	}
	if snapshot := s.Snapshot(t.Context()); !snapshot.Complete || len(snapshot.Queues) != 2 {
		t.Errorf("the other caller got %+v", snapshot)
	}
}

// gathered returns the metrics of a collector, one per line.
func gathered(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}

	var b strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			b.WriteString(f.GetName())
			if len(labels) > 0 {
				b.WriteString("{" + strings.Join(labels, ",") + "}")
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			fmt.Fprintf(&b, " %v\n", value)
		}
	}
	return b.String()
}

// Queues beyond the maximum share a series. A destroyed queue frees its own.
func TestQueuesBeyondMaximumShareASeries(t *testing.T) {
	t.Parallel()
	m := New(Config{Queues: 2})
	for i, queue := range []string{"a", "b", "c", "a", "d"} {
		m.pushed([]duly.Job{{Queue: queue}}, []duly.PushResult{{Status: duly.Created}})
		m.delivered([]duly.Delivery{{Job: duly.Job{Namespace: "default", Queue: queue}}})
		if i == 3 {
			m.queues.remove(duly.Q("a"))
			m.queues.remove(duly.Q("a"))
		}
	}

	text := gathered(t, m)
	for _, want := range []string{
		"duly_jobs_pushed_total{default,created,b} 1", "duly_jobs_pushed_total{default,created,d} 1",
		"duly_jobs_pushed_total{_other,created,_other} 1",
		"duly_delivery_lateness_seconds{_other,_other} 1", "duly_delivery_lateness_seconds{default,d} 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() || strings.Contains(text, "created,a}") || strings.Contains(text, "created,c}") {
		t.Error(text)
	}
	// Those with a histogram of their own have it by namespace and by queue.
	for queue, want := range map[string]uint64{"": 2, "b": 1, "c": 0, "d": 1} {
		if got := m.Lateness("default", queue); got[0] != want || len(got) != len(LatenessBounds())+1 {
			t.Errorf("the lateness of %q is %v", queue, got)
		}
	}
	if got := m.Lateness("other", ""); got[0] != 0 {
		t.Errorf("the lateness of another namespace is %v", got)
	}
}

// Calls are counted by engine, and jobs that were not stored by their codes.
func TestFactsOfTheDashboard(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	m.Called("redis", "push", time.Second)
	m.Called("redis", "ack", time.Minute)
	m.Called("sqlite", "push", time.Second)
	calls, last := m.Calls(), len(CallBounds())
	if len(calls) != 2 || calls["redis"][last] != 1 || calls["redis"][last-1] != 1 || calls["sqlite"][last-1] != 1 {
		t.Errorf("the calls are %v", calls)
	}
	var jobs []duly.Job
	var results []duly.PushResult
	for _, code := range []duly.Code{duly.CodeFull, duly.CodeNotDurable, duly.CodeInvalid} {
		jobs, results = append(jobs, duly.Job{Queue: "q"}), append(results, duly.PushResult{Err: &duly.Error{Code: code}})
	}
	m.pushed(jobs, results)
	if n := m.NotStored(); n != 2 {
		t.Errorf("%d jobs were not stored", n)
	}
}

func TestHistogramCountsPerBucket(t *testing.T) {
	t.Parallel()
	h := newDurations([]time.Duration{time.Millisecond, time.Second})
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Second, time.Minute} {
		h.observe(d)
	}
	if a, b, c := h.counts[0].Load(), h.counts[1].Load(), h.counts[2].Load(); a != 2 || b != 2 || c != 1 {
		t.Errorf("%d %d %d", a, b, c)
	}
	if sum := h.sum.Load(); sum != 61_002_000 {
		t.Errorf("the sum is %d µs", sum)
	}
}

// The number of series does not grow with the names of calls.
func TestSeriesOfCallsAreBounded(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	for i := range 2 * maxCalls {
		m.Called("redis", fmt.Sprint(i), time.Millisecond)
	}
	if n := strings.Count(gathered(t, m), "duly_engine_call_duration_seconds{"); n != maxCalls+1 {
		t.Errorf("%d series, want %d", n, maxCalls+1)
	}
}

// calls are the arguments and results of the calls for some jobs.
type calls struct {
	jobs       []duly.Job
	results    []duly.PushResult
	deliveries []duly.Delivery
	outcomes   []duly.SettleRequest
	errs       []error
}

// newCalls returns the calls that push, reserve and settle n jobs.
func newCalls(n int) (c calls) {
	now := clock.NewFake().Now()
	for range n {
		receipt := contract.ReceiptParts{Queue: "mail", Number: duly.NewNumber(), Delivery: 1}.Receipt()
		c.jobs = append(c.jobs, duly.Job{Queue: "mail"})
		c.results = append(c.results, duly.PushResult{Status: duly.Created})
		c.deliveries = append(c.deliveries, duly.Delivery{
			Job:     duly.Job{Namespace: "default", Queue: "mail", Due: now},
			Receipt: receipt, Now: now.Add(3 * time.Millisecond),
		})
		c.outcomes = append(c.outcomes, duly.SettleRequest{Receipt: receipt, As: duly.Ack})
		c.errs = append(c.errs, nil)
	}
	return c
}

func (c *calls) count(m *Metrics) {
	m.pushed(c.jobs, c.results)
	m.delivered(c.deliveries)
	m.settled("default", c.outcomes, c.errs)
}

// Counting allocates no memory on the hot path.
func TestCountingAllocatesNothing(t *testing.T) {
	m := New(Config{})
	c := newCalls(10)
	answered := m.Route("POST", "/push")
	all := func() {
		c.count(m)
		m.Called("redis", "push", time.Millisecond)
		answered(200, time.Millisecond)
	}
	all()
	if n := testing.AllocsPerRun(100, all); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkJob counts jobs that are pushed, delivered and settled, in calls of several
// sizes.
func BenchmarkJob(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := New(Config{})
			c := newCalls(n)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.count(m)
				}
			})
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
		})
	}
}

// Ticks are counted by what became of them, with the lateness of those that fired or were skipped.
func TestTicksAreCounted(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	fire := func(queue string, err error, items []contract.FireItem, results []contract.FireResult) {
		_, _, end := m.Observer().Firing(t.Context(), duly.QueueRef{Name: queue}, 10_000, items)
		end(results, err)
	}
	job := &duly.Job{}
	fired := contract.FireResult{Status: contract.FireFired, Run: duly.PushResult{Status: duly.Created}}
	items := []contract.FireItem{
		{Tick: 9980, Job: job, Missed: 3}, {Tick: 9000, Job: job}, {Tick: 1000, Missed: 7}, {Tick: 2000, Job: job}, {Tick: 1, Job: job},
	}
	results := []contract.FireResult{
		fired, {Status: contract.FireFired, Run: duly.PushResult{Status: duly.Merged}}, {Status: contract.FireFired},
		{Status: contract.FireFired, Run: duly.PushResult{Err: duly.ErrInvalid}}, {Status: contract.FireStale},
	}
	fire("q", nil, items, results)
	fire("q", duly.ErrUnavailable, items, nil)
	text := gathered(t, m)
	for _, want := range []string{
		"duly_ticks_total{default,fired,q} 1\n", "duly_ticks_total{default,skipped,q} 1\n",
		"duly_ticks_total{default,missed,q} 11\n", "duly_tick_lateness_seconds{default,q} 2\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}

	// The queues without series of their own share one, and so do their histograms.
	m = New(Config{Queues: 1})
	for _, queue := range []string{"a", "b"} {
		fire(queue, nil, items[:1], results[:1])
	}
	text = gathered(t, m)
	for _, want := range []string{
		"duly_ticks_total{_other,fired,_other} 1\n", "duly_tick_lateness_seconds{_other,_other} 1\n",
		"duly_ticks_total{default,fired,a} 1\n", "duly_tick_lateness_seconds{default,a} 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}
