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
	"github.com/dulymq/duly/redisengine/internal/store"
)

func openLogged(t *testing.T, url string) (*redisengine.Engine, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: log.Logger()})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e, log
}

// TestStoreResetIsLoggedOnce checks that a server which came back empty is logged once as an
// error, and that its queues work again (fault F10).
func TestStoreResetIsLoggedOnce(t *testing.T) {
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
		t.Errorf("the reset was logged %d times, want once:\n%s", n, log)
	}
	st, err := e.Stats(context.Background(), duly.Q("q"))
	if err != nil || st.Sizes.Ready != 1 {
		t.Errorf("the queue has the sizes %+v, %v", st.Sizes, err)
	}
}

// TestDestroyIsNotLoggedAsAReset checks that a process does not log a reset for a queue that another process
// has destroyed.
func TestDestroyIsNotLoggedAsAReset(t *testing.T) {
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

// TestDestroyedQueueIsNotRestored checks that an answer which a shard gave before the queue was
// destroyed does not bring the queue back, and is not a reset (C4.71).
func TestDestroyedQueueIsNotRestored(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	answer := ""
	late := redisengine.Sending(redisengine.Config{URL: withPrefix(server.URL(), prefix)},
		func(name, source string) string {
			if name == "peek" {
				return "#!lua flags=no-writes\nreturn {'config', '" + answer + "'}"
			}
			return source
		})
	e, err := redisengine.Open(t.Context(), late)
	must(t, err)
	defer e.Close()
	other := open(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 2}))
	stored := server.Must("GET", store.ShardTag(prefix, duly.Q("q"), 0)+"config").(string)
	for _, b := range []byte(stored) {
		answer += fmt.Sprintf(`\%03d`, b)
	}
	must(t, other.Destroy(t.Context(), duly.Q("q")))

	if _, err := e.Peek(t.Context(), duly.Q("q")); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("Peek returned %v", err)
	}
	page, err := other.Queues(t.Context(), "", duly.PageParams{})
	if err != nil || len(page.Names) > 0 {
		t.Errorf("after a destroy there are the queues %v, %v", page.Names, err)
	}
	if reset := e.LastReset(); len(reset.Queues) > 0 {
		t.Errorf("a destroy was taken for a reset: %+v", reset)
	}
}

// TestLostShardIsLogged checks that a shard which lost its configuration is logged and gets it
// again.
func TestLostShardIsLogged(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, log := openLogged(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 1}))
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}, {Queue: "q"}})
	must(t, err)
	server.Must("DEL", prefix+":{default/q/0}:config")
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 2})
	if err != nil || len(ds) != 1 || log.Count("store reset") != 1 {
		t.Errorf("reserved %d jobs, %v; log %q", len(ds), err, log)
	}
}

