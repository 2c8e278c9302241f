package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// together queues calls in the given order for the writer, so that one transaction runs all of
// them.
func together(t *testing.T, e *Engine, calls ...func()) {
	t.Helper()
	letGo := held(t, e)
	var all sync.WaitGroup
	for _, call := range calls {
		before := waiting(e)
		all.Go(call)
		for waiting(e) == before {
			runtime.Gosched()
		}
	}
	letGo()
	all.Wait()
}

func balanced(t *testing.T, e *Engine) duly.Stats {
	t.Helper()
	if report, err := e.Check(t.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		t.Errorf("the check finds %+v, %v", report.Faults, err)
	}
	s, err := e.Stats(t.Context(), duly.Q("q"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pushAll(t *testing.T, e *Engine, jobs ...duly.Job) {
	t.Helper()
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	results, err := e.Push(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil || r.Status != duly.Created {
			t.Fatalf("the push is %+v", r)
		}
	}
}

// reserver is a Reserve call.
type reserver struct {
	p   duly.ReserveParams
	ctx context.Context
	got []string
	err error
}

func (r *reserver) run(e *Engine) func() {
	return func() {
		var ds []duly.Delivery
		ds, r.err = e.Reserve(r.ctx, r.p)
		for _, d := range ds {
			r.got = append(r.got, d.ID)
		}
	}
}

func reservers(t *testing.T, max ...int) (rs []*reserver) {
	for _, n := range max {
		rs = append(rs, &reserver{p: duly.ReserveParams{Queues: []string{"q"}, Max: n}, ctx: t.Context()})
	}
	return rs
}

// reserveTogether returns the jobs of each caller.
func reserveTogether(t *testing.T, e *Engine, rs []*reserver) (got string) {
	t.Helper()
	var calls []func()
	for _, r := range rs {
		calls = append(calls, r.run(e))
	}
	together(t, e, calls...)
	for _, r := range rs {
		if r.err != nil {
			t.Errorf("a reserve ended with %v", r.err)
		}
		got += fmt.Sprint(r.got)
	}
	return got
}

func sameGot(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the callers have got %s, want %s", got, want)
	}
}

func fixed(ids ...string) (jobs []duly.Job) {
	for _, id := range ids {
		jobs = append(jobs, duly.Job{ID: id})
	}
	return jobs
}

// Reserves that share a transaction get the jobs in the order of the calls, each up to its own
// limit and with its own lease.
func TestReservesInOneTransactionAreServedInOrder(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	pushAll(t, e, fixed("a", "b", "c", "d", "e", "f")...)
	rs := reservers(t, 1, 3, 1, 10, 2)
	rs[1].p.Lease, rs[2].p.Lease = time.Hour, time.Minute
	sameGot(t, reserveTogether(t, e, rs), "[a][b c d][e][f][]")
	if s := balanced(t, e); s.Sizes.Leased != 6 || s.Counters.Delivered != 6 {
		t.Errorf("the stats are %+v", s)
	}
	for id, lease := range map[string]time.Duration{"a": duly.DefaultLease, "c": time.Hour, "e": time.Minute} {
		info, err := e.Get(t.Context(), duly.Q("q"), id)
		if left := time.Until(info.LeaseEnd); err != nil || left > lease+time.Second || left < lease-time.Minute {
			t.Errorf("the lease of %s ends in %s, want %s, %v", id, left, lease, err)
		}
	}
}

// Callers with several queues each get the jobs of common queues in the order of the calls.
func TestConcurrentReservesShareCommonQueues(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	for _, q := range []string{"high", "low"} {
		for i := range 3 {
			if _, err := e.Push(t.Context(), []duly.Job{{ID: fmt.Sprint(q, i), Queue: q}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rs := reservers(t, 2, 1, 2, 2, 1)
	rs[0].p.Queues, rs[1].p.Queues, rs[2].p.Queues = []string{"high", "low"}, []string{"low"}, []string{"high", "low"}
	rs[3].p.Queues, rs[4].p.Queues = []string{"none", "low", "high"}, []string{"low", "high"}
	sameGot(t, reserveTogether(t, e, rs), "[high0 high1][low0][high2 low1][low2][]")
	balanced(t, e)
}

// max_leased and the rate limit all callers of a transaction together.
func TestReservesInOneTransactionShareTheLimits(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]duly.QueueConfig{
		"max leased": {MaxLeased: 2},
		"rate":       {Rate: duly.Rate{PerSecond: 0.001, Burst: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openNew(t)
			if err := e.Configure(t.Context(), duly.Q("q"), cfg); err != nil {
				t.Fatal(err)
			}

			pushAll(t, e, fixed("a", "b", "c", "d")...)
			sameGot(t, reserveTogether(t, e, reservers(t, 1, 5, 1)), "[a][b][]")
			if s := balanced(t, e); s.Sizes.Leased != 2 || s.Sizes.Ready != 2 {
				t.Errorf("the stats are %+v", s)
			}
		})
	}
}

// An order key has at most one leased job, although several Reserves share a transaction. C4.16: a
// caller that has left gets nothing, and its jobs go to the next caller.
func TestReservesInOneTransactionKeepOrderKeysAndSkipLeftCallers(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	pushAll(t, e, duly.Job{ID: "a1", OrderKey: "a"}, duly.Job{ID: "a2", OrderKey: "a"},
		duly.Job{ID: "b1", OrderKey: "b"}, duly.Job{ID: "c"})
	rs := reservers(t, 1, 1, 5, 1)
	var leave context.CancelFunc
	rs[1].ctx, leave = context.WithCancel(t.Context())
	gone := make(chan struct{})
	calls := []func(){rs[0].run(e), func() { rs[1].run(e)(); close(gone) }, rs[2].run(e),
		func() { leave(); <-gone; rs[3].run(e)() }}
	together(t, e, calls...)
	if !errors.Is(rs[1].err, context.Canceled) {
		t.Errorf("the Reserve of the caller that left returned %v", rs[1].err)
	}
	sameGot(t, fmt.Sprint(rs[0].got, rs[1].got, rs[2].got, rs[3].got), "[a1] [] [b1 c] []")
	if s := balanced(t, e); s.Sizes.Leased != 3 || s.Sizes.Blocked != 1 || s.Counters.Delivered != 3 {
		t.Errorf("the stats are %+v", s)
	}
}

// C4.14: a call returns at most 8 MiB of bodies. The next caller in the transaction gets up to 8 MiB
// of the rest.
func TestReservesInOneTransactionHaveSeparateByteLimits(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		pushAll(t, e, duly.Job{ID: id, Body: make([]byte, duly.DefaultMaxBody)})
	}
	fit := duly.MaxBatchBytes / duly.DefaultMaxBody
	if fit > 3 {
		for i := range 2*fit - 4 {
			pushAll(t, e, duly.Job{ID: fmt.Sprint(i), Body: make([]byte, duly.DefaultMaxBody)})
		}
	}
	rs := reservers(t, 100, 100, 100)
	reserveTogether(t, e, rs)
	if len(rs[0].got) != fit || len(rs[1].got) != fit || len(rs[2].got) != 0 {
		t.Errorf("the callers have got %d, %d, %d jobs, want %d, %d, 0", len(rs[0].got), len(rs[1].got),
			len(rs[2].got), fit, fit)
	}
	balanced(t, e)
}

// Reserves that share a transaction skip an unreadable row, and get the jobs after it.
func TestReservesInOneTransactionSkipUnreadableRow(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	pushAll(t, e, fixed("a", "b", "c")...)
	if err := e.change(t.Context(), func(t *tx) error {
		return t.Exec("UPDATE jobs SET rules = x'ffffffffffff7f' WHERE number = (SELECT number FROM aliases WHERE id = 'a')")
	}); err != nil {
		t.Fatal(err)
	}
	sameGot(t, reserveTogether(t, e, reservers(t, 1, 1, 1)), "[b][c][]")
}

// Deletes that share a transaction return a separate result to each caller.
func TestDeletesInOneTransactionHaveSeparateResults(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	var jobs []duly.Job
	for range 9 {
		jobs = append(jobs, duly.Job{ID: duly.NewNumber().String(), Made: true})
	}

	// has rules and only its row
	jobs[1].Tries, jobs[1].TTL, jobs[1].Headers = 3, time.Hour, map[string]string{"a": "b"}
	// deleting the first unblocks the second
	jobs[2].OrderKey, jobs[3].OrderKey = "k", "k"
	jobs[4].Merge = duly.Merge{Key: "m", Until: duly.UntilDone}
	jobs[5].Body = make([]byte, 2*inlineBody)
	jobs[6].Retain = time.Hour
	jobs[7].Delay = time.Hour // this job is not leased
	pushAll(t, e, jobs...)
	if got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100}); err != nil ||
		len(got) != 7 {
		t.Fatalf("%d deliveries, %v", len(got), err)
	}

	ids := []string{jobs[8].ID, jobs[0].ID, jobs[0].ID, jobs[1].ID, jobs[2].ID, jobs[4].ID, jobs[5].ID, jobs[6].ID,
		jobs[7].ID, duly.NewNumber().String(), "no-number"}
	errs := make([]error, len(ids))
	var calls []func()
	for i, id := range ids {
		calls = append(calls, func() { errs[i] = e.Delete(context.Background(), duly.Q("q"), id) })
	}

	together(t, e, calls...)
	for i, err := range errs {
		missing := i == 2 || i >= 9
		if missing != errors.Is(err, duly.ErrNotFound) || !missing && err != nil {
			t.Errorf("delete %d was answered %v", i, err)
		}
	}

	s := balanced(t, e)
	if s.Sizes != (duly.Sizes{Ready: 1}) || s.Counters.Deleted != 8 {
		t.Errorf("the stats are %+v", s)
	}
	if info, err := e.Get(t.Context(), duly.Q("q"), jobs[3].ID); err != nil || info.State != duly.StateReady {
		t.Errorf("the next of the order key is %+v, %v", info, err)
	}
}

// C2.2, C4.8: pushes that share a statement store the same jobs as single pushes, also for jobs with
// settings of their own.
func TestPushesInOneStatementStoreTheSameAsSinglePushes(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	twice := duly.NewNumber().String()
	jobs := []duly.Job{
		{TTL: time.Hour, Tries: 1, MaxStalls: duly.None, Backoff: duly.Fixed(0)},
		{Priority: 7, Headers: map[string]string{"a": "b"}},
		{Priority: -7, Delay: time.Hour, TTL: 2 * time.Hour},
		{ID: twice, Priority: 9},
		{ID: twice, Priority: 9}, // the shared statement fails, and then each job is pushed alone
		{},
	}

	outcomes := make([]duly.PushResult, len(jobs))
	var calls []func()
	for i, j := range jobs {
		if j.Queue = "q"; j.ID == "" {
			j.ID = duly.NewNumber().String()
		}
		j.Made, jobs[i].ID = true, j.ID
		calls = append(calls, func() {
			r, err := e.Push(context.Background(), []duly.Job{j})
			if err != nil {
				t.Error(err)
				return
			}
			outcomes[i] = r[0]
		})
	}

	together(t, e, calls...)
	for i, r := range outcomes {
		want := duly.Created
		if i == 4 {
			want = duly.Exists
		}
		if r.Err != nil || r.Status != want || r.ID != jobs[i].ID {
			t.Errorf("push %d was answered %+v", i, r)
		}
	}

	if s := balanced(t, e); s.Sizes != (duly.Sizes{Ready: 4, Delayed: 1}) || s.Counters.Pushed != 5 {
		t.Errorf("the stats are %+v", s)
	}

	sameIDs(t, ids(t, e), twice, jobs[1].ID, jobs[0].ID, jobs[5].ID)
	info, err := e.Get(t.Context(), duly.Q("q"), jobs[0].ID)
	if err != nil || info.Tries != 1 || info.MaxStalls != duly.None || info.Backoff != duly.Fixed(0) ||
		info.ExpiresAt.IsZero() {
		t.Errorf("the job is %+v, %v", info, err)
	}
}

// Jobs that share an INSERT statement are stored like jobs that are pushed alone.
func TestSharedPushEqualsSinglePushes(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	var ids []string
	for range 9 {
		ids = append(ids, duly.NewNumber().String())
	}
	jobs := []duly.Job{
		{}, {Body: []byte("body")}, {Body: make([]byte, inlineBody)}, {Priority: -7}, {Delay: time.Minute},
		{TTL: time.Hour}, {Delay: time.Minute, TTL: time.Hour, Priority: 1000}, {Tries: 1, Retain: time.Hour},
		{Headers: map[string]string{"a": "b"}, MaxStalls: duly.None, Backoff: duly.Fixed(0), Lease: time.Second},
	}
	for i := range jobs {
		jobs[i].Queue, jobs[i].ID, jobs[i].Made = "q", ids[i], true
	}

	push := func(shared bool) (rows string) {
		e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true,
			Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()

		err = e.change(t.Context(), func(tx *tx) error {
			q, err := tx.makeQueue(duly.Q("q").Normal(), contract.DefaultQueueConfig())
			q.aliased = !shared // jobs of a queue with aliases are pushed alone
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		results, err := e.Push(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}

		return fmt.Sprint(results, storedRows(t, e), balanced(t, e))
	}
	if shared, single := push(true), push(false); shared != single {
		t.Errorf("stored together:\n%s\nstored alone:\n%s", shared, single)
	}
}

// storedRows returns the tables that a push writes.
func storedRows(t *testing.T, e *Engine) (rows string) {
	t.Helper()
	err := e.read(t.Context(), func(c *conn) (err error) {
		for _, sql := range []string{
			`SELECT group_concat(concat_ws(',', hex(number), state, place, due, pushed, ended, hex(rules), hex(body)), ' ') FROM jobs`,
			`SELECT group_concat(concat_ws(',', hex(number), moment), ' ') FROM expiries`,
		} {
			text, queryErr := c.Query(sql)
			rows, err = rows+text+"\n", errors.Join(err, queryErr)
		}
		return err
	})
	if err != nil || len(rows) < 100 {
		t.Fatalf("the rows are %q, %v", rows, err)
	}
	return rows
}

// failsOnce returns the last operation of a joint transaction, which fails the transaction. The
// operations then run again, each in a separate transaction.
func failsOnce(t *testing.T, e *Engine) func() {
	runs := 0
	return func() {
		err := e.write(t.Context(), &op{Call: items(1), kind: opReserve, run: func(*tx) error {
			if runs++; runs == 1 {
				return errors.New("the joint transaction fails")
			}
			return nil
		}})
		if err != nil || runs != 2 {
			t.Errorf("it ran %d times, %v", runs, err)
		}
	}
}

// C11.24: a Purge and a Reserve whose joint transaction fails run twice. They count once and
// return what they would have returned the first time.
func TestPurgeAndReserveThatRunTwiceCountOnce(t *testing.T) {
	t.Parallel()
	for _, most := range []int{3, 0} {
		e := openNew(t)
		pushAll(t, e, fixed("a", "b", "c", "d", "e", "f", "g")...)
		purged, rs := 0, reservers(t, 2, 1)
		together(t, e, func() {
			var err error
			if purged, err = e.Purge(t.Context(), duly.Q("q"), duly.StateReady, most); err != nil {
				t.Error(err)
			}
		}, rs[0].run(e), rs[1].run(e), failsOnce(t, e))

		want, got := 3, "[d e][f]"
		if most == 0 {
			want, got = 7, "[][]"
		}
		sameGot(t, fmt.Sprint(rs[0].got)+fmt.Sprint(rs[1].got), got)
		s := balanced(t, e)
		leased := int64(len(rs[0].got) + len(rs[1].got))
		if purged != want || s.Counters.Deleted != int64(want) || s.Counters.Delivered != leased ||
			s.Sizes.Leased != leased {
			t.Errorf("a purge of %d has removed %d, want %d; the stats are %+v", most, purged, want, s)
		}
	}
}
