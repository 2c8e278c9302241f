package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// The page's table is made from the metrics themselves.
func TestThePageListsEveryMetric(t *testing.T) {
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
	for _, m := range Own() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s does not list the metrics; look at the difference after go test ./server/metrics -update", path)
	}
}

// fake is an engine that has what it is told to have.
type fake struct {
	duly.Contract
	duly.Registry
	queues []string
	stats  func(ctx context.Context, q duly.QueueRef) (duly.Stats, error)
	asked  atomic.Int64
	paused map[string]bool
}

func (f *fake) Namespaces(context.Context, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{Names: []string{"ns"}}, nil
}

func (f *fake) Queues(_ context.Context, _ string, p duly.PageParams) (duly.NamePage, error) {
	if p.Cursor == "" {
		return duly.NamePage{Next: "more"}, nil // a page may be empty
	}
	return duly.NamePage{Names: f.queues}, nil
}

func (f *fake) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	f.asked.Add(1)
	return f.stats(ctx, q)
}

func (f *fake) Config(_ context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	cfg := duly.DefaultQueueConfig()
	cfg.Paused = f.paused[q.Name]
	return cfg, nil
}

func survey(f *fake, c clock.Clock, most int) *Survey {
	return NewSurvey(SurveyConfig{Engine: f, Registry: f, Clock: c, Queues: most})
}

// However often it is asked, the engine is asked once a second at most, and for
// a tenth of the time.
func TestALookIsUsedAgain(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	took := time.Duration(0)
	f := &fake{queues: []string{"a"}, stats: func(context.Context, duly.QueueRef) (duly.Stats, error) {
		c.Advance(took)
		return duly.Stats{OldestReady: 1}, nil
	}}
	s := survey(f, c, 0)
	looks := func(want int64) {
		t.Helper()
		for range 3 {
			if sight := s.Look(t.Context()); !sight.Complete || len(sight.Queues) != 1 || sight.Queues[0].Queue != (duly.QueueRef{Namespace: "ns", Name: "a"}) {
				t.Errorf("sees %+v", sight)
			}
		}
		if n := f.asked.Load(); n != want {
			t.Errorf("asked %d times, want %d", n, want)
		}
	}
	looks(1)
	c.Advance(leastAge - 1)
	looks(1)
	took = 300 * time.Millisecond
	c.Advance(1)
	looks(2)
	c.Advance(lookShare*took - 1)
	looks(2)
	c.Advance(1)
	looks(3)
}

// What a look could not see is said, and in no sum.
func TestALookThatIsCutShortSaysSo(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) { // time passes by itself
				s := survey(&fake{queues: []string{"a", "b", "c"}, stats: stats}, clock.NewFake(), 2)
				text := told(t, s)
				if !strings.Contains(text, "duly_scrape_complete 0") || !strings.Contains(text, `duly_queue_jobs{ns,a,ready} 1`) || strings.Contains(text, otherName) {
					t.Error(text)
				}
				s = survey(&fake{queues: []string{"c", "b", "a"}, stats: stats}, clock.NewFake(), 2)
				if text := told(t, s); strings.Contains(text, "{ns,c") || !strings.Contains(text, `duly_queue_jobs{ns,b,ready} 1`) {
					t.Error(text)
				}
			})
		})
	}
}

// A list of namespaces that fails takes its own with it and no others; one that
// is in two lists is looked at once.
func TestALookGoesOnWithoutAPool(t *testing.T) {
	t.Parallel()
	f := &fake{queues: []string{"a"}, stats: func(context.Context, duly.QueueRef) (duly.Stats, error) { return duly.Stats{}, nil }}
	list := func(err error, names ...string) func(context.Context, duly.PageParams) (duly.NamePage, error) {
		return func(context.Context, duly.PageParams) (duly.NamePage, error) { return duly.NamePage{Names: names}, err }
	}
	s := NewSurvey(SurveyConfig{Engine: f, Clock: clock.NewFake(), Namespaces: []func(context.Context, duly.PageParams) (duly.NamePage, error){
		list(nil, "x", "y"), list(duly.ErrUnavailable), list(nil, "y", "z"),
	}})
	sight := s.Look(t.Context())
	var names []string
	for _, q := range sight.Queues {
		names = append(names, q.Queue.Namespace)
	}
	if got := strings.Join(names, " "); got != "x y z" || sight.Complete {
		t.Errorf("sees %s, complete %v", got, sight.Complete)
	}
}

