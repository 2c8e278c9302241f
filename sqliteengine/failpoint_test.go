package sqliteengine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Every named statement is a fail point: on the writer's connection, the test replaces the
// statement with one that panics. So production code needs no hooks.

// notToured lists the named statements without a fail point, by the beginning of
// their names, with the reason.
var notToured = map[string]string{
	"backup":              "its own connection",
	"check_":              "a check's own transaction",
	"recount":             "a check's own transaction",
	"stray_":              "a check's own transaction",
	"expiry_has":          "a check's own transaction",
	"alias_clear":         "a check's repair",
	"job_quarantine":      "a repair of a damaged row",
	"file_check":          "opening",
	"queues_load":         "opening",
	"limiter_find":        "opening and readers",
	"limiter_has":         "a check's own transaction",
	"begin_read":          "readers",
	"list_":               "readers",
	"queue_find":          "readers",
	"queues_with":         "readers",
	"queue_names":         "readers",
	"queue_page":          "readers",
	"namespace_names":     "readers",
	"ready_from":          "readers",
	"next_due":            "readers",
	"due_count":           "readers",
	"body_size":           "readers",
	"token_find":          "readers",
	"token_list":          "readers",
	"placement_find":      "readers",
	"placement_list":      "readers",
	"target_list":         "readers",
	"push_queues":         "readers",
	"run_out_count":       "readers",
	"expired_ready_count": "readers",
	"due_after":           "a poll without a caller",
	"lease_end_after":     "a poll without a caller",
	"expiry_after":        "a poll without a caller",
	"remains_":            "maintenance without a caller",
	"grave_drop":          "maintenance without a caller",
	"grave_next":          "maintenance without a caller",
	"vacuum_s":            "maintenance without a caller",
	"queue_moments":       "opening",
	"done_first":          "a bound of 100 000 done jobs",
	"delete_":             "Deletes that share a statement",
	"placement_change":    "as placement_make",
	"expiry_add_many":     "as push_many",
	"due_other":           "a clock that was set back",
	"void_receipts":       "a restore",
	"topics_load":         "opening",
	"groups_load":         "opening",
	"topic_find":          "readers",
	"topic_id":            "readers",
	"topic_names":         "readers",
	"group_find":          "readers",
	"group_names":         "readers",
	"blocked_places":      "readers",
	"blocked_from":        "readers",
	"blocked_before":      "readers",
	"ready_before":        "readers",
	"blocked_count":       "readers",
	"head_job":            "readers",
	"delayed_list":        "readers",
	"message_head":        "readers",
	"delayed_after":       "a poll without a caller",
	"delayed_count":       "a poll without a caller",
	"schedules_":          "readers",
	"schedule_stats":      "readers",
	"schedule_aside":      "a repair of an unreadable record",
	"tick_after":          "a pass without a caller",
	"delayed_keys":        "a poll without a caller",
	"keys_from":           "a poll without a caller",
}

// failpoints runs one operation at a time, with one fail point.
type failpoints struct {
	*testing.T
	e       *Engine
	clock   *clock.Fake
	log     *logtest.Log
	queues  int
	reached map[string]int // operations that panicked at each fail point, by its name

	err     error  // error of the last Reserve of messages
	restore func() // removes the fail point
	turns   int    // number of the writer's transactions until the fail point is removed
}

// Observe removes the fail point after the operation, on the writer's own goroutine. Another
// goroutine could not do that, because a fail point in "begin" lets no transaction begin.
func (f *failpoints) Observe(event string, _ time.Duration) {
	if event != "transaction" || f.turns == 0 {
		return
	}
	if f.turns--; f.turns == 0 {
		f.restore()
	}
}

