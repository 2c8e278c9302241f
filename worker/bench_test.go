package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/worker"
)

// BenchmarkBacklog handles a backlog that was loaded before with handlers that do nothing. It
// reports how many jobs one call to the engine carries.
func BenchmarkBacklog(b *testing.B) {
	for _, slots := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("FreeStore/Slots%d", slots), func(b *testing.B) { backlog(b, slots, nil) })
	}
	// The costs resemble a file with group commit: 50 µs for a call, 10 µs for a job.
	b.Run("OneWriter/Slots64", func(b *testing.B) {
		backlog(b, 64, func(items int) { spin(50*time.Microsecond + time.Duration(items)*10*time.Microsecond) })
	})
}

func spin(d time.Duration) {
	for start := clock.Monotonic(); clock.Monotonic()-start < d; {
	}
}

func backlog(b *testing.B, slots int, stall func(int)) {
	e := newMemoryEngine()
	e.stall = stall
	jobs := make([]duly.Job, b.N)
	body := make([]byte, 100)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: "q", Body: body}
	}
	e.Push(b.Context(), jobs)

	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	w := worker.New(e, worker.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	var handled atomic.Int64
	w.Handle("q", func(context.Context, *worker.Delivery) error {
		if handled.Add(1) == int64(b.N) {
			stop()
		}
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(e.calls.reserves), "jobs/reserve")
	b.ReportMetric(float64(b.N)/float64(e.calls.settles), "jobs/settle")
	if len(e.leased) > 0 {
		b.Fatalf("%d jobs of %d not settled", len(e.leased), b.N)
	}
}
