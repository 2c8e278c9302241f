package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// These tests close a store with jobs of all kinds, damage its file and reopen it. The numbers are
// those of the nineteen ways in which an index over jobs can be wrong. If the layout makes a fault
// impossible, the test names the reason.

// damage is one way to damage a store.
type damage struct {
	name string
	sql  string
	// found is the kind of fault that Check reports. found is "" if SQLite must refuse the
	// statement with the error refusedBy.
	found, refusedBy string
}

var damages = []damage{
	// 1: a job in no set. Its state is a column that always has a value, and SQLite
	// maintains the indexes.
	{"1 RecordInNoSet", "UPDATE jobs SET state = 0", "", "CHECK"},
	{"1 RecordWithoutState", "UPDATE jobs SET state = NULL", "", "NOT NULL"},
	{"1 RecordWithoutPlace", "UPDATE jobs SET place = NULL", "", "NOT NULL"},
	// 2–7: an entry of a set without its record. The sets are indexes of the table. The following
	// entries are in other tables.
	{"7 AliasWithoutJob", "INSERT INTO aliases SELECT min(id), 'nobody', zeroblob(16) FROM queues", faultAliasStray,
		""},
	{"7 BodyWithoutJob", "INSERT INTO bodies SELECT min(id), zeroblob(16), x'00' FROM queues", faultBodyStray, ""},
	{"7 BodyLost", "DELETE FROM bodies", faultBodyMissing, ""},
	{"7 BodyTwice", "INSERT INTO bodies SELECT queue, number, body FROM jobs WHERE state = 2 AND body IS NOT NULL LIMIT 1",
		faultBodyTwice, ""},
	// 8–10: a job in two sets. That is impossible, because a job is one row with one state.
	{"8 SameJobTwice", "INSERT INTO jobs SELECT * FROM jobs LIMIT 1", "", "UNIQUE"},
	{"9 PlaceOfAnotherState", "UPDATE jobs SET place = place + 1000000000000 WHERE state = 1", faultPlace, ""},
	{"10 DeadAtAnotherPlace", "UPDATE jobs SET place = x'00' WHERE state = 5", "", "CHECK"},
	// 11: a leased job without a lease end.
	{"11 LeasedWithoutEnd", "UPDATE jobs SET place = NULL WHERE state = 4", "", "NOT NULL"},
	{"11 LeasedWithoutNumber", "UPDATE jobs SET place = 'soon' WHERE state = 4", "", "CHECK"},
	// 12–13: order keys.
	{"12 BusyKeyWithoutJob", "UPDATE heads SET number = zeroblob(16)", faultKeyStray, ""},
	{"12 BusyKeyOfAnother", "UPDATE heads SET number = (SELECT number FROM jobs WHERE state = 5 LIMIT 1)",
		faultKeyStray, ""},
	{"12 TwoHolders", "INSERT INTO heads SELECT * FROM heads", "", "UNIQUE"},
	{"13 BlockedByNobody", "DELETE FROM heads", faultBlockedByNone, ""},
	{"13 RunsWithoutKey", "DELETE FROM heads", faultKeyNotHeld, ""},
	{"13 BlockedWithoutKey", "UPDATE jobs SET state = 3 WHERE state = 2", "", "CHECK"},
	// 14: an alias without a job, and a job without its alias.
	{"14 AliasOfAnother", "UPDATE aliases SET number = zeroblob(16)", faultAliasStray, ""},
	{"14 AliasLost", "DELETE FROM aliases", faultAliasMissing, ""},
	{"14 TwoJobsOfOneID", "INSERT INTO aliases SELECT * FROM aliases", "", "UNIQUE"},
	// 15: merge keys.
	{"15 MergeKeyWithoutJob", "UPDATE merges SET number = zeroblob(16)", faultMergeStray, ""},
	{"15 MergeKeyOfLeased", "UPDATE merges SET number = (SELECT number FROM jobs WHERE state = 4 LIMIT 1)",
		faultMergeStray, ""},
	{"15 MergeKeyLost", "DELETE FROM merges", faultMergeMissing, ""},
	{"15 OvertakenWithoutJob", "INSERT INTO replaceable SELECT min(id), zeroblob(16), '', 'm', 1 FROM queues",
		faultMergeStray, ""},
	{"15 ReplaceableThatWaits",
		"INSERT INTO replaceable SELECT queue, number, '', 'm', 0 FROM jobs WHERE state = 2 LIMIT 1", faultMergeStray, ""},
	// 16: expiries.
	{"16 ExpiryWithoutJob", "INSERT INTO expiries SELECT min(id), 5, zeroblob(16) FROM queues", faultExpiryStray, ""},
	{"16 ExpiryLost", "DELETE FROM expiries", faultExpiryMissing, ""},
	{"16 ExpiryAtAnotherMoment", "UPDATE expiries SET moment = moment + 1", faultExpiryMissing, ""},
	// 17: unreadable rules. Run state without a job is impossible, because it is in the job's
	// row.
	{"17 RulesUnreadable", "UPDATE jobs SET rules = x'ffffffffffffffff' WHERE state = 2", faultUnreadable, ""},
	{"17 NumberCut", "UPDATE jobs SET number = x'00'", "", "CHECK"},
	// 18: counters.
	{"18 SizesWrong", "UPDATE tallies SET ready = ready + 7", faultCounters, ""},
	{"18 CountersDoNotAddUp", "UPDATE tallies SET acked = acked + 3", faultCounters, ""},
	{"18 TalliesLost", "DELETE FROM tallies", faultCounters, ""},
	{"18 RowsOfNoQueue", "UPDATE jobs SET queue = 999 WHERE state = 5", faultStray, ""},
	// Schedules. SQLite maintains the order of their ticks, so most of the faults above are
	// impossible for them.
	{"S1 NextWithoutEntry", "UPDATE schedules SET place = 4503599627370496", "", "generated column"},
	{"S2 SameScheduleTwice", "INSERT INTO schedules (queue, name, version, paused, fired, skipped, missed, record) " +
		"SELECT queue, name, 1, 0, 0, 0, 0, record FROM schedules", "", "UNIQUE"},
	{"S3 NextIsNoMoment", "UPDATE schedules SET next = 0", "", "CHECK"},
	{"S4 RecordUnreadable", "UPDATE schedules SET record = x'7b' WHERE name = 'damaged'", faultSchedule, ""},
	{"S4 RecordEmpty", "UPDATE schedules SET record = x'7b7d' WHERE name = 'damaged'", faultSchedule, ""},
	{"S5 ScheduleOfNoQueue", "UPDATE schedules SET queue = 999", faultStray, ""},
	// Limiters.
	{"A1 ProbeNotLeased", "UPDATE limiters SET probing = 1, probe = randomblob(16)", faultLimiter, ""},
	{"A2 LimiterLost", "DELETE FROM limiters", faultLimiter, ""},
	{"A3 LimitsDoNotAdapt", "UPDATE queues SET adapt = -1", faultLimiter, ""},
	{"A4 LimiterOfNoQueue", "UPDATE limiters SET queue = 999", faultStray, ""},
	{"A5 FactorAboveOne", "UPDATE limiters SET factor = 1.5", "", "CHECK"},
	{"A5 ProbeWithoutProbing", "UPDATE limiters SET probing = 0, probe = zeroblob(16)", "", "CHECK"},
	// 19, a missing marker, has a test of its own: the writer's times are in memory and are
	// read again at opening.
}