// A panic at any statement of any operation fails only that call: it stores
// nothing, the engine keeps working, and the same call succeeds afterwards.
//
// C4.4, C9.2, C12.170
func TestPanicAtAnyStatementChangesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test has one goroutine")
	}
	f := &failpoints{T: t, clock: clock.NewFake(), log: new(logtest.Log), reached: map[string]int{}}
	path := filepath.Join(t.TempDir(), "duly.db")
	cfg := Config{Path: path, Logger: f.log.Logger(), Clock: f.clock, Synchronous: SyncNormal, Observe: f.Observe}
	e, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.e = e
	t.Cleanup(func() { e.Close() })
	e.firing.Close() // keeps passes from firing the tick that a Fire of the tour must fire

	points := 0
	for round := range 3 { // repeats the operation, because maintenance may hit the fail point before it
		first := round == 0
		for _, op := range failpointTour() {
			for _, name := range f.used(op) {
				if f.reached[name] == 0 || first && proctest.Long() {
					points += f.try(op, name)
				}
			}
		}
		if !slices.ContainsFunc(f.points(), func(name string) bool { return f.reached[name] == 0 }) {
			break
		}
	}
	if report, err := e.Check(t.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		t.Errorf("the check found %+v, %v", report.Faults, err)
	}
	t.Logf("%d fail points in %d places of operations", len(f.reached), points)
	var missed []string
	for _, name := range f.points() {
		if f.reached[name] == 0 {
			missed = append(missed, name)
		}
	}
	if len(missed) > 0 || len(f.reached) < 25 {
		t.Errorf("%d fail points reached; no operation reached %v", len(f.reached), missed)
	}
}

// points returns the names of the statements that the writer runs for callers.
func (f *failpoints) points() []string {
	names := slices.Sorted(maps.Keys(statements))
	return slices.DeleteFunc(names, func(name string) bool {
		for beginning := range notToured {
			if strings.HasPrefix(name, beginning) {
				return true
			}
		}
		return false
	})
}

// fresh prepares a new queue for the operation.
func (f *failpoints) fresh(op failpointOp) (q duly.QueueRef, act func() error) {
	f.Helper()
	f.queues++
	q = duly.Q(fmt.Sprintf("q%d", f.queues))
	return q, op.prepare(f, q)
}

// run lets the held writer do one operation.
func (f *failpoints) run(op failpointOp, act func() error, letGo func()) error {
	f.Helper()
	failed := make(chan error, 1)
	waited := waiting(f.e)
	go func() { failed <- act() }()
	eventually.True(f.T, op.name+" waits for the writer", func() bool { return waiting(f.e) > waited })
	letGo()
	return <-failed
}

// used lists the statements that an operation runs.
func (f *failpoints) used(op failpointOp) []string {
	f.Helper()
	_, act := f.fresh(op)
	letGo := held(f.T, f.e)
	f.clock.Advance(op.wait)
	c := f.e.w.c
	named, wide := c.named, c.wide
	c.named, c.wide = map[string]*sqliteconn.Stmt{}, map[wideName]*sqliteconn.Stmt{}
	f.must(f.run(op, act, letGo))

	letGo = held(f.T, f.e)
	defer letGo()
	names := map[string]bool{"commit": true}
	for name, s := range c.named {
		names[name] = true
		s.Finalize()
	}
	for name, s := range c.wide {
		names[name.name] = true
		s.Finalize()
	}
	c.named, c.wide = named, wide
	return slices.Sorted(maps.Keys(names))
}

// try runs an operation with a fail point, and once more without it. It returns 1
// if the operation reached the point.
func (f *failpoints) try(op failpointOp, name string) int {
	f.Helper()
	q, act := f.fresh(op)
	before := f.snapshot(q) + f.topicSnapshot(q)

	letGo := held(f.T, f.e)
	f.clock.Advance(op.wait)
	f.restore, f.turns = poison(f.e.w.c, name), 2 // two transactions: that of held, and that of the operation
	panics := f.log.Count("an operation of the store panicked")
	err := f.run(op, act, letGo)
	if f.log.Count("an operation of the store panicked") == panics {
		return 0
	}
	f.reached[name]++
	if err == nil {
		return 1 // a poll without a caller reached the fail point first and panicked
	}
	if !errors.Is(err, duly.ErrInternal) {
		f.Errorf("%s with a panic at %s: %v", op.name, name, err)
	}
	if after := f.snapshot(q) + f.topicSnapshot(q); op.wait == 0 && after != before {
		f.Errorf("%s with a panic at %s changed\n%s\nto\n%s", op.name, name, before, after)
	}
	if err := act(); err != nil {
		f.Errorf("%s again after a panic at %s: %v", op.name, name, err)
	}
	return 1
}

