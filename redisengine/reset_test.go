package redisengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

func openLogged(t *testing.T, url string) (*redisengine.Engine, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: log.Logger()})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e, log
}

// F10: a server that has come back empty is told of once, loudly, and its
// queues work again.
func TestStoreResetIsToldOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, log := openLogged(t, server.URL())
	push := func() {
		t.Helper()
		results, err := e.Push(context.Background(), []duly.Job{{Queue: "q"}, {Queue: "r"}})
		must(t, err)
		for _, r := range results {
			must(t, r.Err)
		}
	}
	push()
	server.Must("FLUSHALL")
	for range 3 {
		for _, q := range []string{"q", "r"} {
			if _, err := e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{q}, Max: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	push()
	if n := log.Count("store reset"); n != 1 {
		t.Errorf("the reset was told %d times, want once:\n%s", n, log)
	}
	st, err := e.Stats(context.Background(), duly.Q("q"))
	if err != nil || st.Sizes.Ready != 1 {
		t.Errorf("the queue holds %+v, %v", st.Sizes, err)
	}
}

// A queue that another process has destroyed is no reset.
func TestDestroyIsNoReset(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, log := openLogged(t, withPrefix(server.URL(), prefix))
	other := open(t, withPrefix(server.URL(), prefix))
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	must(t, other.Destroy(t.Context(), duly.Q("q")))
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(ds) != 0 || log.Count("store reset") != 0 {
		t.Errorf("after a destroy: %v, %v, log %q", ds, err, log)
	}
}

// A shard that has lost its configuration is told of and given it again.
func TestLostShardIsToldOf(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, log := openLogged(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 1}))
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}, {Queue: "q"}})
	must(t, err)
	server.Must("DEL", prefix+":{default/q/0}:config")
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 2})
	if err != nil || len(ds) != 1 || log.Count("store reset") != 1 {
		t.Errorf("took %d jobs, %v; log %q", len(ds), err, log)
	}
}

// A shard whose configuration is cut short, down to less than its version, is
// told of and given it again by whoever calls next; its jobs stay. And a queue
// with such a shard can be destroyed.
func TestConfigurationCutShortIsGivenAgain(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	push := func(e *redisengine.Engine, queue string) error {
		results, err := e.Push(t.Context(), []duly.Job{{Queue: queue}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	for n, short := range []string{"x", "1234567", "12345678", "zzzzzzzzzzzzzzz", strings.Repeat("\xff", 16), strings.Repeat("\xff", 40)} {
		e, log := openLogged(t, withPrefix(server.URL(), prefix))
		queue := fmt.Sprintf("q%d", n)
		key := prefix + ":{default/" + queue + "/0}:config"
		must(t, e.Configure(t.Context(), duly.Q(queue), duly.QueueConfig{MaxLeased: 1}))
		must(t, push(e, queue))
		whole := fmt.Sprint(server.Must("GET", key))

		server.Must("SET", key, short)
		must(t, push(e, queue))
		ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 2})
		if now := fmt.Sprint(server.Must("GET", key)); err != nil || len(ds) != 1 || now != whole || log.Count("cut short") != 1 {
			t.Errorf("%q: took %d jobs, %v; the shard has %q, want %q; log %q", short, len(ds), err, now, whole, log)
		}

		server.Must("SET", key, short)
		must(t, e.Destroy(t.Context(), duly.Q(queue)))
		if left := fmt.Sprint(server.Must("GET", key)); !strings.Contains(left, `"gone":true`) {
			t.Errorf("%q: a destroyed queue left the configuration %q", short, left)
		}
	}
}

// Whoever changes a configuration may die before the shard has it. Then pushes
// of those who know the old one succeed, and who waits with the new one tells
// the shard instead of sleeping on their jobs.
func TestWaiterTellsAShardThatIsBehind(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	url := withPrefix(server.URL(), prefix)
	old, changing := open(t, url), open(t, url)
	push := func(delay time.Duration) {
		_, err := old.Push(t.Context(), []duly.Job{{Queue: "q", Delay: delay}})
		must(t, err)
	}
	push(0)
	must(t, old.Delete(t.Context(), duly.Q("q"), onlyJob(t, old)))
	key := prefix + ":{default/q/0}:config"
	before := server.Must("GET", key)
	must(t, changing.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 7}))
	after := server.Must("GET", key)

	waiting := open(t, url)
	ended := make(chan bool, 1)
	go func() {
		ready, err := waiting.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: 20 * time.Second})
		ended <- ready && err == nil
	}()
	redistest.Await(t, "the engine waits", func() bool { return waiting.Waiters() == 1 })
	server.Must("SET", key, before)
	push(100 * time.Millisecond) // at its moment, who waits looks with the new configuration
	if !<-ended {
		t.Error("slept on a job that was ready")
	}
	if now := server.Must("GET", key); now != after {
		t.Errorf("the shard has %q, want %q", now, after)
	}
}

