package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// BenchmarkExplain measures Explain of the jobs that have the most jobs before them. There are 10,000
// ready jobs and 1000 order keys, and with DULY_LONG a hundred times as many.
func BenchmarkExplain(b *testing.B, e contract.Engine) {
	ready, keys := 10_000, 1000
	if long() {
		ready, keys = 1_000_000, 100_000
	}
	fillForExplain(b, e, ready, keys)

	for _, id := range []string{"first", "last", "blocked", "delayed", "due"} {
		b.Run(id, func(b *testing.B) {
			var longest time.Duration
			for b.Loop() {
				begun := b.Elapsed()
				if _, err := contract.ExplainerOf(e).Explain(b.Context(), duly.Q("jobs"), id); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, b.Elapsed()-begun)
			}
			b.ReportMetric(float64(longest.Microseconds()), "µs/longest")
		})
	}
}

// fillForExplain stores ready jobs, one in keys of them with an order key, and a blocked job of each key.
func fillForExplain(b *testing.B, e contract.Engine, ready, keys int) {
	b.Helper()
	push := func(n int, of func(i int) duly.Job) {
		b.Helper()
		for done := 0; done < n; done += duly.MaxBatch {
			jobs := make([]duly.Job, min(duly.MaxBatch, n-done))
			for i := range jobs {
				jobs[i] = of(done + i)
				jobs[i].Queue = "jobs"
			}
			results, err := e.Push(b.Context(), jobs)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range results {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	}

	push(1, func(int) duly.Job { return duly.Job{ID: "first", Priority: 1} })
	push(2*keys, func(i int) duly.Job { return duly.Job{OrderKey: fmt.Sprint("k", i/2)} })
	push(ready-keys, func(int) duly.Job { return duly.Job{Body: make([]byte, 100)} })
	push(2*contract.MaxBlocked, func(int) duly.Job { return duly.Job{OrderKey: "lane"} })
	push(4, func(i int) duly.Job {
		return [...]duly.Job{{ID: "last", Priority: -1}, {ID: "blocked", OrderKey: "lane", Priority: -1},
			{ID: "delayed", Delay: time.Hour}, {ID: "due", Delay: time.Millisecond, Priority: -2}}[i]
	})
}