// poison replaces a named statement with one that panics. The caller holds the writer.
func poison(c *conn, name string) (restore func()) {
	named, wide := maps.Clone(c.named), maps.Clone(c.wide)
	c.named[name] = new(sqliteconn.Stmt)
	for _, rows := range widths {
		c.wide[wideName{name, rows}] = new(sqliteconn.Stmt)
	}
	return func() {
		delete(c.named, name)
		if s := named[name]; s != nil {
			c.named[name] = s
		}
		for _, rows := range widths {
			delete(c.wide, wideName{name, rows})
			if s := wide[wideName{name, rows}]; s != nil {
				c.wide[wideName{name, rows}] = s
			}
		}
	}
}

// snapshot returns a queue as a read sees it.
func (f *failpoints) snapshot(q duly.QueueRef) string {
	f.Helper()
	var text strings.Builder
	stats, err := f.e.Stats(f.Context(), q)
	if stats.Group != nil {
		fmt.Fprintf(&text, "%+v\n", *stats.Group)
		stats.Group = nil
	}

	fmt.Fprintf(&text, "%+v %v\n", stats, err)
	cfg, err := f.e.Config(f.Context(), q)
	fmt.Fprintf(&text, "%+v %v\n", cfg, err)
	for _, state := range duly.States {
		all := duly.ListParams{State: state, PageParams: duly.PageParams{Limit: duly.MaxBatch}, Bodies: true}
		page, err := f.e.List(f.Context(), q, all)
		for i := range page.Jobs {
			page.Jobs[i].Body = fmt.Appendf(nil, "%x", sha256.Sum256(page.Jobs[i].Body))
		}
		fmt.Fprintf(&text, "%s %+v %v\n", state, page, err)
	}

	tokens, err := f.e.Tokens(f.Context(), q.Name, duly.PageParams{})
	fmt.Fprintf(&text, "%+v %v\n", tokens, err)
	return text.String()
}

// failpointOp is an operation of the tour.
type failpointOp struct {
	name string
	wait time.Duration // time between prepare and the call
	// prepare brings a new queue into the state that the call needs.
	prepare func(f *failpoints, q duly.QueueRef) (act func() error)
}

// failpointTour returns every operation.
func failpointTour() []failpointOp {
	return slices.Concat(hotFailpoints(), stepFailpoints(), jobFailpoints(), otherFailpoints(), topicFailpoints(),
		scheduleFailpoints(), limiterFailpoints())
}

// hotFailpoints returns the operations of producers and workers.
func hotFailpoints() []failpointOp {
	return []failpointOp{
		{"push plain jobs", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return f.push(q, duly.Job{Body: []byte("x")}, duly.Job{})
		}},
		{"push jobs with rules", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return f.push(q, failpointJobs()...)
		}},
		{"push into waiting jobs", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			return f.push(q, failpointJobs()...)
		}},
		{"replace a waiting job", 0, func(f *failpoints, q duly.QueueRef) func() error {
			m := duly.Merge{Key: "r", Mode: duly.MergeReplace}
			f.must(f.push(q, duly.Job{Merge: m, Body: make([]byte, 9000), TTL: time.Hour})())
			return f.push(q, duly.Job{Merge: m, Body: []byte("new"), Delay: time.Minute})
		}},
		{"overtake a running job", 0, func(f *failpoints, q duly.QueueRef) func() error {
			old := f.replaceRunning(q)
			return f.settle(old, duly.Nack)
		}},
		{"reserve a job to replace", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, duly.Job{Merge: duly.Merge{Key: "r", Mode: duly.MergeReplace}})())
			return func() error { _, err := f.take(q); return err }
		}},
		{"reserve", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			return func() error { _, err := f.take(q); return err }
		}},
		{"reserve after a while", time.Minute, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			f.taken(q)
			return func() error { _, err := f.take(q); return err }
		}},
		{"ack plain jobs", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, duly.Job{}, duly.Job{})())
			return f.settle(f.taken(q), duly.Ack)
		}},
		{"ack", 0, afterReserve(duly.Ack)},
		{"nack", 0, afterReserve(duly.Nack)},
		{"release", 0, afterReserve(duly.Release)},
		{"close the queue", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, duly.Job{})())
			slow := time.Minute
			o := duly.SettleRequest{Receipt: f.taken(q)[0].Receipt, As: duly.Release, Slow: &slow}
			return func() error {
				errs, err := f.e.Settle(f.Context(), "", []duly.SettleRequest{o})
				return errors.Join(append(errs, err)...)
			}
		}},
		{"bury", 0, afterReserve(duly.Bury)},
		{"extend", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			ds := f.taken(q)
			return func() error {
				_, err := f.e.Extend(f.Context(), "", receiptsOf(ds), time.Hour)
				return err
			}
		}},
	}
}

