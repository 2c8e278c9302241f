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

// realEngines are those that keep what they are given.
var realEngines = map[string]func(t *testing.T) contract.Engine{
	"a file": func(t *testing.T) contract.Engine {
		e, err := sqliteengine.Open(t.Context(), sqliteengine.Config{Path: filepath.Join(t.TempDir(), "duly.db"), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	},
	"redis": func(t *testing.T) contract.Engine {
		server, prefix := redistest.Shared(t)
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL() + "?prefix=" + prefix, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	},
}

// load is producers and consumers on several servers with the same pools.
type load struct {
	t       *testing.T
	servers []*pools.Pools
	clock   *clock.Fake // of the moves; the engines go by the machine's
	restart func()      // of one server's part in the moves, in whatever it is at

	mu     sync.Mutex
	acked  map[string]int
	order  map[string][]int // of an order key, the numbers of its jobs as they were handed out
	busy   map[string]bool
	pushed int
}

// produce pushes jobs, a part of them with order keys, each key by one producer.
func (l *load) produce(ctx context.Context, who, jobs int) {
	for i := range jobs {
		id := fmt.Sprintf("p%d-%d", who, i)
		j := duly.Job{Namespace: "shop", Queue: "plain", ID: id, Lease: time.Minute}
		if i%3 == 0 {
			j.Queue, j.OrderKey, j.Body = "keyed", fmt.Sprint("k", who), []byte(fmt.Sprint(i))
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

// consume acks what it gets until ctx ends.
func (l *load) consume(ctx context.Context, server *pools.Pools) {
	queues := []string{"keyed", "plain"}
	for ctx.Err() == nil {
		if _, err := server.Wait(ctx, duly.WaitParams{Namespace: "shop", Queues: queues, Timeout: time.Second}); err != nil {
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
			l.t.Errorf("two jobs of key %s run", d.OrderKey)
		}
		l.busy[d.OrderKey] = true
		l.order[d.OrderKey] = append(l.order[d.OrderKey], n)
		l.mu.Unlock()
	}
	l.mu.Lock()
	delete(l.busy, d.OrderKey) // before the ack: the next one may follow it at once
	l.mu.Unlock()
	errs, err := server.Settle(context.WithoutCancel(l.t.Context()), "shop", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
	if err != nil || errs[0] != nil {
		l.t.Errorf("ack of %s: %v, %v", d.ID, errs, err)
	}
	l.mu.Lock()
	l.acked[d.ID]++
	l.mu.Unlock()
}

// moveTo moves the namespace and waits until that is over.
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

// begin lets a server run until ctx ends, and tells how to let it begin anew.
func begin(ctx context.Context, running *sync.WaitGroup, p *pools.Pools) (again func()) {
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

// queues counts what is in a pool.
func (l *load) queues(e contract.Engine) int {
	queues, err := e.Queues(l.t.Context(), "shop", duly.PageParams{})
	if err != nil {
		l.t.Error(err)
	}
	return len(queues.Names)
}

// A namespace goes from a file to Redis and back while two servers push to it
// and work on it, one of which is begun anew all the time: every job is worked on once, and those of a key in their order.
func TestMovesUnderLoadBetweenEngines(t *testing.T) {
	t.Parallel()
	file, redis := realEngines["a file"](t), realEngines["redis"](t)
	l := &load{t: t, clock: clock.NewFake(), acked: map[string]int{}, order: map[string][]int{}, busy: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var running, working sync.WaitGroup
	for range 2 {
		p := serve(t, l.clock, map[string]pools.Engine{contract.DefaultPool: {Open: file}, "redis": {Open: redis}})
		l.servers = append(l.servers, p)
		l.restart = begin(ctx, &running, p) // the first one's is not called
	}
	if err := meet(ctx, l.servers[0], "shop"); err != nil {
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
	all := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.acked) }
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); all() < 2*producers*jobs && !t.Failed(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Errorf("of %d jobs %d were worked on", l.pushed, all())
		}
	}
	// What one server makes again that another one has just removed is removed,
	// too, as long as they run.
	for limit := time.After(time.Minute); l.queues(redis) > 0 && !t.Failed(); {
		select {
		case <-tick.C:
			l.clock.Advance(500 * time.Millisecond)
		case <-limit:
			t.Error("queues are left in redis")
		}
	}
	stop()
	working.Wait()
	running.Wait()
	for id, times := range l.acked {
		if times != 1 {
			t.Errorf("%s was worked on %d times", id, times)
		}
	}
	for key, numbers := range l.order {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] < numbers[i-1] {
				t.Errorf("key %s: %d after %d", key, numbers[i], numbers[i-1])
			}
		}
	}
	if inFile, inRedis := l.queues(file), l.queues(redis); inFile != 2 || inRedis != 0 {
		t.Errorf("%d queues are in the file, %d in redis", inFile, inRedis)
	}
}
