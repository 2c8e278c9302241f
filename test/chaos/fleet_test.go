package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/redisengine"
)

// fleet is a set of engines on one Redis. Each engine has its own producers and workers, as a
// separate process would have.
type fleet struct {
	t       *testing.T
	engines []*redisengine.Engine
	logs    []*logtest.Log
	loads   []*load
	pages   *pages
	seed    uint64
	shape   shape
	calm    int64 // the end of the last fault, in µs

	stopPushing, stop context.CancelFunc
	wg                sync.WaitGroup
}

// lightLoad returns a load with every kind of call that leaves most of the machine to other tests. The
// long form is the standard load.
func lightLoad() shape {
	s := shape{
		queues: []string{"a", "b", "c"}, pushers: 2, workers: 2, batch: 10, rest: 50 * time.Millisecond, body: 4 << 10,
		delays: 0.3, delay: 500 * time.Millisecond,
		lease: 500 * time.Millisecond, call: 5 * time.Second,
	}
	if proctest.Long() {
		s.pushers, s.workers, s.rest, s.big, s.delay, s.lease = 7, 7, 100*time.Millisecond, true, 5*time.Second, 2*time.Second
	}
	return s
}

// setOut opens engines on one URL and starts their load.
func setOut(t *testing.T, url string, engines int, s shape) *fleet {
	t.Helper()
	return setOutAt(t, slices.Repeat([]string{url}, engines), s)
}

// setOutAt opens an engine for each URL and starts its load.
func setOutAt(t *testing.T, urls []string, s shape) *fleet {
	t.Helper()
	f := &fleet{t: t, pages: newPages(), shape: s, seed: uint64(time.Now().UnixNano())}
	t.Logf("seed %d", f.seed)
	ctx, stop := context.WithCancel(context.Background())
	pushing, stopPushing := context.WithCancel(ctx)
	f.stop, f.stopPushing = stop, stopPushing
	t.Cleanup(func() { stop(); f.wg.Wait() })
	for i, url := range urls {
		e, j := openRedis(t, url)
		l := &load{engine: e, diary: &f.pages.diary, shape: s}
		f.engines, f.logs, f.loads = append(f.engines, e), append(f.logs, j), append(f.loads, l)
		f.wg.Go(func() { l.run(ctx, pushing, f.seed+uint64(i)) })
	}
	return f
}

func openRedis(t *testing.T, url string) (*redisengine.Engine, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, log
}

// random returns the random source of a fault plan.
func (f *fleet) random() *rand.Rand { return rand.New(rand.NewPCG(f.seed, 1<<32)) }

// restUpTo sleeps for a random time, so that the processes work.
func restUpTo(r *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(r.Int64N(int64(most-least))))
}

// serves pushes until a push is answered, and returns how long that took.
func (f *fleet) serves() time.Duration {
	f.t.Helper()
	return f.servesThrough(f.engines[0])
}

func (f *fleet) servesThrough(e duly.Engine) time.Duration {
	f.t.Helper()
	l := &load{engine: e, diary: &f.pages.diary, shape: f.shape}
	l.shape.call = patience
	l.shape.batch = 1
	jobs := l.jobs(f.random())
	jobs[0].ID, jobs[0].Made = duly.MakeID(&jobs[0]), true
	return f.pushUntilAnswered(l, jobs)
}

// pushUntilAnswered pushes until the push is answered, and returns how long that took.
func (f *fleet) pushUntilAnswered(l *load, jobs []duly.Job) time.Duration {
	f.t.Helper()
	begun := time.Now()
	for !l.pushOnce(jobs) {
		if time.Since(begun) > patience {
			f.t.Fatalf("no push was answered for %v", patience)
		}
		for i := range jobs {
			jobs[i].Made = false
		}
		time.Sleep(breath)
	}
	return time.Since(begun)
}

// rest notes that the last fault is over, and lets the fleet work for a while.
func (f *fleet) rest() {
	f.calm = at()
	d := time.Second
	if proctest.Long() {
		d = 20 * time.Second // ten poll intervals of a waiter
	}
	time.Sleep(d)
}

// comeHome stops the producers, waits until the workers have emptied the queues, and then stops the
// workers.
func (f *fleet) comeHome() {
	f.t.Helper()
	f.stopPushing()
	for begun := time.Now(); !empty(f.t, f.engines[0], f.shape.queues); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			f.t.Fatalf("the workers did not empty the queues in %v", patience)
		}
	}
	f.stop()
	f.wg.Wait()
}

// slack is ten times the promised time in which clients must have recovered from the last fault.
const slack = 20 * time.Second

// conclude stops the fleet and checks the history.
func (f *fleet) conclude(r trial) verdicts {
	f.t.Helper()
	f.comeHome()
	h := newHistory()
	h.read(f.pages.lines())
	r.calm, r.slack = f.calm, slack
	return h.conclude(f.t, f.engines[0], r, f.shape.queues...)
}

// logged returns how often all logs together contain a string.
func (f *fleet) logged(what string) (n int) {
	for _, j := range f.logs {
		n += j.Count(what)
	}
	return n
}

// counts returns the count for the short or the long form.
func counts(short, long int) int {
	if proctest.Long() {
		return long
	}
	return short
}