// replaceRunning returns the delivery of a job that a newer push has replaced during the
// delivery. The newer job is finished.
func (f *failpoints) replaceRunning(q duly.QueueRef) []duly.Delivery {
	f.Helper()
	m := duly.Merge{Key: "r", Mode: duly.MergeReplace}
	f.must(f.push(q, duly.Job{Merge: m})())
	old := f.taken(q)
	f.must(f.push(q, duly.Job{Merge: m})())
	f.must(f.settle(f.taken(q), duly.Ack)())

	return old
}

// stepFailpoints returns the transitions that time causes.
func stepFailpoints() []failpointOp {
	return []failpointOp{
		{"step", time.Minute, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			f.must(f.settle(f.taken(q)[:2], duly.Bury)())
			return func() error { _, err := f.e.Step(f.Context(), q); return err }
		}},
		{"step plain jobs", time.Minute, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, duly.Job{Delay: 30 * time.Second}, duly.Job{Delay: 30 * time.Second})())
			return func() error { _, err := f.e.Step(f.Context(), q); return err }
		}},
		{"step over bounds", 100 * 24 * time.Hour, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, duly.Job{Retain: time.Hour}, duly.Job{ID: "d"},
				duly.Job{ID: "t", TTL: time.Hour, OrderKey: "k"})())
			ds := f.taken(q)
			f.must(f.settle(ds[:1], duly.Ack)())
			f.must(f.settle(ds[1:2], duly.Bury)())
			f.must(f.settle(ds[2:], duly.Release)())
			return func() error { _, err := f.e.Step(f.Context(), q); return err }
		}},
	}
}

// jobFailpoints returns the operators' operations on jobs.
func jobFailpoints() []failpointOp {
	return []failpointOp{
		{"update", 0, byID(func(f *failpoints, q duly.QueueRef) error {
			delay, priority := time.Minute, 7
			u := duly.Update{Delay: &delay, Priority: &priority, Body: []byte("y"), TTL: time.Hour}
			return f.e.Update(f.Context(), q, "o1", u)
		})},
		{"update to a large body", 0, byID(func(f *failpoints, q duly.QueueRef) error {
			return f.e.Update(f.Context(), q, "late", duly.Update{Body: make([]byte, 100_000), TTL: duly.None})
		})},
		{"update a large body", 0, byID(func(f *failpoints, q duly.QueueRef) error {
			return f.e.Update(f.Context(), q, "large", duly.Update{Body: []byte("small"), TTL: duly.None})
		})},
		{"promote", 0, byID(func(f *failpoints, q duly.QueueRef) error { return f.e.Promote(f.Context(), q, "late") })},
		{"delete", 0, byID(func(f *failpoints, q duly.QueueRef) error { return f.e.Delete(f.Context(), q, "o1") })},
		{"delete a large job", 0, byID(func(f *failpoints, q duly.QueueRef) error {
			return f.e.Delete(f.Context(), q, "large")
		})},
		{"purge", 0, byID(func(f *failpoints, q duly.QueueRef) error {
			_, err := f.e.Purge(f.Context(), q, duly.StateReady, 0)
			return err
		})},
		{"requeue", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.push(q, failpointJobs()...)())
			f.must(f.settle(f.taken(q), duly.Bury)())
			return func() error {
				_, err := f.e.Requeue(f.Context(), q, duly.RequeueParams{N: 10, TTL: time.Hour})
				return err
			}
		}},
	}
}

