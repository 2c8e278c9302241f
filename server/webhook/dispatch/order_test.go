package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// C16.106, C16.107: with random failures, throttling and killed dispatchers, no receiver gets
// jobs of an order key out of order, or two at the same time.
func TestOrderKeysThroughTrouble(t *testing.T) {
	keys := 40
	if os.Getenv("DULY_LONG") == "1" {
		keys = 1000
	}
	const each, hosts = 5, 7
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		answers := rand.New(rand.NewPCG(16, 106)) // guarded by receivers.mu
		r.rs.answer = func(request, int) answer {
			a := answer{status: 200, after: time.Duration(answers.IntN(400)) * time.Millisecond}
			switch n := answers.IntN(100); {
			case n < 15:
				a.status = 500
			case n < 20:
				a.status, a.header = 429, map[string]string{"retry-after": "5"}
			case n < 25:
				a.err = errors.New("connection reset")
			case n < 28:
				a.status = 410
			}
			return a
		}
		for i := range each {
			for k := range keys {
				r.push(duly.Job{Queue: fmt.Sprint("q", k%hosts), ID: fmt.Sprintf("k%d.%d", k, i),
					OrderKey: fmt.Sprint("key ", k), Backoff: "fixed:2s", Tries: 50})
			}
		}
		draw := rand.New(rand.NewPCG(16, 107))
		for range 20 {
			pass(time.Duration(500+draw.IntN(20_000)) * time.Millisecond)
			r.tap.failing(func(string, string) error { return duly.ErrUnavailable }, nil)
			r.Kill()
			r.stop()
			r.tap.failing(nil, nil)
			r.start()
		}
		pass(12 * time.Hour)

		type progress struct {
			job   string
			place int
			ended time.Duration
		}
		last := map[string]progress{}
		for _, q := range inOrder(r.rs.got()) {
			key, place, _ := strings.Cut(q.job, ".")
			before := last[key]
			now := progress{job: q.job, ended: q.ended}
			fmt.Sscan(place, &now.place)
			if now.place < before.place {
				t.Errorf("%s is sent after %s", q.job, before.job)
			}
			if q.at < before.ended {
				t.Errorf("%s begins at %s, before the request for %s ends at %s", q.job, q.at, before.job, before.ended)
			}
			last[key] = now
		}
		for h := range hosts {
			stats, err := r.model.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: fmt.Sprint("q", h)})
			if s := stats.Sizes; err != nil || s.Delayed+s.Ready+s.Blocked+s.Leased > 0 {
				t.Errorf("queue %d still has %+v, %v", h, s, err)
			}
		}
	})
}

// inOrder returns requests sorted by their starts.
func inOrder(ledger []request) []request {
	sorted := append([]request(nil), ledger...)
	slices.SortStableFunc(sorted, func(a, b request) int { return int(a.at - b.at) })
	return sorted
}
