package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/lua"
)

// The moments at which a process or the server dies.
const (
	diesBeforeRead = "BeforeTheRead" // of the due ticks
	diesAfterRead  = "AfterTheRead"
	diesInsideFire = "InsideFire" // the request was sent, and the process does not read the answer
	diesAfterFire  = "AfterFire"
	diesUnanswered = "Unanswered" // the answer of Fire was lost
)

// openReader opens an engine that fires no ticks.
func openReader(t *testing.T, url string) *redisengine.Engine {
	t.Helper()
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Manual: true,
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// firingScript matches the calls to a script of the schedules.
func firingScript(name string) faultproxy.Match { return faultproxy.Function(lua.Load(name).Function) }

// TestTicksSurviveKilledProcesses kills processes that fire ticks on Redis, each at the same moment.
// Another process goes on. No tick is lost, and none fires twice (fault C13). The test of the same
// promise on SQLite is in package sqliteengine, because only the engine can stop inside a
// transaction.
//
// C17.85, C17.90, C17.91, C9.1
func TestTicksSurviveKilledProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for _, moment := range []string{diesBeforeRead, diesAfterRead, diesInsideFire, diesAfterFire, diesUnanswered} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			e := openReader(t, server.URL())
			k := &tickKills{
				T: t, moment: moment, url: server.URL(), proxy: faultproxy.Redis(t, server.Addr()), reader: e,
				ledger: keepTicks(t, e, moment, spread(2)...),
			}
			kills := counts(2, 200)
			for range kills {
				k.kill()
			}
			end := time.Now()
			k.goOn()
			ticks, _ := k.ledger.conclude(e, end, true)
			t.Logf("%d processes were killed; each of %d ticks ran once", kills, ticks)
		})
	}
}

// tickKills is a queue whose ticks are fired by processes that die.
type tickKills struct {
	*testing.T
	moment string
	url    string
	proxy  *faultproxy.Proxy // the processes use this address
	reader *redisengine.Engine
	ledger *tickLedger
	kills  int
}

// kill starts a process that fires ticks, and ends it at the moment. Every second time, this process
// then fires the ticks that are due. Otherwise the next killed process finds them.
func (k *tickKills) kill() {
	k.Helper()
	fired, _, _ := k.ledger.fired(k.reader)
	started := make(chan *proctest.Process, 1)
	fault := k.inject(func() { (<-started).Kill() })
	p := proctest.Start(k, proctest.Options{}, "tickfirer", "redis://"+k.proxy.Addr(), k.ledger.queue.Name, k.moment)
	started <- p
	k.await(p, fault)
	p.Kill()

	k.check(p.Lines(), fired)
	if k.kills++; k.kills%2 == 0 {
		k.goOn()
	}
}

// inject prepares the fault of the moment. kill kills the process.
func (k *tickKills) inject(kill func()) *faultproxy.Injected {
	k.Helper()
	before := func([]string) { kill() }
	switch k.moment {
	case diesBeforeRead:
		return k.proxy.Inject(faultproxy.Fault{Match: firingScript("schedule_list"), Do: faultproxy.Drop, Before: before})
	case diesAfterRead:
		return k.proxy.Inject(faultproxy.Fault{Match: firingScript("schedule_fire"), Do: faultproxy.Drop, Before: before})
	case diesInsideFire:
		return k.proxy.Inject(faultproxy.Fault{Match: firingScript("schedule_fire"), Do: faultproxy.Pass, Before: before})
	case diesUnanswered:
		// Half of the processes see that the connection is lost, and call the engine again.
		return k.proxy.Inject(faultproxy.Fault{Match: firingScript("schedule_fire"), Do: faultproxy.LoseReply,
			Silent: k.kills%4 < 2})
	}
	return nil
}

// await waits until the fault has happened and the process has reached its end.
func (k *tickKills) await(p *proctest.Process, fault *faultproxy.Injected) {
	k.Helper()
	if fault == nil { // the process kills itself
		if err := p.Wait(patience); err == nil || !strings.Contains(err.Error(), "killed") {
			k.Fatalf("the process ended with %v: %q", err, p.Lines())
		}
		return
	}
	select {
	case <-fault.Done():
	case <-time.After(patience):
		k.Fatalf("the process did not reach its moment in %v: %q", patience, p.Lines())
	}
	if k.moment == diesUnanswered && !fault.Silent && !p.Await("continued", 1, patience) {
		k.Fatalf("the process did not continue after a lost answer: %q", p.Lines())
	}
}

// check checks that the process died at its moment: its last ticks have fired, or are still due.
func (k *tickKills) check(lines []string, before int64) {
	k.Helper()
	fired, last, next := k.ledger.fired(k.reader)
	if k.moment == diesBeforeRead || k.moment == diesAfterRead {
		if fired != before || next > time.Now().UnixMilli() {
			k.Errorf("kill %d: %d ticks have fired, want %d, and the next one is at %d", k.kills, fired, before, next)
		}
	} else if fired == before {
		k.Errorf("kill %d: no tick has fired", k.kills)
	}

	firing := ticksIn(k.T, lines, "firing")
	if (len(firing) == 0) != (k.moment == diesBeforeRead) {
		k.Errorf("kill %d: the process has fired %v", k.kills, firing)
	}
	for _, of := range firing {
		if done := last[of.schedule] >= of.tick; done != (k.moment != diesAfterRead) {
			k.Errorf("kill %d: tick %+v has fired: %v", k.kills, of, done)
		}
	}
}