// otherFailpoints returns the operations on queues, tokens and placements.
func otherFailpoints() []failpointOp {
	return []failpointOp{
		{"configure", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return func() error { return f.e.Configure(f.Context(), q, duly.QueueConfig{MaxJobs: 1000}) }
		}},
		{"pause", 0, byID(func(f *failpoints, q duly.QueueRef) error { return f.e.Pause(f.Context(), q) })},
		{"destroy", 0, byID(func(f *failpoints, q duly.QueueRef) error { return f.e.Destroy(f.Context(), q) })},
		{"put a token", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return func() error { return f.e.PutToken(f.Context(), failpointToken(q)) }
		}},
		{"limit a token", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.e.PutToken(f.Context(), failpointToken(q)))
			limits := contract.Limits{Produce: 5, Per: time.Second}
			return func() error { return f.e.LimitToken(f.Context(), failpointToken(q).Hash, limits) }
		}},
		{"delete a token", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.e.PutToken(f.Context(), failpointToken(q)))
			return func() error { return f.e.DeleteToken(f.Context(), failpointToken(q).Hash) }
		}},
		{"place a namespace", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return func() error {
				return f.e.PutPlacement(f.Context(), contract.Placement{Namespace: q.Name, Pool: "other",
					Since: f.clock.Now()})
			}
		}},
		{"make a target", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return func() error { return f.e.PutTarget(f.Context(), contract.Target{Namespace: q.Name, Name: "t"}) }
		}},
		{"change a target", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.e.PutTarget(f.Context(), contract.Target{Namespace: q.Name, Name: "t"}))
			return func() error {
				return f.e.PutTarget(f.Context(), contract.Target{Namespace: q.Name, Name: "t", Version: 1,
					Settings: []byte("x")})
			}
		}},
		{"delete a target", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.e.PutTarget(f.Context(), contract.Target{Namespace: q.Name, Name: "t"}))
			return func() error { return f.e.DeleteTarget(f.Context(), q.Name, "t") }
		}},
	}
}

func failpointToken(q duly.QueueRef) contract.Token {
	return contract.Token{Hash: sha256.Sum256([]byte(q.Name)), Namespace: q.Name, Rights: contract.RightProduce}
}

// failpointJobs returns jobs of every kind.
func failpointJobs() []duly.Job {
	merge := duly.Merge{Key: "m", Mode: duly.MergeKeep, Until: duly.UntilDone}
	return []duly.Job{
		{ID: "own", Body: []byte("x"), Lease: 10 * time.Second},
		{ID: "large", Body: make([]byte, 100_000), Headers: map[string]string{"a": "b"}},
		{ID: "o1", OrderKey: "k"}, {ID: "o2", OrderKey: "k", TTL: time.Hour},
		{ID: "merging", Merge: merge, TTL: time.Hour},
		{ID: "late", Delay: 30 * time.Second, OrderKey: "k"},
		{ID: "short", TTL: 30 * time.Second, Priority: -1},
		{ID: "kept", Retain: time.Hour, Tries: 1},
	}
}

func (f *failpoints) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *failpoints) push(q duly.QueueRef, jobs ...duly.Job) func() error {
	for i := range jobs {
		jobs[i].Queue = q.Name
	}
	return func() error {
		results, err := f.e.Push(f.Context(), jobs)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	}
}

func (f *failpoints) take(q duly.QueueRef) ([]duly.Delivery, error) {
	return f.e.Reserve(f.Context(), duly.ReserveParams{Queues: []string{q.Name}, Max: 100})
}

func (f *failpoints) taken(q duly.QueueRef) []duly.Delivery {
	f.Helper()
	ds, err := f.take(q)
	f.must(err)
	return ds
}

func receiptsOf(ds []duly.Delivery) (list []duly.Receipt) {
	for i := range ds {
		list = append(list, ds[i].Receipt)
	}
	return list
}

func (f *failpoints) settle(ds []duly.Delivery, as duly.Settlement) func() error {
	var outcomes []duly.SettleRequest
	for _, r := range receiptsOf(ds) {
		o := duly.SettleRequest{Receipt: r, As: as}
		if as == duly.Ack {
			o.Result = []byte("result")
		}
		outcomes = append(outcomes, o)
	}
	return func() error {
		errs, err := f.e.Settle(f.Context(), "", outcomes)
		return errors.Join(append(errs, err)...)
	}
}

// afterReserve settles jobs of every kind.
func afterReserve(as duly.Settlement) func(*failpoints, duly.QueueRef) func() error {
	return func(f *failpoints, q duly.QueueRef) func() error {
		f.must(f.push(q, failpointJobs()...)())
		return f.settle(f.taken(q), as)
	}
}

// byID calls an operation on a queue with jobs of every kind.
func byID(call func(*failpoints, duly.QueueRef) error) func(*failpoints, duly.QueueRef) func() error {
	return func(f *failpoints, q duly.QueueRef) func() error {
		f.must(f.push(q, failpointJobs()...)())
		return func() error { return call(f, q) }
	}
}
