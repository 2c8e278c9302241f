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

// span returns the length of a fault that lasts during the whole run.
func span() time.Duration {
	if proctest.Long() {
		return time.Minute
	}
	return 3 * time.Second
}

// TestForgottenScriptsCauseNoErrors deletes the server's functions or scripts every 50 ms. No
// client sees an error (fault S1).
//
// C11.17
func TestForgottenScriptsCauseNoErrors(t *testing.T) {
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

// forget repeats a command that makes the server forget its scripts.
func forget(t *testing.T, form string, command []any) {
	server := redistest.Single(t)
	f := setOut(t, server.URL()+"?scripts="+form, 2, lightLoad())
	flushes := 0
	for end := time.Now().Add(span()); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := server.Do(t.Context(), command...); err == nil { // fails while the library is not loaded again
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
		t.Errorf("%d calls failed, although only scripts were lost", h.gaps)
	}
	h.conclude(t, f.engines[0], trial{calm: f.calm, slack: slack}, f.shape.queues...)
}

// TestRestartInMidLoadLosesNothing restarts the server under load. It returns without its
// scripts, and every second time without its functions (fault S2).
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

// TestResetConnectionsLoseNothing repeatedly breaks all connections (fault F5).
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
	t.Logf("%d resets, at most %d connections at the same time", resets, most)
	// Each engine has one connection for calls and one for waiting. Both may just have been
	// replaced.
	if bound := 4 * len(f.engines); most > bound {
		t.Errorf("%d connections at the same time, want at most %d", most, bound)
	}
	f.conclude(trial{})
}

// TestFailoverLosesTheStatedWindow kills the primary of a Sentinel's group. The clients continue
// without help, and at most the last second is lost (fault F1).
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
		old := group.Failover() // returns when all Sentinels agree on the new primary
		longest = max(longest, f.serves())
		x.asked(old, killed, at(), window{from: killed - second, to: at()})
		old.Restart()
		x.healthy()
	}
	f.rest()
	x.healthy()
	t.Logf("pushing again %v after the switch, at most", longest)
	if longest > 50*time.Second { // ten times the promised 5 s
		t.Errorf("no push was answered for %v after the switch", longest)
	}
	f.comeHome()
	report, err := f.engines[0].Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the repair fixed %d faults", len(report.Faults))
	undone, _ := x.windows(t)
	f.conclude(trial{undone: undone})
}

// TestBlockedServerIsUnavailableInTime blocks the server with another client's script. Calls end
// at their deadlines, and work again as soon as the script has ended (fault S4).
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
	if took > 10*time.Second { // ten times the promised 1 s
		t.Errorf("a push was answered %v after the script had ended", took)
	}
}