func onlyJob(t *testing.T, e *redisengine.Engine) string {
	page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
	must(t, err)
	if len(page.Jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(page.Jobs))
	}
	return page.Jobs[0].ID
}

// A queue that its namespace's list has lost is entered again as its shard
// knows it, by whoever pushes next.
func TestLostListIsHealed(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 7}))
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	server.Must("DEL", prefix+":{default}:configs", prefix+":{default}:queues")
	fresh, log := openLogged(t, withPrefix(server.URL(), prefix))
	_, err = fresh.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	for _, e := range []*redisengine.Engine{e, fresh} {
		c, err := e.Config(t.Context(), duly.Q("q"))
		st, err2 := e.Stats(t.Context(), duly.Q("q"))
		if err != nil || err2 != nil || c.MaxLeased != 7 || st.Sizes.Ready != 2 || log.Count("store reset") != 1 {
			t.Errorf("the queue is %+v, %v, %+v, %v; log %q", c, err, st.Sizes, err2, log)
		}
	}
}

// A process that finds its queue made anew by another one, after a reset, tells
// of the reset as well: it has gone on with an empty store.
func TestStoreResetIsToldByWhoFindsTheQueueMadeAnew(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	first, log := openLogged(t, server.URL())
	second, other := openLogged(t, server.URL())
	for _, e := range []*redisengine.Engine{first, second} {
		_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
		must(t, err)
	}
	server.Must("FLUSHALL")
	for _, e := range []*redisengine.Engine{first, second, second, first} {
		_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
		must(t, err)
	}
	if log.Count("store reset") != 1 || other.Count("store reset") != 1 {
		t.Errorf("the reset was told %d and %d times, want once by each:\n%s%s", log.Count("store reset"), other.Count("store reset"), log, other)
	}
}

// Who only waits finds a reset by its looks, and tells of it once, also while
// nobody makes the queue anew.
func TestStoreResetIsToldByWhoWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	waiting, log := openLogged(t, server.URL())
	must(t, waiting.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	ended := make(chan error, 1)
	go func() {
		ready, err := waiting.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
		if err == nil && !ready {
			err = errors.New("its time was over")
		}
		ended <- err
	}()
	redistest.Await(t, "the engine waits", func() bool {
		return strings.Contains(fmt.Sprint(server.Must("INFO", "clients")), "blocked_clients:1")
	})
	server.Must("FLUSHALL")
	redistest.Await(t, "the reset is told of", func() bool { return log.Count("store reset") > 0 })
	other := open(t, server.URL())
	_, err := other.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	must(t, <-ended)
	ds, err := waiting.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(ds) != 1 || log.Count("store reset") != 1 {
		t.Errorf("took %d jobs, %v; log %q", len(ds), err, log)
	}
}

// A shard that is called by many while it is told its first configuration has
// lost nothing, and one that was lost under many calls is told of once.
func TestLostShardIsToldOfOnceByManyCallers(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, log := openLogged(t, withPrefix(server.URL(), prefix))
	for round := range 20 {
		queue := fmt.Sprintf("q%d", round)
		var wg sync.WaitGroup
		call := func() {
			_, err := e.Push(context.Background(), []duly.Job{{Queue: queue}})
			_, err2 := e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{queue}, Max: 1})
			if err := errors.Join(err, err2); err != nil {
				t.Error(err)
			}
		}
		for range 10 {
			wg.Go(call)
		}
		wg.Wait()
		if n := log.Count("store reset"); n != round {
			t.Fatalf("%d resets were told of, and there were %d:\n%s", n, round, log)
		}
		server.Must("DEL", prefix+":{default/"+queue+"/0}:config")
		for range 10 {
			wg.Go(call)
		}
		wg.Wait()
		if n := log.Count("store reset"); n != round+1 {
			t.Fatalf("%d resets were told of, and there were %d:\n%s", n, round+1, log)
		}
	}
}

