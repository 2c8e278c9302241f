package sqliteengine_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/sqliteengine"
)

func openBench(b *testing.B) *sqliteengine.Engine {
	e, err := sqliteengine.Open(b.Context(), sqliteengine.Config{Path: filepath.Join(b.TempDir(), "duly.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// jobs returns n new jobs with bodies of 100 bytes and IDs made by the client.
func jobs(n int) []duly.Job {
	js := make([]duly.Job, n)
	for i := range js {
		js[i] = duly.Job{ID: duly.NewNumber().String(), Made: true, Queue: "jobs", Body: make([]byte, 100)}
	}
	return js
}

func pushItem(b *testing.B, e *sqliteengine.Engine, js []duly.Job) {
	results, err := e.Push(context.Background(), js)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range results {
		if r.Status != duly.Created {
			b.Fatalf("push answered %v, %v", r.Status, r.Err)
		}
	}
}

func perSecond(b *testing.B, what string) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), what+"/s")
}

func BenchmarkPushBatchesOf100(b *testing.B) {
	e := openBench(b)
	for left := b.N; left > 0; left -= 100 {
		pushItem(b, e, jobs(min(left, 100)))
	}
	perSecond(b, "jobs")
}

func BenchmarkPushSinglesFrom64Goroutines(b *testing.B) {
	e := openBench(b)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for range b.N/64 + min(1, max(0, b.N%64-g)) {
				pushItem(b, e, jobs(1))
			}
		})
	}
	wg.Wait()
	perSecond(b, "jobs")
}

func BenchmarkReserveAndAckBatchesOf100(b *testing.B) {
	e := openBench(b)
	for left := b.N; left > 0; left -= 1000 {
		pushItem(b, e, jobs(min(left, 1000)))
	}
	b.ResetTimer()
	reserveAndAck(b, e, "jobs")
	perSecond(b, "jobs")
}

// reserveAndAck reserves and acks b.N jobs in batches of a hundred.
func reserveAndAck(b *testing.B, e *sqliteengine.Engine, queue string) {
	outcomes := make([]duly.SettleRequest, 0, 100)
	for left := b.N; left > 0; left -= len(outcomes) {
		ds, err := e.Reserve(b.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 100})
		if err != nil || len(ds) == 0 {
			b.Fatalf("reserve brought %d, %v", len(ds), err)
		}

		outcomes = outcomes[:0]
		for _, d := range ds {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}

		errs, err := e.Settle(b.Context(), "", outcomes)
		if err != nil {
			b.Fatal(err)
		}

		for _, err := range errs {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkExplain(b *testing.B) { enginetest.BenchmarkExplain(b, openBench(b)) }
