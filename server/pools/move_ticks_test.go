package pools_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/pools"
)

// tickDiary notes the runs of a schedule that ticks every second.
type tickDiary struct {
	t     *testing.T
	mu    sync.Mutex
	ticks []string
}

// work reserves and acks runs until ctx ends.
func (d *tickDiary) work(ctx context.Context, server *pools.Pools) {
	for ctx.Err() == nil {
		wait := duly.WaitParams{Namespace: "shop", Queues: []string{"q"}, Timeout: time.Second}
		if _, err := server.Wait(ctx, wait); err != nil {
			continue
		}
		got, err := server.Reserve(ctx, duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 10})
		if err != nil {
			continue
		}
		for i := range got {
			d.mu.Lock()
			d.ticks = append(d.ticks, got[i].Headers[duly.HeaderTick])
			d.mu.Unlock()
			acks := []duly.SettleRequest{{Receipt: got[i].Receipt, As: duly.Ack}}
			if errs, err := server.Settle(context.WithoutCancel(ctx), "shop", acks); err != nil || errs[0] != nil {
				d.t.Errorf("ack of %s: %v, %v", got[i].ID, errs, err)
			}
		}
	}
}

// waitFor waits until so many runs were worked on.
func (d *tickDiary) waitFor(runs int) {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		d.mu.Lock()
		n := len(d.ticks)
		d.mu.Unlock()
		if n >= runs {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			d.t.Fatalf("%d of %d runs were worked on", n, runs)
		}
	}
}

// C17.143, C17.144: a namespace moves from SQLite to Redis and back while its schedule ticks every second.
// One of two servers restarts all the time. Each tick has one run.
func TestSchedulesMoveBetweenEngines(t *testing.T) {
	t.Parallel()
	file, redis := storageEngines["a file"](t), storageEngines["redis"](t)
	l := &load{t: t, clock: clock.NewFake()}
	ctx, stop := context.WithCancel(t.Context())
	var running, working sync.WaitGroup
	for range 2 {
		p := serve(t, l.clock, map[string]pools.Engine{contract.DefaultPool: {Open: file}, "redis": {Open: redis}})
		l.servers = append(l.servers, p)
		l.restart = startServer(ctx, &running, p) // only the second server restarts
	}
	server := l.servers[0]
	s := duly.Schedule{Name: "s", Spec: "@every 1s", Overlap: duly.OverlapAllow, Catchup: duly.CatchupAll}
	put, err := server.PutSchedule(ctx, shop, s)
	if err != nil {
		t.Fatal(err)
	}

	d := &tickDiary{t: t}
	for _, p := range l.servers {
		working.Go(func() { d.work(ctx, p) })
	}
	d.waitFor(1)
	for _, to := range []string{"redis", contract.DefaultPool} {
		d.mu.Lock()
		before := len(d.ticks)
		d.mu.Unlock()
		l.moveTo(ctx, to)
		d.waitFor(before + 2)
	}

	if err := server.PauseSchedule(ctx, shop, "s"); err != nil {
		t.Fatal(err)
	}
	info, err := server.GetSchedule(ctx, shop, "s")
	if err != nil {
		t.Fatal(err)
	}
	d.waitFor(int(info.Fired))
	stop()
	working.Wait()
	running.Wait()

	slices.Sort(d.ticks)
	for i, tick := range d.ticks {
		if want := contract.TickText(put.Next.Add(time.Duration(i) * time.Second).UnixMilli()); tick != want {
			t.Fatalf("run %d has the tick %s, want %s; all are %v", i, tick, want, d.ticks)
		}
	}
	if int64(len(d.ticks)) != info.Fired || info.Skipped+info.Missed > 0 {
		t.Errorf("%d runs were worked on; the schedule is %+v", len(d.ticks), info)
	}
}