// A reset that nobody's call runs into is found by the sweep, and shows in what
// the engine tells of it.
func TestStoreResetIsFoundByTheSweep(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	first, log := openLogged(t, server.URL())
	swept, other := openLogged(t, server.URL()) // knows the namespaces from its sweep alone
	for _, namespace := range []string{"default", "shop"} {
		_, err := first.Push(t.Context(), []duly.Job{{Namespace: namespace, Queue: "q"}})
		must(t, err)
	}
	must(t, first.Sweep(t.Context()))
	must(t, swept.Sweep(t.Context()))
	if r := swept.LastReset(); !r.At.IsZero() {
		t.Errorf("a reset is told of, and there was none: %+v", r)
	}
	server.Must("FLUSHALL")
	for range 2 {
		must(t, first.Sweep(t.Context()))
		must(t, swept.Sweep(t.Context()))
	}
	if log.Count("store reset") != 2 || other.Count("store reset") != 2 {
		t.Errorf("two namespaces were lost, and the logs are\n%s%s", log, other)
	}
	want := []duly.QueueRef{{Namespace: "default"}, {Namespace: "shop"}}
	for _, e := range []*redisengine.Engine{first, swept} {
		if r := e.LastReset(); r.At.IsZero() || fmt.Sprint(r.Queues) != fmt.Sprint(want) || r.Tokens {
			t.Errorf("told of %+v", r)
		}
	}
}

// Whoever asks for the queues of a namespace that was lost finds that out: so
// does a server's /readyz.
func TestStoreResetIsFoundByWhoListsQueues(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, log := openLogged(t, server.URL())
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	server.Must("FLUSHALL")
	for range 2 {
		_, err = e.Queues(t.Context(), "", duly.PageParams{Limit: 1})
		must(t, err)
	}
	if log.Count("store reset") != 1 || e.LastReset().At.IsZero() {
		t.Errorf("told of %+v, log %s", e.LastReset(), log)
	}
}

// Whoever watches the tokens is told, loudly and once, that they are lost.
func TestLostTokensAreToldOf(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, log := openLogged(t, server.URL())
	must(t, e.PutToken(t.Context(), token("a")))
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan bool, 1000), make(chan error, 1)
	go func() { ended <- e.WatchTokens(ctx, func(hearing bool) { told <- hearing }) }()
	<-told
	if log.Count("store reset") != 0 {
		t.Errorf("told of a reset, and there was none:\n%s", log)
	}
	server.Must("FLUSHALL")
	<-told
	must(t, e.PutToken(t.Context(), token("b")))
	<-told
	if n := log.Count("store reset: the tokens"); n != 1 || !e.LastReset().Tokens {
		t.Errorf("told %d times, %+v:\n%s", n, e.LastReset(), log)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A marker that somebody has taken who was woken and left is no fault: it comes
// back before Check would call it one.
func TestCheckIsSilentAboutWhoWasWokenAndLeft(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	for queue, limits := range map[string]duly.QueueConfig{"q": {}, "limited": {MaxLeased: 1}, "slow": {Rate: duly.Rate{PerSecond: 1, Burst: 1}}} {
		must(t, e.Configure(t.Context(), duly.Q(queue), limits))
		woken := make(chan error, 1)
		go func() {
			_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{queue}, Timeout: time.Minute})
			woken <- err
		}()
		_, err := e.Push(t.Context(), []duly.Job{{Queue: queue}, {Queue: queue}, {Queue: queue, Delay: 50 * time.Millisecond}})
		must(t, err)
		must(t, <-woken)
	}
	report, err := e.Check(t.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 || report.Jobs != 9 {
		t.Errorf("the check finds %+v, %v", report, err)
	}
}