// TestCutConfigurationIsReplaced checks that a shard whose configuration is cut, even before the
// version, is logged and gets the configuration again by the next call. Its jobs stay. A queue with
// such a shard can be destroyed.
func TestCutConfigurationIsReplaced(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	push := func(e *redisengine.Engine, queue string) error {
		results, err := e.Push(t.Context(), []duly.Job{{Queue: queue}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	for n, short := range []string{"x", "1234567", "12345678", "zzzzzzzzzzzzzzz", strings.Repeat("\xff", 16),
		strings.Repeat("\xff", 40)} {
		e, log := openLogged(t, withPrefix(server.URL(), prefix))
		queue := fmt.Sprintf("q%d", n)
		key := prefix + ":{default/" + queue + "/0}:config"
		must(t, e.Configure(t.Context(), duly.Q(queue), duly.QueueConfig{MaxLeased: 1}))
		must(t, push(e, queue))
		whole := fmt.Sprint(server.Must("GET", key))

		server.Must("SET", key, short)
		must(t, push(e, queue))
		ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 2})
		if now := fmt.Sprint(server.Must("GET", key)); err != nil || len(ds) != 1 || now != whole ||
			log.Count("cut short") != 1 {
			t.Errorf("%q: reserved %d jobs, %v; the shard has %q, want %q; log %q", short, len(ds), err, now, whole, log)
		}

		server.Must("SET", key, short)
		must(t, e.Destroy(t.Context(), duly.Q(queue)))
		if left := fmt.Sprint(server.Must("GET", key)); !strings.Contains(left, `"gone":true`) {
			t.Errorf("%q: a destroyed queue left the configuration %q", short, left)
		}
	}
}

// TestWaiterUpdatesAStaleShard checks the case that a process dies after it changed a configuration
// in the list, but before it changed the shard. Pushes of processes with the old configuration
// succeed. A waiter with the new configuration updates the shard and finds the pushed jobs.
func TestWaiterUpdatesAStaleShard(t *testing.T) {
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
	// At the due time of this job the waiter looks with the new configuration.
	push(100 * time.Millisecond)
	if !<-ended {
		t.Error("the waiter slept although a job was ready")
	}
	if now := server.Must("GET", key); now != after {
		t.Errorf("the shard has %q, want %q", now, after)
	}
}

func onlyJob(t *testing.T, e *redisengine.Engine) string {
	page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
	must(t, err)
	if len(page.Jobs) != 1 {
		t.Fatalf("got %d jobs, want 1", len(page.Jobs))
	}
	return page.Jobs[0].ID
}

// TestLostListEntryIsRestored checks that the next push restores a queue in its namespace's list
// from its shard.
func TestLostListEntryIsRestored(t *testing.T) {
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

// TestConfigurationSentDuringAFlushIsNoSecondReset checks that a process logs a flush once if a shard
// gets a configuration after the flush, from a process that had read it before. The queue is
// restored from this shard.
func TestConfigurationSentDuringAFlushIsNoSecondReset(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, log := openLogged(t, server.URL())
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 7}))
	shard := store.ShardTag("duly", duly.Q("q"), 0) + "config"
	sent := server.Must("GET", shard).(string)
	server.Must("FLUSHALL")
	server.Must("SET", shard, sent)

	// The process finds the loss, and its next push creates the queue again.
	_, err := e.Config(t.Context(), duly.Q("q"))
	must(t, err)
	_, err = e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	c, err := e.Config(t.Context(), duly.Q("q"))
	if err != nil || c.MaxLeased != 7 || log.Count("store reset") != 1 || log.Count("added to its namespace's list") != 1 {
		t.Errorf("the queue is %+v, %v; want one reset and one restored queue in the log:\n%s", c, err, log)
	}

	// A later loss of the list's entry alone is another reset.
	server.Must("HDEL", "duly:{default}:configs", "q")
	fresh, freshLog := openLogged(t, server.URL())
	for _, e := range []*redisengine.Engine{fresh, e} {
		_, err = e.Push(t.Context(), []duly.Job{{Queue: "q"}})
		must(t, err)
	}
	if log.Count("store reset")+freshLog.Count("store reset") != 2 {
		t.Errorf("the second loss was not logged:\n%s%s", log, freshLog)
	}
}

// TestStoreResetIsLoggedAfterTheQueueWasCreatedAgain checks that a process logs a reset even if
// another one has already created the queue again, because it continues with an empty store.
func TestStoreResetIsLoggedAfterTheQueueWasCreatedAgain(t *testing.T) {
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
		t.Errorf("the reset was logged %d and %d times, want once by each:\n%s%s", log.Count("store reset"),
			other.Count("store reset"), log, other)
	}
}

// TestStoreResetIsLoggedByAWaitingProcess checks that a process which only waits detects a reset
// by its looks and logs it once, even if no process creates the queue again.
func TestStoreResetIsLoggedByAWaitingProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	waiting, log := openLogged(t, server.URL())
	must(t, waiting.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	ended := make(chan error, 1)
	go func() {
		ready, err := waiting.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
		if err == nil && !ready {
			err = errors.New("the wait timed out")
		}
		ended <- err
	}()
	redistest.Await(t, "the engine waits", func() bool {
		return strings.Contains(fmt.Sprint(server.Must("INFO", "clients")), "blocked_clients:1")
	})
	server.Must("FLUSHALL")
	redistest.Await(t, "the reset is logged", func() bool { return log.Count("store reset") > 0 })
	other := open(t, server.URL())
	_, err := other.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	must(t, <-ended)
	ds, err := waiting.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(ds) != 1 || log.Count("store reset") != 1 {
		t.Errorf("reserved %d jobs, %v; log %q", len(ds), err, log)
	}
}

