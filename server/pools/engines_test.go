package pools_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/sqliteengine"
)

// storageEngines open the engines that store jobs, by name.
var storageEngines = map[string]func(t *testing.T) contract.Engine{
	"a file": func(t *testing.T) contract.Engine {
		path := filepath.Join(t.TempDir(), "duly.db")
		e, err := sqliteengine.Open(t.Context(), sqliteengine.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	},
	"redis": func(t *testing.T) contract.Engine {
		server, prefix := redistest.Shared(t)
		url := server.URL() + "?prefix=" + prefix
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	},
}

// load runs producers and consumers on several servers with the same pools.
type load struct {
	t       *testing.T
	servers []*pools.Pools
	clock   *clock.Fake // clock of the moves; the engines use the real time
	restart func()      // restarts one server's Run, at any step of a move

	mu     sync.Mutex
	acked  map[string]int
	order  map[string][]int // numbers of the delivered jobs in their order, by order key
	busy   map[string]bool
	pushed int
}

// produce pushes jobs. A third of them have the order key of the producer.
func (l *load) produce(ctx context.Context, producer, jobs int) {
	for i := range jobs {
		id := fmt.Sprintf("p%d-%d", producer, i)
		j := duly.Job{Namespace: "shop", Queue: "plain", ID: id, Lease: time.Minute}
		if i%3 == 0 {
			j.Queue, j.OrderKey, j.Body = "keyed", fmt.Sprint("k", producer), []byte(fmt.Sprint(i))
		}

		results, err := l.servers[i%len(l.servers)].Push(ctx, []duly.Job{j})
		if err != nil || results[0].Err != nil || results[0].Status != duly.Created {
			l.t.Errorf("push %s: %+v, %v", id, results, err)
			return
		}
		l.mu.Lock()
		l.pushed++
		l.mu.Unlock()
	}
}

// consume reserves and acks jobs until ctx ends.
func (l *load) consume(ctx context.Context, server *pools.Pools) {
	queues := []string{"keyed", "plain"}
	for ctx.Err() == nil {
		wait := duly.WaitParams{Namespace: "shop", Queues: queues, Timeout: time.Second}
		if _, err := server.Wait(ctx, wait); err != nil {
			continue
		}
		got, err := server.Reserve(ctx, duly.ReserveParams{Namespace: "shop", Queues: queues, Max: 10})
		if err != nil {
			continue
		}
		for i := range got {
			l.work(server, &got[i])
		}
	}
}

func (l *load) work(server *pools.Pools, d *duly.Delivery) {
	if d.OrderKey != "" {
		n := 0
		fmt.Sscan(string(d.Body), &n)
		l.mu.Lock()
		if l.busy[d.OrderKey] {
			l.t.Errorf("two jobs of key %s run at the same time", d.OrderKey)
		}
		l.busy[d.OrderKey] = true
		l.order[d.OrderKey] = append(l.order[d.OrderKey], n)
		l.mu.Unlock()
	}

	l.mu.Lock()
	delete(l.busy, d.OrderKey) // deleted before the ack, because the next job may follow at once
	l.mu.Unlock()
	acks := []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}}
	errs, err := server.Settle(context.WithoutCancel(l.t.Context()), "shop", acks)
	if err != nil || errs[0] != nil {
		l.t.Errorf("ack of %s: %v, %v", d.ID, errs, err)
	}
	l.mu.Lock()
	l.acked[d.ID]++
	l.mu.Unlock()
}

// moveTo moves the namespace and waits for the end of the move.
func (l *load) moveTo(ctx context.Context, to string) {
	if _, err := l.servers[0].Move(ctx, "shop", to); err != nil {
		l.t.Errorf("move to %s: %v", to, err)
		return
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			if n%7 == 6 {
				l.restart()
			}
		case <-limit:
			moves, _ := l.servers[0].Moves(ctx, "")
			l.t.Errorf("the move to %s does not end: %+v", to, moves)
			return
		}

		l.clock.Advance(500 * time.Millisecond)
		where, err := l.servers[0].Where(ctx, "shop")
		if err == nil && where.Pool == to && where.From == "" {
			return
		}
	}
}

