package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
)

// held keeps the writer busy until the returned function is called. One transaction then runs all
// operations that were submitted before.
func held(t *testing.T, e *Engine) (letGo func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go e.change(context.Background(), func(*tx) error {
		once.Do(func() { close(busy) })
		<-free
		return nil
	})
	<-busy
	return func() { close(free) }
}

// pushed returns an operation that pushes one job and then returns an error.
func pushed(id string, err error) func(*tx) error {
	return func(t *tx) error {
		q, bad := t.makeQueue(duly.Q("q"), contract.DefaultQueueConfig())
		if bad != nil {
			return bad
		}
		p, bad := contract.PlanJob(duly.Job{ID: id, Queue: "q"}, &q.cfg, t.time, 0)
		if bad != nil {
			return bad
		}
		q.counters.Pushed++
		if bad := (&job{Planned: p, q: q, number: duly.NewNumber(), hasBody: true}).enter(t); bad != nil {
			return bad
		}
		return err
	}
}

// ids returns the ready jobs of the test's queue.
func ids(t *testing.T, e *Engine) (ids []string) {
	t.Helper()
	page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func sameIDs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the ready jobs are %v, want %v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("the ready jobs are %v, want %v", got, want)
			return
		}
	}
}

// C11.24, C4.4: a failing operation fails alone and stores nothing.
func TestOneBadOperationFailsAlone(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, run := range map[string]struct {
		run  func(*tx) error
		code duly.Code
	}{
		"an error after a change": {pushed("bad", broken), duly.CodeUnavailable},
		"a constraint": {func(t *tx) error { return t.Exec("INSERT INTO jobs VALUES (1,1,1,1,1,1,1,1,1,1,1,1,1)") },
			duly.CodeInternal},
		"a panic": {func(t *tx) error { pushed("bad", nil)(t); panic("at the disco") },
			duly.CodeInternal},
		"a panic in what several share": {func(t *tx) error {
			t.deletes = append(t.deletes,
				&deleteCall{})
			return nil
		}, duly.CodeInternal},
		"a refusal": {func(t *tx) error { return contract.NotFound(duly.Q("q"), "x") },
			duly.CodeNotFound},
	} {
		e := openNew(t)
		letGo := held(t, e)
		var errs [3]error
		var wg sync.WaitGroup

		for i, o := range []func(*tx) error{pushed("a", nil), run.run, pushed("b", nil)} {
			o, before := o, waiting(e)
			wg.Go(func() { errs[i] = e.change(context.Background(), o) })
			for waiting(e) == before { // waits until the call is queued, to keep the order of the calls
				runtime.Gosched()
			}
		}

		letGo()
		wg.Wait()
		if errs[0] != nil || errs[2] != nil || duly.CodeOf(errs[1]) != run.code {
			t.Errorf("%s: answered %v", name, errs)
		}

		sameIDs(t, ids(t, e), "a", "b")
		stats, err := e.Stats(t.Context(), duly.Q("q"))
		if err != nil || stats.Counters.Pushed != 2 || stats.Sizes.Ready != 2 {
			t.Errorf("%s: stats are %+v, %v", name, stats, err)
		}
		if report, err := e.Check(t.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
			t.Errorf("%s: the check finds %v, %v", name, report.Faults, err)
		}

		e.Close()
	}
}

// waiting returns the number of operations that wait for the writer.
func waiting(e *Engine) int {
	return e.inbox.Len()
}

// C11.23: operations that gather during a transaction share the next transaction.
func TestWaitingOperationsShareACommit(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	letGo := held(t, e)
	var mu sync.Mutex
	commits := map[*conn]int{}
	var wg sync.WaitGroup

	for range 50 {
		before := waiting(e)
		wg.Go(func() {
			if err := e.change(context.Background(), func(t *tx) error {
				mu.Lock()
				defer mu.Unlock()
				commits[t.conn]++
				if n := len(t.touched); n > 0 && t.queue(duly.Q("q")) != t.touched[0] {
					return errors.New("another copy of the queue")
				}
				return pushed(duly.NewNumber().String(), nil)(t)
			}); err != nil {
				t.Error(err)
			}
		})
		for waiting(e) == before {
			runtime.Gosched()
		}
	}

	frames := e.w.walPages
	letGo()
	wg.Wait()
	n := 0
	if err := e.change(t.Context(), func(*tx) error { n = e.w.walPages - frames; return nil }); err != nil {
		t.Fatal(err)
	}
	if n > 50 { // alone, each operation writes ten pages or more
		t.Errorf("50 operations have written %d pages", n)
	}
}

