package dashboard

import (
	"math"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/attention"
	"github.com/dulymq/duly/server/dashboard/feed"
	"github.com/dulymq/duly/server/dashboard/history"
	"github.com/dulymq/duly/server/dashboard/view"
)

// Facts are what the server knows besides its queues. A nil function leaves its condition out.
type Facts struct {
	// Calls returns the durations of each engine's calls: counts by the buckets of CallBounds, and one for longer
	// calls.
	Calls      func() map[string][]uint64
	CallBounds []time.Duration
	// Refused counts the jobs that were refused as full or not_durable. Reset is when the engine was last reset.
	Refused func() int64
	Reset   func() time.Time
}

// vitals remember the facts of the last minutes.
type vitals struct {
	facts Facts

	mu      sync.Mutex
	samples []sample // oldest first
	// refused is the last count, at is when it last rose.
	refused int64
	at      time.Time
	known   bool
}

// sample is the count of calls at a time.
type sample struct {
	mono  time.Duration
	calls map[string][]uint64
}

// sampleEvery is the least time between two samples.
const sampleEvery = 10 * time.Second

// read returns the facts at a look.
func (v *vitals) read(look *feed.Look) (s attention.Server) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.facts.Reset != nil {
		s.Reset = v.facts.Reset()
	}
	if v.facts.Refused != nil {
		n := v.facts.Refused()
		if v.known && n > v.refused {
			v.at = look.At
		}
		v.refused, v.known = n, true
	}
	s.Refused = v.at
	if v.facts.Calls != nil {
		s.Slow = v.slowest(look.Mono)
	}
	s.Incomplete = look.Next != "" || look.Err != nil
	for i := range look.Queues {
		s.Incomplete = s.Incomplete || look.Queues[i].Err != nil
	}
	return s
}

// slowest returns the largest 99th percentile of the engines' calls in the last minutes.
func (v *vitals) slowest(now time.Duration) (worst time.Duration) {
	calls := v.facts.Calls()
	for len(v.samples) > 1 && now-v.samples[1].mono >= attention.CallWindow {
		v.samples = v.samples[1:]
	}
	if n := len(v.samples); n == 0 || now-v.samples[n-1].mono >= sampleEvery {
		v.samples = append(v.samples, sample{now, calls})
	}
	before := v.samples[0].calls
	for engine, counts := range calls {
		rise := make([]float32, len(counts))
		for i, n := range counts {
			rise[i] = float32(n)
			if was := before[engine]; i < len(was) {
				rise[i] = float32(n - was[i])
			}
		}
		if p99 := history.Quantile(0.99, rise, v.facts.CallBounds); !math.IsNaN(p99) {
			worst = max(worst, time.Duration(p99*float64(time.Second)))
		}
	}
	return worst
}

// observe records a look, and finds what needs attention.
func (d *Dashboard) observe(namespace string, look *feed.Look) {
	d.history.Observe(namespace, look)
	server := d.vitals.read(look)
	var queues []attention.Queue
	for i := range look.Queues {
		q := &look.Queues[i]
		if q.Err != nil {
			continue
		}
		found := attention.Queue{Name: q.Name, Stats: &q.Stats, Throttle: q.Throttle, Recent: d.history.Queue(namespace, q.Name)}
		if q.Stats.Counters.Stalled > 0 {
			found.Stalls = d.history.Sum(namespace, q.Name, history.Stalled, attention.StallWindow)
		}
		queues = append(queues, found)
	}
	d.attention.Observe(namespace, queues, &server, look.At)
}

// ratesOf returns the rates of a queue.
func (d *Dashboard) ratesOf(namespace, queue string) history.Rates {
	return d.history.Queue(contract.NamespaceOr(namespace), queue).Rates
}

// rateTexts returns what comes in, goes out and fails per second, and the drain estimate of a backlog.
func rateTexts(r history.Rates, backlog int64) []string {
	if !r.Known {
		return []string{"", "", "", ""}
	}
	drain := ""
	switch out := r.Out - r.In; {
	case backlog == 0:
	case out > 0:
		drain = view.Duration(time.Duration(float64(backlog) / out * float64(time.Second)).Round(time.Second))
	case out < 0:
		drain = "grows"
	default:
		drain = "constant"
	}
	return []string{rate(r.In), rate(r.Out), rate(r.Failed), drain}
}
