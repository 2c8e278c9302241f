package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly/internal/clock"
)

// gather returns the series of each metric of push, by their label values.
func gather(t *testing.T, p *Push) map[string]map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(p)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]map[string]float64{}
	for _, f := range families {
		series := map[string]float64{}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			series[strings.Join(labels, " ")] = value
		}
		all[f.GetName()] = series
	}
	return all
}

// C16.132: 10 000 hosts cause at most 250 series per metric. The busiest hosts have separate
// series, even if they become busy later. No counter decreases.
func TestPushSeriesAreBounded(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	var gates []PushGate
	p := NewPush(c, func() []PushGate { return gates }, func() int64 { return 7 })
	total := 0
	send := func(host string, n int) {
		for range n {
			total++
			p.Requested(PushRequest{
				Namespace: "shop", Destination: host, Status: 200, Took: time.Millisecond, Bytes: 10, First: true,
			})
		}
	}

	for i := range 10_000 {
		send(fmt.Sprintf("https://h%d.example:443", i), 1)
		gates = append(gates, PushGate{Host: fmt.Sprintf("https://h%d.example:443", i), Open: true, Limit: 4})
	}
	before := gather(t, p)
	for name, series := range before {
		if len(series) > 250 {
			t.Errorf("%s has %d series", name, len(series))
		}
	}

	const late = "https://h9999.example:443"
	send(late, 500)
	c.Advance(2 * time.Minute)
	send(late, 5)
	after := gather(t, p)
	if got := after["duly_push_requests_total"]["2xx "+late+" shop"]; got != 5 {
		t.Errorf("the busiest host has a series of %v, want 5 since it got one", got)
	}
	sum := 0.0
	for labels, n := range after["duly_push_requests_total"] {
		sum += n
		if old, ok := before["duly_push_requests_total"][labels]; ok && n < old {
			t.Errorf("%s decreases from %v to %v", labels, old, n)
		}
	}
	if int(sum) != total {
		t.Errorf("%v requests in all series, want %d", sum, total)
	}
}

// checkPushSeries checks the number of series, that no counter of requests is less than
// before, and their sum. It returns the counters.
func checkPushSeries(t *testing.T, p *Push, before map[string]float64, total int) map[string]float64 {
	t.Helper()
	all := gather(t, p)
	for name, series := range all {
		if len(series) > 250 {
			t.Errorf("%s has %d series", name, len(series))
		}
	}

	sum := 0.0
	requests := all["duly_push_requests_total"]
	for labels, n := range requests {
		sum += n
		if n < before[labels] {
			t.Errorf("%s decreases from %v to %v", labels, before[labels], n)
		}
	}
	if int(sum) != total {
		t.Errorf("%v requests in all series, want %d", sum, total)
	}
	return requests
}

// C16.132: hosts with answers of all classes cause at most 250 series per metric. Each of
// the busiest keeps the first two classes of its answers. No counter decreases, and every
// request is counted.
func TestPushSeriesOfAllClassesAreBounded(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	p := NewPush(c, func() []PushGate { return nil }, func() int64 { return 0 })
	total := 0
	send := func(host, status, n int) {
		for range n {
			total++
			p.Requested(PushRequest{
				Namespace: "shop", Destination: fmt.Sprintf("https://h%d.example:443", host), Status: status,
			})
		}
	}
	before := map[string]float64{}
	check := func() {
		t.Helper()
		before = checkPushSeries(t, p, before, total)
	}

	statuses := []int{200, 503, 404, 0, 302, 101}
	for host := range 10_000 {
		for _, status := range statuses {
			send(host, status, 1)
		}
	}
	check()
	for host := range 100 {
		for _, class := range []string{"2xx", "5xx"} {
			if labels := fmt.Sprintf("%s https://h%d.example:443 shop", class, host); before[labels] != 1 {
				t.Errorf("%s is %v, want 1", labels, before[labels])
			}
		}
	}

	// Other hosts take some of the series of these hosts, including those of their classes.
	for host := 5000; host < 5050; host++ {
		send(host, 404, 50)
	}
	c.Advance(2 * time.Minute)
	for host := 5000; host < 5050; host++ {
		for _, status := range statuses {
			send(host, status, 1)
		}
	}
	check()
	if got := before["2xx https://h5000.example:443 shop"]; got != 1 {
		t.Errorf("a host that became busy has a series of %v, want 1 since it got one", got)
	}
}

// C16.133: every event has its metric.
func TestEveryPushEventHasItsMetric(t *testing.T) {
	t.Parallel()
	p := NewPush(clock.NewFake(), func() []PushGate {
		return []PushGate{
			{Host: "https://a.example:443", Open: true, Limit: 8, InFlight: 3, HeldBack: 20},
			{Host: "https://b.example:443", Limit: 1},
		}
	}, func() int64 { return 4096 })

	p.Requested(PushRequest{
		Namespace: "shop", Destination: "target:crm", Status: 204, Took: time.Second, Bytes: 100,
		First: true, Late: time.Millisecond,
	})
	p.Requested(PushRequest{Namespace: "shop", Destination: "target:crm", Status: 503, Took: time.Second, Bytes: 100})
	p.Requested(PushRequest{Namespace: "shop", Destination: "target:crm"})
	p.HeldBack("shop", "target:crm")
	p.Waits("disabled")
	p.Disabled()
	p.NoticeFailed()
	p.Closed()
	p.ClockDiffers(-90 * time.Second)

	all := gather(t, p)
	for _, want := range []struct {
		name, labels string
		value        float64
	}{
		{"push_requests_total", "2xx target:crm shop", 1}, {"push_requests_total", "5xx target:crm shop", 1},
		{"push_requests_total", "none target:crm shop", 1}, {"push_request_seconds_total", "target:crm shop", 2},
		{"push_bytes_total", "target:crm shop", 200}, {"push_held_back_total", "target:crm shop", 1},
		{"push_request_duration_seconds", "", 3}, {"push_first_try_lateness_seconds", "", 1},
		{"push_waits_total", "disabled", 1}, {"push_targets_disabled_total", "", 1},
		{"push_notices_failed_total", "", 1}, {"push_gate_closures_total", "", 1},
		{"push_clock_difference_seconds", "", -90}, {"push_memory_bytes", "", 4096},
		{"push_gate_open", "https://a.example:443", 1}, {"push_gate_open", "https://b.example:443", 0},
		{"push_gate_limit", "https://a.example:443", 8}, {"push_in_flight", "https://a.example:443", 3},
		{"push_held_back", "https://a.example:443", 20},
	} {
		if got, ok := all["duly_"+want.name][want.labels]; !ok || got != want.value {
			t.Errorf("%s{%s} is %v (%v), want %v", want.name, want.labels, got, ok, want.value)
		}
	}
}
