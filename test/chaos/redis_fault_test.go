package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/lua"
)

// span is how long a fault lasts that goes on all the time.
func span() time.Duration {
	if proctest.Long() {
		return time.Minute
	}
	return 3 * time.Second
}

// TestForgottenScriptsAreNoticedByNobody lets the server forget its functions,
// or its scripts, every 50 ms: no client sees an error (S1).
//
// C11.17
func TestForgottenScriptsAreNoticedByNobody(t *testing.T) {
	t.Parallel()
	t.Run("Functions", func(t *testing.T) {
		t.Parallel()
		forget(t, "functions", []any{"FUNCTION", "FLUSH"})
	})
	t.Run("OneLibrary", func(t *testing.T) {
		t.Parallel()
		forget(t, "functions", []any{"FUNCTION", "DELETE", lua.Load("reserve").Library.Name})
	})
	t.Run("Eval", func(t *testing.T) {
		t.Parallel()
		forget(t, "eval", []any{"SCRIPT", "FLUSH"})
	})
}

// forget sends a server a command that makes it forget scripts, again and again.
func forget(t *testing.T, form string, command []any) {
	server := redistest.Single(t)
	f := setOut(t, server.URL()+"?scripts="+form, 2, lightLoad())
	flushes := 0
	for end := time.Now().Add(span()); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := server.Do(t.Context(), command...); err == nil { // else the library is not loaded again yet
			flushes++
		}
	}
	f.rest()
	if flushes == 0 {
		t.Errorf("%v has never succeeded", command)
	}
	t.Logf("%d flushes", flushes)
	f.comeHome()
	h := newHistory()
	h.read(f.pages.lines())
	if h.gaps > 0 {
		t.Errorf("%d calls were not answered, and nothing but scripts was lost", h.gaps)
	}
	h.conclude(t, f.engines[0], trial{calm: f.calm, slack: slack}, f.shape.queues...)
}

// TestRestartInMidLoadLosesNothing restarts the server, which comes back
// without its scripts, and in every second turn without its functions (S2).
//
// C9.1, C11.17
func TestRestartInMidLoadLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.AOF("always"))
	f := setOut(t, server.URL(), 2, lightLoad())
	r := f.random()
	for i := range counts(3, 50) {
		restUpTo(r, 200*time.Millisecond, time.Second)
		if i%2 == 0 {
			server.Must("FUNCTION", "FLUSH")
		}
		server.Restart()
		f.serves()
	}
	f.rest()
	f.conclude(trial{})
}

// TestResetConnectionsLoseNothing breaks all connections again and again (F5).
//
// C9.1, C4.38
func TestResetConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := faultproxy.New(t, server.Addr())
	f := setOut(t, "redis://"+proxy.Addr(), 2, lightLoad())
	r := f.random()
	resets, most := 0, 0
	for end := time.Now().Add(span()); time.Now().Before(end); resets++ {
		restUpTo(r, 100*time.Millisecond, 1000*time.Millisecond)
		most = max(most, proxy.Open())
		proxy.Reset()
	}
	f.rest()
	t.Logf("%d resets, %d connections at once at most", resets, most)
	// Each engine has one for its calls and one to wait on; both may just have
	// been replaced.
	if bound := 4 * len(f.engines); most > bound {
		t.Errorf("%d connections at once, want at most %d", most, bound)
	}
	f.conclude(trial{})
}

// TestFailoverLosesTheStatedWindow kills the primary of a Sentinel's group: the
// clients go on by themselves, and nothing but the last second is lost (F1).
//
// C9.5
func TestFailoverLosesTheStatedWindow(t *testing.T) {
	t.Parallel()
	group := redistest.NewSentinel(t)
	s := lightLoad()
	makeQueues(t, group.URL(), s.queues)
	f := setOut(t, group.URL(), 2, s)
	r := f.random()
	x := watchReplacements(t, group)
	var longest time.Duration
	for range counts(1, 20) {
		restUpTo(r, time.Second, 2*time.Second)
		killed := at()
		old := group.Failover() // all agree on another
		longest = max(longest, f.serves())
		x.asked(old, killed, at(), window{from: killed - second, to: at()})
		old.Restart()
		x.healthy()
	}
	f.rest()
	x.healthy()
	t.Logf("pushing again %v after the switch, at most", longest)
	if longest > 50*time.Second { // ten times 5 s
		t.Errorf("no push was answered for %v after the switch", longest)
	}
	f.comeHome()
	report, err := f.engines[0].Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the repair mended %d faults", len(report.Faults))
	undone, _ := x.windows(t)
	f.conclude(trial{undone: undone})
}

// TestBlockedServerIsUnavailableInTime lets another client's script
// block the server: calls end by their deadline, and all is well as soon as it
// has ended (S4).
//
// C4.2, C13.11
func TestBlockedServerIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.Config("busy-reply-threshold 200"))
	e, _ := openRedis(t, server.URL())
	push := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		results, err := e.Push(ctx, []duly.Job{{Queue: "q"}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	if err := push(patience); err != nil {
		t.Fatal(err)
	}
	length := "2000"
	if proctest.Long() {
		length = "6000"
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		server.Must("EVAL", `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
			local till = now() + tonumber(ARGV[1]) repeat until now() > till return 1`, 0, length)
	})
	redistest.Await(t, "the server is busy", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := server.Do(ctx, "GET", "x")
		return err != nil
	})
	begun := time.Now()
	err := push(300 * time.Millisecond)
	if took := time.Since(begun); !maybe(err) || took > 3*time.Second {
		t.Errorf("a push with 300ms was answered %v after %v", err, took)
	}
	wg.Wait()
	begun = time.Now()
	if err := push(patience); err != nil {
		t.Error(err)
	}
	took := time.Since(begun)
	t.Logf("a push was answered %v after the script had ended", took)
	if took > 10*time.Second { // ten times 1 s
		t.Errorf("a push was answered %v after the script had ended", took)
	}
}