// C4.76, C4.77, C4.78, C4.80, C4.81, C18.61: Check finds every fault that the tables can have. Without
// repair it changes nothing, and repairs each fault in one transaction.
func TestCheck(t *testing.T) {
	t.Parallel()
	repairEach(t, damages, newDamagedStore, (*damagedStore).drain)
}

// repairEach damages a new store in each way, repairs it, and then drains all queues.
func repairEach(t *testing.T, damages []damage, newStore func(*testing.T) *damagedStore, drain func(*damagedStore)) {
	for _, d := range damages {
		t.Run(strings.ReplaceAll(d.name, " ", ""), func(t *testing.T) {
			t.Parallel()
			r := newStore(t)
			err := r.harm(d.sql)
			if d.refusedBy != "" {
				if err == nil || !strings.Contains(err.Error(), d.refusedBy) {
					t.Fatalf("the layout answered %v, want a refusal by %s", err, d.refusedBy)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}

			r.open()
			r.findAndRepair(d.found)
			drain(r)
		})
	}
}

// C4.79: if the earliest due time of a queue is missing in memory, the timer would miss it. Check
// finds and repairs this fault.
func TestCheckRepairsAMissedTime(t *testing.T) {
	t.Parallel()
	newDamagedStore(t).missTime(damagedQueue)
}

// missTime removes the earliest times of a queue or a topic from memory, and repairs them.
func (r *damagedStore) missTime(q duly.QueueRef) {
	r.Helper()
	r.open()
	err := r.e.change(r.Context(), func(t *tx) error {
		t.queue(q.Normal()).earliest = noEvents
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	r.findAndRepair(faultMoment)
}

var damagedQueue = duly.Q("ruin")

// C4.79: Check reports no fault for the changes of earlier calls in the same transaction.
func TestCheckSeesEarlierCallsOfItsTransaction(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := context.Background()
	if err := e.change(ctx, pushed("first", nil)); err != nil {
		t.Fatal(err)
	}
	if err := e.Configure(ctx, duly.Q("gone"), duly.QueueConfig{}); err != nil {
		t.Fatal(err)
	}

	letGo := held(t, e)
	done := make(chan error, 3)
	join := func(f func() error) {
		before := waiting(e)
		go func() { done <- f() }()
		for waiting(e) == before { // waits until the call is queued, to keep the order of the calls
			runtime.Gosched()
		}
	}

	join(func() error {
		return second(e.Push(ctx, []duly.Job{{Queue: "q", Delay: time.Hour, TTL: 2 * time.Hour, ID: "own"}}))
	})
	join(func() error { return e.Destroy(ctx, duly.Q("gone")) })
	var report contract.CheckReport
	join(func() (err error) {
		report, err = e.Check(ctx, contract.CheckParams{})
		return err
	})

	letGo()
	if err := errors.Join(<-done, <-done, <-done); err != nil || len(report.Faults) > 0 {
		t.Errorf("the check finds %+v, %v", report.Faults, err)
	}
}

// damagedStore is a store with jobs of all kinds.
type damagedStore struct {
	*testing.T
	path  string
	clock *clock.Fake
	e     *Engine
	ids   map[string]bool // IDs of the jobs that are not done
}

func emptyDamagedStore(t *testing.T) *damagedStore {
	return &damagedStore{T: t, path: filepath.Join(t.TempDir(), "duly.db"), clock: clock.NewFake(),
		ids: map[string]bool{}}
}

func newDamagedStore(t *testing.T) *damagedStore {
	r := emptyDamagedStore(t)
	r.open()
	r.fill()
	if err := r.e.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *damagedStore) open() {
	r.Helper()
	cfg := Config{Path: r.path, Manual: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if r.clock != nil { // without a fake clock, the engine uses the system clock
		cfg.Clock = r.clock
	}
	var err error
	r.e, err = Open(context.Background(), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { r.e.Close() })
}

// fill pushes delayed, ready, blocked, leased, dead and done jobs, also with keys, own IDs,
// expiries and large bodies.
func (r *damagedStore) fill() {
	ctx := context.Background()
	lease := func(as duly.Settlement) {
		got, err := r.e.Reserve(ctx, duly.ReserveParams{Queues: []string{damagedQueue.Name}, Max: 1})
		if err != nil || len(got) != 1 {
			r.Fatal(got, err)
		}
		if as == 0 {
			return
		}
		if errs, err := r.e.Settle(ctx, "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: as}}); err != nil ||
			errs[0] != nil {
			r.Fatal(errs, err)
		}
		if as == duly.Ack {
			delete(r.ids, got[0].ID)
		}
	}

	adaptive := duly.QueueConfig{MaxLeased: 1000, Adapt: duly.Adapt{Floor: 0.5}}
	if err := r.e.Configure(ctx, damagedQueue, adaptive); err != nil {
		r.Fatal(err)
	}
	r.push(duly.Job{ID: "dead", Priority: 9})
	lease(duly.Bury)
	r.push(duly.Job{ID: "done", Priority: 9, Retain: time.Hour})
	lease(duly.Ack)
	r.push(duly.Job{ID: "leased", Priority: 9, OrderKey: "k"})
	lease(0)
	r.push(
		duly.Job{ID: "blocked", OrderKey: "k"}, duly.Job{ID: "plain"}, duly.Job{},
		duly.Job{ID: "large", Body: make([]byte, 5000)}, duly.Job{ID: "brief", TTL: time.Hour},
		duly.Job{ID: "later", Delay: time.Minute}, duly.Job{ID: "merged", Merge: duly.Merge{Key: "m"}},
	)

	// No step of this test lasts until the first tick.
	for _, name := range []string{"damaged", "sound"} {
		s := duly.Schedule{Name: name, Spec: "@daily", Start: time.Now().AddDate(1, 0, 0).Truncate(time.Second)}
		if _, err := r.e.PutSchedule(ctx, damagedQueue, s); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *damagedStore) push(jobs ...duly.Job) {
	r.Helper()
	for i := range jobs {
		jobs[i].Queue = damagedQueue.Name
	}
	results, err := r.e.Push(context.Background(), jobs)
	if err != nil {
		r.Fatal(err)
	}
	for _, result := range results {
		if result.Err != nil {
			r.Fatal(result.Err)
		}
		r.ids[result.ID] = true
	}
}

// harm runs a statement on the closed file.
func (r *damagedStore) harm(sql string) error {
	c, err := sqliteconn.Open(r.path, sqliteconn.ReadWrite)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	return c.Exec(sql)
}

func (r *damagedStore) check(repair bool) []contract.Fault {
	r.Helper()
	report, err := r.e.Check(context.Background(), contract.CheckParams{Repair: repair})
	if err != nil {
		r.Fatal(err)
	}
	return report.Faults
}

// findAndRepair checks that Check finds the fault without changing anything, and that one
// repair removes it.
func (r *damagedStore) findAndRepair(kind string) {
	r.Helper()
	is := func(f contract.Fault) bool { return f.Kind == kind }
	if faults := r.check(false); !slices.ContainsFunc(faults, is) {
		r.Fatalf("Check found %+v, want %s", faults, kind)
	}
	if faults := r.check(true); !slices.ContainsFunc(faults, func(f contract.Fault) bool { return is(f) && f.Repaired }) {
		r.Fatalf("the repair found %+v, want %s and that it was repaired", faults, kind)
	}
	if faults := r.check(false); len(faults) > 0 {
		r.Fatalf("after the repair there are %+v", faults)
	}
}

// drain checks that every job is dead or can be reserved.
func (r *damagedStore) drain() {
	r.Helper()
	ctx := context.Background()
	seen := map[string]bool{}
	r.clock.Advance(31 * time.Second) // all leases have ended
	r.clock.Advance(30 * time.Second) // all jobs have become due

	for {
		got, err := r.e.Reserve(ctx, duly.ReserveParams{Queues: []string{damagedQueue.Name}, Max: 100})
		if err != nil {
			r.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			seen[string(d.Receipt[:strings.LastIndex(string(d.Receipt), ":")])] = true
			if errs, err := r.e.Settle(ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}}); err != nil ||
				errs[0] != nil {
				r.Fatal(errs, err)
			}
		}
	}

	s, err := r.e.Stats(ctx, damagedQueue)
	if err != nil {
		r.Fatal(err)
	}
	if z := s.Sizes; z.Delayed+z.Ready+z.Blocked+z.Leased > 0 {
		r.Errorf("stuck: %+v", z)
	}
	if total := len(seen) + int(s.Sizes.Dead); total < len(r.ids) && !r.stray() {
		r.Errorf("%d jobs came out and %d are dead, of %d", len(seen), s.Sizes.Dead, len(r.ids))
	}

	if faults := r.check(false); len(faults) > 0 {
		r.Errorf("after all there are %s", fmt.Sprint(faults))
	}
}

// stray reports whether this is the test that deletes a queue's row.
func (r *damagedStore) stray() bool { return strings.Contains(r.Name(), "RowsOfNoQueue") }
