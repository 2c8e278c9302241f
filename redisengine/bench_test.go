//go:build unix

package redisengine_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// rig is an engine on a private server. It measures the processor time of the server's main thread
// and of this process.
type rig struct {
	*testing.B
	server *redistest.Server
	e      *redisengine.Engine
	cpu    float64 // processor time of the server, in µs
	own    float64 // processor time of this process, in ns
	rules  duly.Job
}

func newRig(b *testing.B) *rig {
	r := &rig{B: b, server: redistest.Single(b, redistest.AOF("everysec"))}
	if err := r.persist(func() (err error) {
		r.e, err = redisengine.Open(b.Context(), redisengine.Config{URL: r.server.URL(),
			Logger: slog.New(slog.DiscardHandler)})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.e.Close() })
	return r
}

// patience is how long an unanswered call is retried.
const patience = time.Minute

// persist repeats a call until it succeeds. On a busy machine, a server that waits for its disk or
// the processor may not answer within the limits for a dial (5 s) or an idle connection (20 s).
// Calls in flight then fail as unavailable. persist logs such a failure, because it distorts the
// figures, but the benchmark continues. Any other error is returned with the end of the server's
// log.
func (r *rig) persist(call func() error) error {
	err := call()
	for begun := clock.Monotonic(); err != nil; err = call() {
		if !errors.Is(err, duly.ErrUnavailable) || clock.Monotonic()-begun > patience {
			return fmt.Errorf("%w; the end of the server's log:\n%s", err, r.server.Log())
		}
		r.Log("repeating the call makes the benchmark's figures less exact:", err)
	}
	return nil
}

// used returns the µs of processor time of the server's main thread.
func (r *rig) used() (us float64) {
	for line := range strings.Lines(r.server.Must("INFO", "cpu").(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			s, _ := strconv.ParseFloat(value, 64)
			us += s * 1e6
		}
	}
	return us
}

// spent returns the ns of processor time of this process.
func (r *rig) spent() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		r.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func (r *rig) begin() {
	r.ReportAllocs()
	r.cpu, r.own = r.used(), r.spent()
	r.ResetTimer()
}

func (r *rig) end(jobs int) {
	r.StopTimer()
	r.ReportMetric((r.spent()-r.own)/float64(jobs), "cpu-ns/job")
	r.ReportMetric((r.used()-r.cpu)/float64(jobs), "redis-µs/job")
	r.ReportMetric(float64(jobs)/r.Elapsed().Seconds(), "jobs/s")
	r.ReportMetric(0, "ns/op")
}

func (r *rig) jobs(n int) []duly.Job {
	body := []byte(strings.Repeat("x", 100))
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = r.rules
		jobs[i].Queue, jobs[i].Body = "q", body
	}
	return jobs
}

// each runs n calls in some goroutines.
func (r *rig) each(n, goroutines int, f func() error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := r.persist(f); err != nil {
					r.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (r *rig) push(batch, calls, goroutines int) {
	jobs := r.jobs(batch)
	r.each(calls, goroutines, func() error {
		results, err := r.e.Push(r.Context(), jobs)
		for i := range results {
			err = cmp.Or(err, results[i].Err)
		}
		return err
	})
}

func BenchmarkPush50(b *testing.B) {
	r := newRig(b)
	r.push(50, 100, 4)
	r.begin()
	r.push(50, b.N, 4)
	r.end(50 * b.N)
}

func BenchmarkPushSingle64(b *testing.B) {
	r := newRig(b)
	r.push(50, 100, 4)
	r.begin()
	r.push(1, b.N, 64)
	r.end(b.N)
}

// BenchmarkPushRuledSingle64 pushes jobs with equal rules that differ from the defaults.
func BenchmarkPushRuledSingle64(b *testing.B) {
	r := newRig(b)
	r.rules = duly.Job{Tries: 1, MaxStalls: duly.None, Backoff: duly.Fixed(0), TTL: 24 * time.Hour}
	r.push(50, 100, 4)
	r.begin()
	r.push(1, b.N, 64)
	r.end(b.N)
}

func BenchmarkReserveAck50(b *testing.B) {
	r := newRig(b)
	r.push(50, b.N+10, 4)
	r.begin()
	r.each(b.N, 4, func() error {
		ds, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 50})
		if err != nil {
			return err
		}
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		_, err = r.e.Settle(r.Context(), "", outcomes)
		return err
	})
	r.end(50 * b.N)
}

// BenchmarkSweepOfKnownQueues measures queues that this process knows and does not use: their
// memory, and the time of a sweep over them.
func BenchmarkSweepOfKnownQueues(b *testing.B) {
	const queues = 10_000
	r := newRig(b)
	bytes, objects := heap()
	var next atomic.Int64
	r.each(queues, 8, func() error {
		ref := duly.Q(fmt.Sprintf("q%d", next.Add(1)))
		return r.e.Configure(r.Context(), ref, duly.QueueConfig{MaxLeased: 10})
	})
	sweep := func() error { return r.e.Sweep(r.Context()) }
	// The first sweeps read all configurations.
	r.each(2, 1, sweep)
	moreBytes, moreObjects := heap()
	r.begin()
	r.each(b.N, 1, sweep)
	r.end(queues * b.N)
	r.ReportMetric((moreBytes-bytes)/queues, "B/queue")
	// The garbage collector has to visit these objects.
	r.ReportMetric((moreObjects-objects)/queues, "objects/queue")
}

func heap() (bytes, objects float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.HeapObjects)
}

func BenchmarkExplain(b *testing.B) { enginetest.BenchmarkExplain(b, newRig(b).e) }