// C4.2: an operation whose caller left before it started does not run.
func TestAbandonedOperationDoesNotRun(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	letGo := held(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := e.Push(ctx, []duly.Job{{ID: "x", Queue: "q"}})
		done <- err
	}()

	for waiting(e) == 0 {
		runtime.Gosched()
	}

	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("answered %v", err)
	}

	letGo()
	if err := e.change(t.Context(), pushed("y", nil)); err != nil {
		t.Fatal(err)
	}
	sameIDs(t, ids(t, e), "y")
}

// C4.16: jobs leased for a caller that has left are released.
func TestAbandonedReserveIsReleased(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	if _, err := e.Push(t.Context(), []duly.Job{{ID: "x", Queue: "q"}}); err != nil {
		t.Fatal(err)
	}

	r := &reserveCall{p: duly.ReserveParams{Namespace: "default", Queues: []string{"q"}, Max: 1}}
	o := &op{Call: items(1), abandoned: func() { e.releaseAbandoned("default", r.deliveries) }}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})

	o.run = func(tx *tx) error {
		defer func() {
			leave()
			<-left
		}()
		return r.run(tx)
	}

	if err := e.write(ctx, o); duly.CodeOf(err) != duly.CodeUnavailable {
		t.Errorf("a caller that left while its call ran got %v", err)
	}

	close(left)
	for range 2 { // the second call runs after the release
		if err := e.change(t.Context(), func(*tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}

	info, err := e.Get(t.Context(), duly.Q("q"), "x")
	if err != nil || info.State != duly.StateReady || info.Failures+info.Stalls != 0 {
		t.Errorf("the job is %+v, %v", info, err)
	}

	stats, err := e.Stats(t.Context(), duly.Q("q"))
	if err != nil || stats.Counters.Delivered != 1 || stats.Counters.Released != 1 {
		t.Errorf("the counters are %+v, %v", stats.Counters, err)
	}
}

// C13.13: operations submitted before Close run. Later operations are refused.
func TestCloseRunsSubmittedOperations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	e := mustOpen(t, path)
	letGo := held(t, e)
	pushes, waits := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Push(context.Background(), []duly.Job{{ID: "x", Queue: "q"}})
		pushes <- err
	}()

	go func() {
		_, err := e.Wait(context.Background(), duly.WaitParams{Queues: []string{"other"}, Timeout: time.Minute})
		waits <- err
	}()

	for waiting(e) == 0 {
		runtime.Gosched()
	}

	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- e.Close() }()
	}

	letGo()
	if err := errors.Join(<-closed, <-closed, <-pushes); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, duly.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}

	for name, err := range map[string]error{
		"push":    second(e.Push(t.Context(), []duly.Job{{Queue: "q"}})),
		"reserve": second(e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})),
		"get":     second(e.Get(t.Context(), duly.Q("q"), "x")),
		"wait":    second(e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}})),
	} {
		if !errors.Is(err, duly.ErrClosed) {
			t.Errorf("%s after Close answers %v", name, err)
		}
	}

	sameIDs(t, ids(t, mustOpen(t, path)), "x")
}

func second[T any](_ T, err error) error { return err }