// goOn opens the store, fires the due ticks and handles the runs, as another process does.
func (k *tickKills) goOn() {
	k.Helper()
	e, _ := openRedis(k.T, k.url)
	defer e.Close() // waits for the passes that a Reserve has started
	stepTicks(k.T, e, k.ledger.queue)
	k.ledger.drain(e)
}

// ticksIn returns the ticks in the lines that begin with a word.
func ticksIn(t *testing.T, lines []string, word string) (ticks []tickOf) {
	t.Helper()
	for _, line := range lines {
		if words := strings.Fields(line); words[0] == word {
			ticks = append(ticks, tickOf{words[1], millis(t, words[2])})
		}
	}
	return ticks
}

// runTickFirer fires the due ticks of a queue until it is killed. Its args are the server's URL, the
// queue and the moment at which it dies. It only dies by itself after Fire.
func runTickFirer(args []string) error {
	ctx, q, moment := context.Background(), duly.Q(args[1]), args[2]
	var e *redisengine.Engine
	for { // the server may be down now
		var err error
		e, err = redisengine.Open(ctx, redisengine.Config{URL: args[0], Manual: true, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			break
		}
		time.Sleep(breath)
	}
	e.ObserveFire(func(ctx context.Context, _ duly.QueueRef, _ int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func([]contract.FireResult, error),
	) {
		for i := range items {
			fmt.Println("firing", items[i].Name, items[i].Tick)
		}
		return ctx, items, func(results []contract.FireResult, _ error) {
			for i := range results {
				if results[i].Status == contract.FireFired {
					fmt.Println("fired", items[i].Name, items[i].Tick)
				}
			}
			if moment == diesAfterFire && len(results) > 0 {
				killSelf()
			}
		}
	})

	for failed := false; ; time.Sleep(breath) {
		_, err := e.Step(ctx, q)
		switch {
		case err != nil:
			failed = true
		case failed:
			fmt.Println("continued")
			failed = false
		}
	}
}

// killSelf kills this process like kill -9.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		self.Kill()
	}
	select {}
}

// TestTicksSurviveAKilledRedis kills the server at each moment while two processes fire ticks, and
// starts it again. The server syncs its log before each answer. No tick is lost, and none fires
// twice (fault C13).
//
// C9.1, C9.5, C17.85, C17.91
func TestTicksSurviveAKilledRedis(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{diesBeforeRead, diesAfterRead, diesInsideFire, diesUnanswered} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t, redistest.AOF("always"))
			e := openReader(t, server.URL())
			k := &serverKills{server: server, tickKills: &tickKills{
				T: t, moment: moment, url: server.URL(), proxy: faultproxy.Redis(t, server.Addr()), reader: e,
				ledger: keepTicks(t, e, "q", spread(2)...),
			}}
			for range 2 {
				k.processes = append(k.processes, proctest.Start(t, proctest.Options{}, "tickfirer",
					"redis://"+k.proxy.Addr(), k.ledger.queue.Name, ""))
			}

			seed := uint64(time.Now().UnixNano())
			r := rand.New(rand.NewPCG(seed, 0))
			kills := counts(2, 200)
			for range kills {
				k.kill(r)
			}
			var lines []string
			for _, p := range k.processes {
				p.Kill()
				lines = append(lines, p.Lines()...)
			}
			end := time.Now()
			k.goOn()
			k.answeredOnce(lines)
			ticks, _ := k.ledger.conclude(e, end, true)
			t.Logf("seed %d: %d kills of the server; each of %d ticks ran once", seed, kills, ticks)
		})
	}
}

// serverKills is a queue whose server dies.
type serverKills struct {
	*tickKills
	server    *redistest.Server
	processes []*proctest.Process
	answered  int // fired ticks in the answers to the processes
}

// awaitFiring waits until the processes fire again.
func (k *serverKills) awaitFiring() {
	k.Helper()
	redistest.Await(k, "a process fires a tick", func() bool {
		n := 0
		for _, p := range k.processes {
			n += len(ticksIn(k.T, p.Lines(), "fired"))
		}
		more := n > k.answered
		k.answered = n
		return more
	})
}

// kill kills the server at the moment, starts it again, and handles the runs.
func (k *serverKills) kill(r *rand.Rand) {
	k.Helper()
	k.awaitFiring()
	reached, killed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fault := k.inject(func() {
		once.Do(func() { close(reached) })
		if k.moment != diesInsideFire { // there the request arrives while the server dies
			<-killed
		}
	})
	defer fault.Remove()
	if k.moment == diesUnanswered {
		k.awaitDone(fault.Done())
	} else {
		k.awaitDone(reached)
	}

	if k.moment == diesInsideFire {
		time.Sleep(time.Duration(r.IntN(1500)) * time.Microsecond)
	}
	k.server.Kill()
	close(killed)
	k.kills++
	k.server.Restart()
	k.server.RewriteLog() // docs/redis.md requires a rewrite of the log after a crash
	k.goOn()
}

func (k *serverKills) awaitDone(done <-chan struct{}) {
	k.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		k.Fatalf("no process reached the moment in %v", patience)
	}
}

// answeredOnce checks that no tick was answered twice as fired: an answer is durable.
func (k *serverKills) answeredOnce(lines []string) {
	k.Helper()
	seen := map[tickOf]bool{}
	for _, of := range ticksIn(k.T, lines, "fired") {
		if seen[of] {
			k.Errorf("tick %+v was answered twice as fired", of)
		}
		seen[of] = true
	}
	if len(seen) == 0 {
		k.Error("the processes have fired nothing, so the run proves nothing")
	}
}