// half is an engine whose namespaces beginning with "down" are not reached, and
// one of them worse.
type half struct{ *fake }

func (h half) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if namespace == "down2" {
		panic("at the disco")
	}
	if strings.HasPrefix(namespace, "down") {
		return duly.NamePage{}, duly.ErrUnavailable
	}
	return h.fake.Queues(ctx, namespace, p)
}

// A namespace whose queues are not told takes no other of its list with it.
func TestALookGoesOnWithoutANamespace(t *testing.T) {
	t.Parallel()
	f := half{&fake{queues: []string{"a"}, stats: func(context.Context, duly.QueueRef) (duly.Stats, error) { return duly.Stats{}, nil }}}
	pages := map[string]duly.NamePage{"": {Names: []string{"down1", "x", "down2", "y"}, Next: "more"}, "more": {Names: []string{"z"}}}
	s := NewSurvey(SurveyConfig{Engine: f, Clock: clock.NewFake(), Namespaces: []func(context.Context, duly.PageParams) (duly.NamePage, error){
		func(_ context.Context, p duly.PageParams) (duly.NamePage, error) { return pages[p.Cursor], nil },
	}})
	sight := s.Look(t.Context())
	var names []string
	for _, q := range sight.Queues {
		names = append(names, q.Queue.Namespace)
	}
	if got := strings.Join(names, " "); got != "x y z" || sight.Complete {
		t.Errorf("sees %s, complete %v", got, sight.Complete)
	}
}

// paged is an engine that tells of three queues at a time.
type paged struct {
	*fake
	pages atomic.Int64
}

// Survey implements duly.Surveyor.
func (p *paged) Survey(_ context.Context, namespace string, params duly.PageParams) (page duly.SurveyPage, err error) {
	p.pages.Add(1)
	at, _ := strconv.Atoi(params.Cursor)
	for i := at; i < at+3; i++ {
		page.Queues = append(page.Queues, duly.QueueStats{Name: fmt.Sprintf("q%02d", i), Stats: duly.Stats{Sizes: duly.Sizes{Ready: int64(i)}}})
	}
	if at < 9 {
		page.Next = strconv.Itoa(at + 3)
	}
	return page, nil
}

// Alerts leave paused queues out by their gauge. Where queues share a series, the
// jobs of a paused one do not count as late.
func TestPausedQueuesAreNotLate(t *testing.T) {
	t.Parallel()
	f := &fake{queues: []string{"a", "b", "c", "d"}, paused: map[string]bool{"b": true, "c": true}, stats: func(_ context.Context, q duly.QueueRef) (duly.Stats, error) {
		return duly.Stats{OldestReady: map[string]time.Duration{"a": 1, "b": 9, "c": 8, "d": 2}[q.Name] * time.Second}, nil
	}}
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
		"duly_queue_oldest_ready_seconds a": 1, "duly_queue_oldest_ready_seconds b": 9, "duly_queue_oldest_ready_seconds _other": 2,
		"duly_queue_paused a": 0, "duly_queue_paused b": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("it serves %v, want %v", got, want)
	}
}

// Many queues are told of with few questions, and their sum is the same whatever
// namespace they are in.
func TestALookAsksPageByPage(t *testing.T) {
	t.Parallel()
	p := &paged{fake: &fake{}}
	s := NewSurvey(SurveyConfig{Engine: p, Clock: clock.NewFake(), Queues: 14, Namespaces: []func(context.Context, duly.PageParams) (duly.NamePage, error){
		func(context.Context, duly.PageParams) (duly.NamePage, error) {
			return duly.NamePage{Names: []string{"x", "y", "z"}}, nil
		},
	}})
	sight := s.Look(t.Context())
	if !sight.Complete || p.pages.Load() != 12 || p.asked.Load() != 0 {
		t.Errorf("complete %v, %d pages, %d queues asked for one by one", sight.Complete, p.pages.Load(), p.asked.Load())
	}
	if len(sight.Queues) != 14 || sight.OtherQueues != 22 || sight.Other.Sizes.Ready != 3*66-10-10-6 {
		t.Errorf("%d queues, %d others with %d jobs", len(sight.Queues), sight.OtherQueues, sight.Other.Sizes.Ready)
	}
	for i, q := range sight.Queues {
		if want := (duly.QueueRef{Namespace: [...]string{"x", "y", "z"}[i/5], Name: fmt.Sprintf("q%02d", i%5)}); q.Queue != want || q.Stats.Sizes.Ready != int64(i%5) {
			t.Errorf("queue %d is %s with %d jobs", i, q.Queue, q.Stats.Sizes.Ready)
		}
	}
}

