package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench/gaugetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/worker"
)

// idleRequests is the number of requests per second of an idle process: a poll every two seconds,
// the renewal of a blocking call every five, and little else.
const idleRequests = 0.8

// onRedis opens the engine as a separate program would.
func onRedis(t *testing.T, cfg redisengine.Config) *redisengine.Engine {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := redisengine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// madeQueues creates empty queues. It closes the engine that creates them, so that it sends no
// requests later.
func madeQueues(t *testing.T, cfg redisengine.Config, n int) (names []string) {
	t.Helper()
	e := onRedis(t, cfg)
	defer e.Close()
	for i := range n {
		names = append(names, fmt.Sprintf("idle-%d", i))
		if err := e.Configure(t.Context(), duly.QueueRef{Name: names[i]}, duly.QueueConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// awaitQuiet waits until a process that watches this many places waits: it sends at most one poll
// and one renewal per place and second.
func awaitQuiet(t *testing.T, url string, places int) {
	t.Helper()
	redistest.Await(t, "the process to rest", func() bool {
		return gaugetest.Requests(t, url, func() { time.Sleep(time.Second) }) <= int64(2*places)
	})
}

// works lets a worker wait on queues until the test ends.
func works(t *testing.T, e duly.Engine, queues []string) {
	t.Helper()
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	for _, name := range queues {
		w.Handle(name, func(context.Context, *worker.Delivery) error { return nil })
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestIdleProcessSendsFewRequests checks that an idle process that watches a hundred queues sends
// less than one request per second.
func TestIdleProcessSendsFewRequests(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes more than a minute; runs with DULY_LONG=1, as in make bench")
	}
	s := redistest.Single(t)
	cfg := redisengine.Config{URL: s.URL()}
	works(t, onRedis(t, cfg), madeQueues(t, cfg, idleQueues))
	awaitQuiet(t, s.URL(), 1)
	n := gaugetest.Requests(t, s.URL(), func() { time.Sleep(idleTime) }) // the measured time
	t.Logf("%d requests in %s with %d queues watched: %.2f a second (at most %g)", n, idleTime, idleQueues,
		float64(n)/idleTime.Seconds(), idleRequests)
	if bound := idleRequests * idleTime.Seconds(); float64(n) > bound {
		t.Errorf("an idle process sent %d requests in %s, want at most %g", n, idleTime, bound)
	}
}

// TestIdleProcessOnAClusterSendsFewRequests is like TestIdleProcessSendsFewRequests, in a cluster.
// A blocking call may not span slots there, so the bound is per watched shard.
func TestIdleProcessOnAClusterSendsFewRequests(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes more than a minute; runs with DULY_LONG=1, as in make bench")
	}
	const queues = 20
	c := redistest.NewCluster(t, 0)
	cfg := redisengine.Config{URL: c.URL()}
	works(t, onRedis(t, cfg), madeQueues(t, cfg, queues))
	awaitQuiet(t, c.URL(), queues)
	n := gaugetest.Requests(t, c.URL(), func() { time.Sleep(idleTime) }) // the measured time
	t.Logf("%d requests in %s with %d shards watched: %.2f a second per shard (at most %g)", n, idleTime, queues,
		float64(n)/idleTime.Seconds()/queues, idleRequests)
	if bound := queues * idleRequests * idleTime.Seconds(); float64(n) > bound {
		t.Errorf("an idle process sent %d requests in %s, want at most %g", n, idleTime, bound)
	}
}

// TestOnePushWakesOneIdleProcessOfMany checks that one of many idle processes wakes for one job.
// A push causes the Reserve of that process, its next poll and its next blocking call. The clock
// does not move, so the polls of every two seconds do not count.
func TestOnePushWakesOneIdleProcessOfMany(t *testing.T) {
	t.Parallel()
	processes := 20
	if proctest.Long() {
		processes = 500
	}
	s := redistest.Single(t)
	c := &crowd{server: s, clock: clock.NewFake(), processes: processes, woken: make(chan *redisengine.Engine, processes)}
	pusher := c.open(t)
	c.queue = madeQueues(t, redisengine.Config{URL: s.URL(), Clock: c.clock}, 1)[0]
	c.gather(t)
	c.serveOne(t, pusher) // loads the scripts, and lets one process watch the end of the first lease
	c.awaitCalm(t)
	n := c.requests(t, func() { c.serveOne(t, pusher) }) - 1 // without the push itself
	t.Logf("one push to %d idle processes caused %d requests (at most 3)", processes, n)
	if n > 3 {
		t.Errorf("one push to %d idle processes caused %d requests, want at most 3", processes, n)
	}
	select {
	case <-c.woken:
		t.Error("one job woke two processes")
	default:
	}
}

// crowd is many processes that wait on one queue.
type crowd struct {
	server    *redistest.Server
	clock     *clock.Fake
	queue     string
	processes int
	woken     chan *redisengine.Engine
	ctx       context.Context
	all       sync.WaitGroup
	asked     int64 // requests of the test itself
}

func (c *crowd) open(t *testing.T) *redisengine.Engine {
	return onRedis(t, redisengine.Config{URL: c.server.URL(), Clock: c.clock})
}

// gather starts processes that wait. They begin at the same time, so they renew their blocking
// calls at the same time.
func (c *crowd) gather(t *testing.T) {
	t.Helper()
	engines := make([]*redisengine.Engine, c.processes)
	for i := range engines {
		engines[i] = c.open(t)
	}
	var end context.CancelFunc
	c.ctx, end = context.WithCancel(context.Background())
	t.Cleanup(func() { end(); c.all.Wait() })
	for _, e := range engines {
		c.wait(t, e)
	}
	c.awaitBlocked(t)
}

// awaitCalm waits until the blocking calls were just renewed.
func (c *crowd) awaitCalm(t *testing.T) {
	t.Helper()
	busy := false
	redistest.Await(t, "a pause after the blocking calls were renewed", func() bool {
		n := c.requests(t, func() { time.Sleep(200 * time.Millisecond) }) // a short measurement
		calm := busy && n == 0
		busy = n > 0
		return calm
	})
}

// serveOne pushes a job and lets the process that wakes up reserve it and wait again.
func (c *crowd) serveOne(t *testing.T, pusher *redisengine.Engine) {
	t.Helper()
	if _, err := pusher.Push(t.Context(), []duly.Job{{Queue: c.queue, Body: []byte("one")}}); err != nil {
		t.Fatal(err)
	}
	var first *redisengine.Engine
	redistest.Await(t, "a push to wake somebody", func() bool {
		select {
		case first = <-c.woken:
		default:
		}
		return first != nil
	})
	if got, err := first.Reserve(t.Context(), duly.ReserveParams{Queues: []string{c.queue}, Max: 2}); err != nil ||
		len(got) != 1 {
		t.Fatalf("reserved %v, %v", got, err)
	}
	c.wait(t, first)
	c.awaitBlocked(t)
}

// wait lets a process wait.
func (c *crowd) wait(t *testing.T, e *redisengine.Engine) {
	c.all.Go(func() {
		ready, err := e.Wait(c.ctx, duly.WaitParams{Queues: []string{c.queue}, Timeout: duly.MaxWait})
		if err != nil && c.ctx.Err() == nil {
			t.Error(err)
		}
		if ready {
			c.woken <- e
		}
	})
}

// awaitBlocked waits until every process is in a blocking call.
func (c *crowd) awaitBlocked(t *testing.T) {
	t.Helper()
	redistest.Await(t, "every process to block", func() bool {
		c.asked++
		text, _ := c.server.Must("INFO", "clients").(string)
		return strings.Contains(text, fmt.Sprintf("blocked_clients:%d\r\n", c.processes))
	})
}

// requests counts the requests of the processes while do runs.
func (c *crowd) requests(t *testing.T, do func()) int64 {
	t.Helper()
	c.asked = 0
	n := gaugetest.Requests(t, c.server.URL(), do)
	return n - c.asked
}