// startServer calls Run until ctx ends. restart ends the current Run and starts another one.
func startServer(ctx context.Context, running *sync.WaitGroup, p *pools.Pools) (restart func()) {
	var stop context.CancelFunc
	var ended chan struct{}
	run := func() {
		var until context.Context
		until, stop = context.WithCancel(ctx)
		done := make(chan struct{})
		ended = done
		running.Go(func() {
			defer close(done)
			p.Run(until)
		})
	}
	run()
	return func() {
		stop()
		<-ended
		run()
	}
}

// queues returns the number of queues in a pool.
func (l *load) queues(e contract.Engine) int {
	queues, err := e.Queues(l.t.Context(), "shop", duly.PageParams{})
	if err != nil {
		l.t.Error(err)
	}
	return len(queues.Names)
}

// A namespace moves from SQLite to Redis and back while two servers push and work on its jobs. One
// server restarts all the time. Every job is acked once, and the jobs of each order key in their
// order.
func TestMovesUnderLoadBetweenEngines(t *testing.T) {
	t.Parallel()
	file, redis := storageEngines["a file"](t), storageEngines["redis"](t)
	l := &load{
		t: t, clock: clock.NewFake(), acked: map[string]int{}, order: map[string][]int{}, busy: map[string]bool{},
	}
	ctx, stop := context.WithCancel(t.Context())
	var running, working sync.WaitGroup
	for range 2 {
		p := serve(t, l.clock, map[string]pools.Engine{contract.DefaultPool: {Open: file}, "redis": {Open: redis}})
		l.servers = append(l.servers, p)
		l.restart = startServer(ctx, &running, p) // restarts only the second server
	}
	if err := createToken(ctx, l.servers[0], "shop"); err != nil {
		t.Fatal(err)
	}

	const producers, jobs = 3, 200
	for round, to := range []string{"redis", contract.DefaultPool} {
		var pushing sync.WaitGroup
		for i := range producers {
			pushing.Go(func() { l.produce(ctx, 10*round+i, jobs) })
		}
		if round == 0 {
			for i := range 4 {
				working.Go(func() { l.consume(ctx, l.servers[i%2]) })
			}
		}
		l.moveTo(ctx, to)
		pushing.Wait()
	}

	l.waitForAcks(2 * producers * jobs)
	l.waitForRemoval(redis)
	stop()
	working.Wait()
	running.Wait()
	l.check()
	if inFile, inRedis := l.queues(file), l.queues(redis); inFile != 2 || inRedis != 0 {
		t.Errorf("SQLite has %d queues, Redis has %d", inFile, inRedis)
	}
}

// waitForAcks waits until that many jobs are acked.
func (l *load) waitForAcks(jobs int) {
	l.t.Helper()
	acked := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.acked) }
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); acked() < jobs && !l.t.Failed(); {
		select {
		case <-tick.C:
		case <-limit:
			l.t.Errorf("%d of %d jobs are acked", acked(), l.pushed)
		}
	}
}

// waitForRemoval waits until an engine has no queue. A server may create a queue that another
// server has just removed. In that case it removes the queue again.
func (l *load) waitForRemoval(e contract.Engine) {
	l.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); l.queues(e) > 0 && !l.t.Failed(); {
		select {
		case <-tick.C:
			l.clock.Advance(500 * time.Millisecond)
		case <-limit:
			l.t.Error("the old pool still has queues")
		}
	}
}

// check checks that every job was acked once, and the jobs of each key in their order.
func (l *load) check() {
	l.t.Helper()
	for id, times := range l.acked {
		if times != 1 {
			l.t.Errorf("%s was acked %d times", id, times)
		}
	}
	for key, numbers := range l.order {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] < numbers[i-1] {
				l.t.Errorf("key %s: %d after %d", key, numbers[i], numbers[i-1])
			}
		}
	}
}