// What somebody sees who leaves is not remembered for others.
func TestALookOfWhoLeavesIsNotRemembered(t *testing.T) {
	t.Parallel()
	leaving, leave := context.WithCancel(t.Context())
	s := survey(&fake{queues: []string{"a", "b"}, stats: func(ctx context.Context, _ duly.QueueRef) (duly.Stats, error) {
		leave()
		return duly.Stats{}, ctx.Err()
	}}, clock.NewFake(), 0)
	if sight := s.Look(leaving); sight.Complete {
		t.Errorf("who leaves sees all: %+v", sight)
	}
	if sight := s.Look(t.Context()); !sight.Complete || len(sight.Queues) != 2 {
		t.Errorf("who stays sees %+v", sight)
	}
}

// told is what a collector tells, a line each.
func told(t *testing.T, c prometheus.Collector) string {
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
			fmt.Fprintf(&b, " %v\n", m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
		}
	}
	return b.String()
}

// The first queues have series of their own, the others share one; a queue that
// is destroyed makes room.
func TestQueuesBeyondTheBoundAreCountedTogether(t *testing.T) {
	t.Parallel()
	m := New(Config{Queues: 2})
	for i, queue := range []string{"a", "b", "c", "a", "d"} {
		m.pushed([]duly.Job{{Queue: queue}}, []duly.PushResult{{Outcome: duly.Created}})
		m.delivered([]duly.Delivery{{Job: duly.Job{Namespace: "default", Queue: queue}}})
		if i == 3 {
			m.tallies.forget(duly.Q("a"))
			m.tallies.forget(duly.Q("a"))
		}
	}
	text := told(t, m)
	for _, want := range []string{
		"duly_jobs_pushed_total{default,created,b} 1", "duly_jobs_pushed_total{default,created,d} 1", "duly_jobs_pushed_total{_other,created,_other} 1",
		"duly_delivery_lateness_seconds{_other,_other} 1", "duly_delivery_lateness_seconds{default,d} 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() || strings.Contains(text, "created,a}") || strings.Contains(text, "created,c}") {
		t.Error(text)
	}
}

func TestAHistogramAddsUp(t *testing.T) {
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

// Whatever kinds of calls there are, the series are bounded.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	for i := range 2 * mostCalls {
		m.Called("redis", fmt.Sprint(i), time.Millisecond)
	}
	if n := strings.Count(told(t, m), "duly_engine_call_duration_seconds{"); n != mostCalls+1 {
		t.Errorf("%d kinds", n)
	}
}

// batch is a push of n jobs, its answer, its deliveries and their settlement.
func batch(n int) (jobs []duly.Job, results []duly.PushResult, deliveries []duly.Delivery, outcomes []duly.Outcome, errs []error) {
	now := clock.NewFake().Now()
	for range n {
		id := duly.NewNumber()
		jobs = append(jobs, duly.Job{Queue: "mail"})
		results = append(results, duly.PushResult{Outcome: duly.Created})
		receipt := duly.ReceiptParts{Queue: "mail", Number: id, Delivery: 1}.Receipt()
		deliveries = append(deliveries, duly.Delivery{Job: duly.Job{Namespace: "default", Queue: "mail", Due: now}, Receipt: receipt, Now: now.Add(3 * time.Millisecond)})
		outcomes = append(outcomes, duly.Outcome{Receipt: receipt, As: duly.Ack})
		errs = append(errs, nil)
	}
	return
}

// Counting costs the hot path no memory.
func TestCountingAllocatesNothing(t *testing.T) {
	m := New(Config{})
	jobs, results, deliveries, outcomes, errs := batch(10)
	answered := m.Route("POST", "/push")
	all := func() {
		m.pushed(jobs, results)
		m.delivered(deliveries)
		m.settled("default", outcomes, errs)
		m.Called("redis", "push", time.Millisecond)
		answered(200, time.Millisecond)
	}
	all()
	if n := testing.AllocsPerRun(100, all); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkJob is what a job's way costs: pushed, delivered and settled, in calls
// of so many.
func BenchmarkJob(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := New(Config{})
			jobs, results, deliveries, outcomes, errs := batch(n)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					m.pushed(jobs, results)
					m.delivered(deliveries)
					m.settled("default", outcomes, errs)
				}
			})
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
		})
	}
}