// TestLostShardIsLoggedOnceByConcurrentCallers checks that concurrent calls during a shard's
// first configuration log no loss, and that a loss during concurrent calls is logged once.
func TestLostShardIsLoggedOnceByConcurrentCallers(t *testing.T) {
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
			t.Fatalf("%d resets were logged, but there were %d:\n%s", n, round, log)
		}
		server.Must("DEL", prefix+":{default/"+queue+"/0}:config")
		for range 10 {
			wg.Go(call)
		}
		wg.Wait()
		if n := log.Count("store reset"); n != round+1 {
			t.Fatalf("%d resets were logged, but there were %d:\n%s", n, round+1, log)
		}
	}
}

// TestStoreResetIsFoundByTheSweep checks that the sweep detects a reset without other calls, and
// that LastReset returns it.
func TestStoreResetIsFoundByTheSweep(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	first, log := openLogged(t, server.URL())
	// The engine swept knows the namespaces only from its sweep.
	swept, other := openLogged(t, server.URL())
	for _, namespace := range []string{"default", "shop"} {
		_, err := first.Push(t.Context(), []duly.Job{{Namespace: namespace, Queue: "q"}})
		must(t, err)
	}
	must(t, first.Sweep(t.Context()))
	must(t, swept.Sweep(t.Context()))
	if r := swept.LastReset(); !r.At.IsZero() {
		t.Errorf("LastReset returned %+v without a reset", r)
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
			t.Errorf("LastReset returned %+v", r)
		}
	}
}

// TestStoreResetIsFoundByListingQueues checks that listing the queues of a lost namespace detects
// the reset, as /readyz of a server does.
func TestStoreResetIsFoundByListingQueues(t *testing.T) {
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
		t.Errorf("LastReset returned %+v, log %s", e.LastReset(), log)
	}
}

// TestLostTokensAreLogged checks that lost tokens are logged once as an error by a process that
// watches tokens.
func TestLostTokensAreLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, log := openLogged(t, server.URL())
	must(t, e.PutToken(t.Context(), token("a")))
	ctx, cancel := context.WithCancel(t.Context())
	reports, ended := make(chan bool, 1000), make(chan error, 1)
	go func() { ended <- e.WatchTokens(ctx, func(hearing bool) { reports <- hearing }) }()
	<-reports
	if log.Count("store reset") != 0 {
		t.Errorf("logged a reset without one:\n%s", log)
	}
	server.Must("FLUSHALL")
	<-reports
	must(t, e.PutToken(t.Context(), token("b")))
	<-reports
	if n := log.Count("store reset: the tokens"); n != 1 || !e.LastReset().Tokens {
		t.Errorf("the reset was logged %d times, %+v:\n%s", n, e.LastReset(), log)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCheckIgnoresAMarkerOfACanceledWaiter checks that Check reports no fault for a marker that was
// taken for a woken waiter that left. The marker is set again before Check would report it as
// missing.
func TestCheckIgnoresAMarkerOfACanceledWaiter(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	for queue, limits := range map[string]duly.QueueConfig{"q": {}, "limited": {MaxLeased: 1},
		"slow": {Rate: duly.Rate{PerSecond: 1, Burst: 1}}} {
		must(t, e.Configure(t.Context(), duly.Q(queue), limits))
		woken := make(chan error, 1)
		go func() {
			_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{queue}, Timeout: time.Minute})
			woken <- err
		}()
		_, err := e.Push(t.Context(), []duly.Job{{Queue: queue}, {Queue: queue},
			{Queue: queue, Delay: 50 * time.Millisecond}})
		must(t, err)
		must(t, <-woken)
	}
	report, err := e.Check(t.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 || report.Jobs != 9 {
		t.Errorf("Check found %+v, %v", report, err)
	}
}
