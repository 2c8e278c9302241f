package chaos

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestKilledRedisLosesNothing kills the server with SIGKILL at random times under load, and
// starts it again. The server syncs its log before each answer, so what was answered survives.
// The clients continue without help (fault C3).
//
// C9.1, C9.2, C9.5
func TestKilledRedisLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.AOF("always"))
	f := setOut(t, server.URL(), 2, lightLoad())
	r := f.random()
	kills := counts(6, 200)
	var longest time.Duration
	for range kills {
		restUpTo(r, 100*time.Millisecond, time.Second)
		server.Kill()
		server.Restart() // returns when the server has loaded its data
		longest = max(longest, f.serves())
		server.RewriteLog() // docs/redis.md requires a rewrite of the log after a crash
	}
	t.Logf("%d kills; pushing again %v after the server had loaded, at most", kills, longest)
	if longest > 30*time.Second { // ten times the promised 3 s
		t.Errorf("no push was answered for %v after the server had loaded", longest)
	}
	f.rest()
	f.conclude(trial{})
	if n := f.logged("store reset"); n != 0 {
		t.Errorf("%d resets were logged, although nothing was lost", n)
	}
}

// TestKilledWorkersLoseNothing kills worker processes with SIGKILL. Their jobs are delivered
// again after their leases have ended (fault C1).
//
// C9.1, C9.2, C1.9
func TestKilledWorkersLoseNothing(t *testing.T) {
	t.Parallel()
	kills, least, most := counts(12, 300), 50*time.Millisecond, 250*time.Millisecond
	if proctest.Long() {
		least, most = 500*time.Millisecond, 3*time.Second
	}
	s := lightLoad()
	server := redistest.Single(t)
	producers := s
	producers.workers = 0
	f := setOut(t, server.URL(), 1, producers)
	r := f.random()
	h := newHistory()
	begin := func() *proctest.Process {
		p := proctest.Start(t, proctest.Options{}, "redisworker", server.URL(), strconv.FormatUint(r.Uint64(), 10))
		if !p.Await("open", 1, patience) {
			t.Fatal("a worker did not start", p.Lines())
		}
		return p
	}
	running := []*proctest.Process{begin(), begin(), begin()}
	var lines []string
	end := func(p *proctest.Process) {
		p.Kill()
		h.gaps++ // the calls in flight have no known result
		lines = append(lines, p.Lines()...)
	}
	for range kills {
		restUpTo(r, least, most)
		i := r.IntN(len(running))
		end(running[i])
		running[i] = begin()
	}
	f.rest()
	f.comeHome()
	for _, p := range running {
		end(p)
	}
	h.read(f.pages.lines())
	h.read(lines)
	t.Logf("%d kills", kills)
	h.conclude(t, f.engines[0], trial{calm: f.calm, slack: 10 * time.Second}, s.queues...) // ten times the promised 1 s
}

// runRedisWorker works until it is killed. Its args are the server's URL and a seed.
func runRedisWorker(args []string) error {
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
	s.pushers = 0
	l := &load{engine: engine, diary: &diary{out: os.Stdout}, shape: s}
	l.diary.say("open")
	l.run(context.Background(), context.Background(), seed)
	return nil
}