// C4.71: the rows of a destroyed queue are deleted gradually, and a new queue with the same name
// has none of these rows.
func TestDestroyedQueueIsDeletedGradually(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	for range 3 {
		js := make([]duly.Job, 1000)
		for i := range js {
			js[i] = duly.Job{Queue: "q", Body: make([]byte, i), TTL: time.Hour, OrderKey: "k",
				Merge: duly.Merge{Key: duly.NewNumber().String()}}
		}
		if _, err := e.Push(ctx, js); err != nil {
			t.Fatal(err)
		}
	}

	replace := duly.Job{Queue: "q", Priority: 1, Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace}}
	if _, err := e.Push(ctx, []duly.Job{replace}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil {
		t.Fatal(err)
	}
	if n := ask(t, e, "SELECT count(*) FROM replaceable"); n != "1" {
		t.Fatalf("%s running jobs are replaceable, want 1", n)
	}

	if err := e.Destroy(ctx, duly.Q("q")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Push(ctx, []duly.Job{{ID: "x", Queue: "q"}}); err != nil {
		t.Fatal(err)
	}

	for _, table := range []string{"graves", "bodies", "aliases", "heads", "merges", "replaceable", "expiries",
		"jobs"} {
		want := map[string]string{"jobs": "1", "aliases": "1"}[table]
		if want == "" {
			want = "0"
		}
		got := ""
		for range 100 { // each transaction allows a slice of maintenance
			if got = ask(t, e, "SELECT count(*) FROM "+table); got == want {
				break
			}
		}
		if got != want {
			t.Errorf("%s has %s rows left, want %s", table, got, want)
		}
	}
}

// C11.30: disk space is returned after a backlog.
func TestFreedSpaceIsReturned(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test waits for the size of a file")
	}
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	for range 20 {
		js := make([]duly.Job, 1000)
		for i := range js {
			js[i] = duly.Job{Queue: "q", Body: make([]byte, 1000)}
		}
		if _, err := e.Push(ctx, js); err != nil {
			t.Fatal(err)
		}
	}

	pages := func() int {
		n, err := strconv.Atoi(ask(t, e, "PRAGMA page_count"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	full := pages()
	if n, err := e.Purge(ctx, duly.Q("q"), duly.StateReady, 0); err != nil || n != 20_000 {
		t.Fatalf("%d purged, %v", n, err)
	}
	eventually.True(t, fmt.Sprintf("of %d pages less than a fifth are left", full),
		func() bool { return pages() < full/5 })
}

// C11.30: disk space is also returned after a purge that is too small for a checkpoint.
func TestSmallPurgeReturnsSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test waits for the size of a file")
	}
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	js := make([]duly.Job, 1000)
	for i := range js {
		js[i] = duly.Job{Queue: "q", Body: make([]byte, 7000)}
	}
	if _, err := e.Push(ctx, js); err != nil {
		t.Fatal(err)
	}
	if err := e.change(ctx, longLog); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the checkpoint", func() bool { return pagesLogged(t, e) == 0 })

	free := func() string { return ask(t, e, "PRAGMA freelist_count") }
	if n, err := e.Purge(ctx, duly.Q("q"), duly.StateReady, 0); err != nil || n != len(js) {
		t.Fatalf("%d purged, %v", n, err)
	}
	if n := pagesLogged(t, e); n >= checkpointPages {
		t.Fatalf("the purge wrote %d pages, which causes a checkpoint", n)
	}
	eventually.True(t, "few free pages are left", func() bool {
		n, err := strconv.Atoi(free())
		return err == nil && n <= keptFreePages
	})
}

// C4.74: the engine takes back a run-out lease without a call, and no timer runs when nothing is
// pending.
func TestEngineTakesBackLeases(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	ctx := t.Context()
	if _, err := e.Push(ctx, []duly.Job{{ID: "x", Queue: "q", Lease: time.Minute},
		{ID: "later", Queue: "q", Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if n := c.Timers(); n != 0 {
		t.Errorf("%d timers run although nobody waits and nothing is leased", n)
	}

	state := func() duly.State {
		// Returns after the timer's operation has run.
		if err := e.change(ctx, func(*tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		info, err := e.Get(ctx, duly.Q("q"), "x")
		if err != nil {
			t.Fatal(err)
		}
		return info.State
	}

	for _, pass := range []func(){
		func() { c.Advance(time.Minute) },
		// The timer notices a wall clock that is set forward.
		func() { c.Step(time.Hour); c.Advance(2 * time.Second) },
	} {
		if _, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil {
			t.Fatal(err)
		}
		waitAndLeave(t, e)
		c.Advance(59*time.Second + 999*time.Millisecond - 2*time.Second)
		if s := state(); s != duly.StateLeased {
			t.Errorf("the job is %s before its lease has ended", s)
		}
		pass()
		c.Advance(2 * time.Second)
		if s := state(); s != duly.StateReady {
			t.Errorf("the job is %s after its lease has ended", s)
		}
	}

	c.Advance(longestSleep)
	if n := c.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

// waitAndLeave calls Wait and cancels its context.
func waitAndLeave(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
		done <- err
	}()

	waits := func() bool {
		e.notifier.mu.Lock()
		defer e.notifier.mu.Unlock()
		return e.notifier.waiters.Waiting(waitKey{ref: duly.Q("q").Normal()}) > 0
	}

	for !waits() {
		runtime.Gosched()
	}

	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the wait ended with %v", err)
	}
}
