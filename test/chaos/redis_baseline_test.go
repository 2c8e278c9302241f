package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestOutagesLeaveNothingBehind repeatedly breaks, refuses, delays and restarts the connection of
// a working process. Afterwards the process has as many goroutines and connections as before
// (fault F5).
//
// C4.38
func TestOutagesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.AOF("always"))
	proxy := faultproxy.New(t, server.Addr())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := proctest.Start(t, proctest.Options{}, "redisguest", "redis://"+proxy.Addr(), strconv.FormatUint(seed, 10))
	if !p.Await("goroutines", 20, patience) {
		t.Fatal("the process did not start", p.Lines())
	}
	baseline, connections := slices.Max(goroutinesOf(p)), proxy.Open()
	outages := []func(){
		proxy.Reset,
		func() { proxy.Stop(); time.Sleep(100 * time.Millisecond); proxy.Resume() },
		func() { proxy.Cut(faultproxy.Both); time.Sleep(300 * time.Millisecond); proxy.Heal() },
		func() {
			proxy.Cut(faultproxy.ToClient)
			proxy.Reset()
			time.Sleep(100 * time.Millisecond)
			proxy.Heal()
		},
		server.Restart,
	}
	n := counts(15, 300)
	for i := range n {
		outages[i%len(outages)]()
		time.Sleep(100 * time.Millisecond)
	}
	in := goroutinesOf(p)
	p.Await("goroutines", len(in)+20, patience) // the process works again
	last := func() int { all := goroutinesOf(p); return slices.Max(all[len(all)-20:]) }
	redistest.Await(t, fmt.Sprintf("the process has the %d goroutines and %d connections that it began with", baseline,
		connections), func() bool {
		return last() <= baseline+5 && proxy.Open() <= connections
	})
	t.Logf("%d outages: %d goroutines at most before, %d in between, %d after; %d connections before, %d after", n,
		baseline, slices.Max(in), last(), connections, proxy.Open())
}

// goroutinesOf returns every number of goroutines that a process has printed.
func goroutinesOf(p *proctest.Process) (all []int) {
	for _, line := range p.Lines() {
		if rest, ok := strings.CutPrefix(line, "goroutines "); ok {
			n, _ := strconv.Atoi(rest)
			all = append(all, n)
		}
	}
	return all
}

// runRedisGuest works until it is killed and prints its number of goroutines. Its args are the
// server's URL and a seed.
func runRedisGuest(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	engine, err := redisengine.Open(context.Background(), redisengine.Config{URL: args[0],
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	s := lightLoad()
	s.pushers, s.workers = 2, 3
	l := &load{engine: engine, diary: &diary{out: io.Discard}, shape: s}
	go l.run(context.Background(), context.Background(), seed)
	for {
		time.Sleep(50 * time.Millisecond)
		fmt.Fprintf(os.Stdout, "goroutines %d\n", runtime.NumGoroutine())
	}
}
