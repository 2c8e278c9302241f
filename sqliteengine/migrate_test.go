package sqliteengine

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// next returns the current layout with one more migration.
func next(sql string) layout {
	return append(append(layout{}, current...), migration{len(current) + 1, "next", sql})
}

// openAs opens a file like a version of duly whose layout is l.
func openAs(path string, l layout) (*Engine, error) {
	cfg := Config{Path: path, Logger: quiet()}.withDefaults()
	e, err := newEngine(cfg, l)
	if err != nil {
		return nil, storeError(path, err)
	}
	if e.lock, err = storefile.Lock(path, openElsewhere); err != nil {
		return nil, err
	}
	go e.w.run()
	return e, nil
}

// ask runs a query on the writer's connection.
func ask(t *testing.T, e *Engine, sql string) (answer string) {
	t.Helper()
	err := e.change(t.Context(), func(tx *tx) (err error) {
		answer, err = tx.Query(sql)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func ready(t *testing.T, e *Engine) int64 {
	t.Helper()
	stats, err := e.Stats(t.Context(), duly.Q("q"))
	if err != nil {
		t.Fatal(err)
	}
	return stats.Sizes.Ready
}

// C11.27, C11.29: an older file is upgraded after a copy was saved.
func TestOlderFileIsCopiedAndUpgraded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	makeStore(t, path)
	newer := next("ALTER TABLE queues ADD COLUMN colour TEXT")
	e, err := openAs(path, newer)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { e.Close() })
	ask(t, e, "SELECT colour FROM queues")
	if n := ready(t, e); n != 50 {
		t.Errorf("%d jobs are ready after the upgrade", n)
	}

	copied := fmt.Sprintf("%s.v%d", path, current.version())
	if h, err := current.readHeader(copied); err != nil || h.version != current.version() {
		t.Errorf("the copy says %+v, %v", h, err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}

	old := mustOpen(t, copied)
	if n := ready(t, old); n != 50 {
		t.Errorf("the copy has %d jobs", n)
	}
	// The older version reads from the header that the file is too new.
	if _, err := current.readHeader(path); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("an older version says %v", err)
	}
}

// A failed migration leaves the file unchanged, and the next Open repeats the migration, even
// though the copy of the failed try exists.
func TestFailedUpgradeChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	makeStore(t, path)
	for range 2 {
		if _, err := openAs(path, next("ALTER TABLE queues ADD COLUMN a TEXT; INSERT INTO nowhere VALUES (1)")); err == nil {
			t.Fatal("it is opened")
		}
	}
	e := mustOpen(t, path)
	if n := ask(t, e, "SELECT count(*) FROM pragma_table_info('queues') WHERE name = 'a'"); n != "0" {
		t.Error("half of the migration has happened")
	}
}

// An upgrade that was interrupted after its commit is finished by the next Open. An older version
// notices the new layout in the WAL.
func TestInterruptedUpgradeIsFinished(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	makeStore(t, path)
	newer := next("ALTER TABLE queues ADD COLUMN colour TEXT")
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(c.NoCheckpointOnClose(), newer.migrate(c, current.version()), c.Close()); err != nil {
		t.Fatal(err)
	}

	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path, Logger: quiet()}); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("the version before it answers %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the version before it has changed the file, %v", err)
	}

	e, err := openAs(path, newer)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	if ask(t, e, "SELECT colour FROM queues"); ready(t, e) != 50 {
		t.Error("jobs are missing")
	}
}

var update = flag.Bool("update", false, "write new testdata")

// goldenJobs returns jobs of all kinds in all states.
func goldenJobs() []duly.Job {
	return []duly.Job{
		{ID: "done", Retain: 8000 * time.Hour, OrderKey: "d"},
		{ID: "dead", Tries: 1},
		{ID: "leased", Lease: 300 * 24 * time.Hour, Merge: duly.Merge{Key: "m", Until: duly.UntilDone}},
		{ID: "plain", Body: []byte("a body")},
		{ID: "head", OrderKey: "k", Priority: -7, Headers: map[string]string{"a": "b", "c": "d"}},
		{ID: "blocked", OrderKey: "k", MaxStalls: duly.None, Backoff: "1s,2s"},
		{ID: "large", Body: bytes.Repeat([]byte("large"), 1000), Priority: -8},
		{ID: "later", Delay: 48 * time.Hour, TTL: 8000 * time.Hour,
			Merge: duly.Merge{Mode: duly.MergeReplace, MaxWait: time.Hour}},
	}
}

// goldenLimits are the limits of a token in golden files of layout 2 and later.
var goldenLimits = contract.Limits{Produce: 7, Per: time.Minute}

func makeGolden(t *testing.T, path string) {
	ctx, c := context.Background(), clock.NewFake()
	e, err := Open(ctx, Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	for i, j := range goldenJobs() {
		j.Queue = "golden"
		if i < 3 {
			j.Priority = 1000 - i
		}
		_, err := e.Push(ctx, []duly.Job{j})
		must(err)
	}

	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"golden"}, Max: 3})
	must(err)
	_, err = e.Settle(ctx, "", []duly.SettleRequest{
		{Receipt: got[0].Receipt, As: duly.Ack, Result: []byte("a result")}, {Receipt: got[1].Receipt,
			As: duly.Bury, Error: "no good"},
	})

	must(err)
	must(e.Configure(ctx, duly.Q("golden"), duly.QueueConfig{MaxJobs: 1000, Rate: duly.Rate{PerSecond: 100},
		Defaults: duly.Defaults{Tries: 9}}))
	must(e.PutToken(ctx, contract.Token{Hash: [32]byte{1, 2, 3}, Namespace: "default", Rights: contract.RightAdmin,
		CreatedAt: clock.Epoch, Limits: goldenLimits}))
	makeGoldenTopic(t, e)
	makeGoldenPush(t, e)
	makeGoldenSchedules(t, e)
	makeGoldenHold(t, e)
	makeGoldenClosing(t, e)
	makeGoldenLimiter(t, e, c)
	must(e.Close())
}

var goldenTopic, goldenGroup = duly.Q("golden-log"), duly.Q("golden-log@group")

// makeGoldenTopic creates a topic, from layout 6 on, and a group with a message in every
// state.
func makeGoldenTopic(t *testing.T, e *Engine) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(e.ConfigureTopic(ctx, goldenTopic, duly.TopicConfig{Dedupe: time.Hour, Keep: 24 * time.Hour}))
	_, err := e.CreateGroup(ctx, goldenGroup, "")
	must(err)
	must(e.Configure(ctx, goldenGroup, duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 9}}))
	var messages []duly.Message
	for _, body := range []string{"acked", "dead", "later", "leased", "blocked", "new"} {
		messages = append(messages, duly.Message{Topic: goldenTopic.Name, ID: body, Body: []byte(body),
			Headers: map[string]string{"a": "b"}})
	}

	messages[3].Key, messages[4].Key = "k", "k"
	messages = append(messages, duly.Message{Topic: goldenTopic.Name, ID: "delayed", Delay: time.Hour})
	_, err = e.Publish(ctx, messages[:5])
	must(err)
	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{goldenGroup.Name}, Max: 10,
		Lease: 300 * 24 * time.Hour})
	must(err)
	delay := 400 * 24 * time.Hour
	_, err = e.Settle(ctx, "", []duly.SettleRequest{
		{Receipt: got[0].Receipt, As: duly.Ack}, {Receipt: got[1].Receipt, As: duly.Bury}, {Receipt: got[2].Receipt,
			As: duly.Nack, Delay: &delay},
	})

	must(err)
	_, err = e.Publish(ctx, messages[5:])
	must(err)
}

// goldenCount returns the number of jobs and messages in the file of a layout.
func goldenCount(version int) int {
	n := len(goldenJobs())
	if version >= 6 {
		n += 5 // four messages that the group holds, and one delayed message
	}
	if version >= 7 {
		n++ // the job of the push queue
	}
	if version >= 10 {
		n++ // the job of the closed queue
	}
	if version >= 11 {
		n++ // the probe
	}
	return n
}

var goldenPush = duly.Q("golden-push")

// goldenTargets are a target and the secret of its namespace, from layout 7 on.
var goldenTargets = []contract.Target{
	{Namespace: "default", Name: "crm", Settings: []byte("sealed settings \x00\xff")},
	{Namespace: "default", Settings: []byte("a sealed secret")},
}

// makeGoldenPush creates a push queue with a job, and targets, from layout 7 on.
func makeGoldenPush(t *testing.T, e *Engine) {
	ctx := context.Background()
	err := e.Configure(ctx, goldenPush, duly.QueueConfig{Delivery: duly.DeliverPush,
		Push: duly.PushConfig{URL: "https://example.com/", OnDead: "target:ops"}})
	if err != nil {
		t.Fatal(err)
	}
	results, err := e.Push(ctx, []duly.Job{{Queue: goldenPush.Name, ID: "hook", Callback: "target:crm",
		OnDone: "https://example.com/done"}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	for _, target := range goldenTargets {
		if err := e.PutTarget(ctx, target); err != nil {
			t.Fatal(err)
		}
	}
}

func judgeGoldenPush(t *testing.T, path string) {
	t.Helper()
	ctx := t.Context()
	e, err := Open(ctx, Config{Path: path, Clock: clock.NewFake(), Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	cfg, err := e.Config(ctx, goldenPush)
	if want := (duly.PushConfig{URL: "https://example.com/", OnDone: duly.NoDestination,
		OnDead: "target:ops"}); err != nil || cfg.Push != want || cfg.Defaults.Tries != 10 {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{goldenPush.Name}, Max: 10, Dispatcher: true})
	if err != nil || len(got) != 1 || got[0].Callback != "target:crm" ||
		got[0].OnDone != "https://example.com/done" || got[0].OnDead != "" {
		t.Errorf("a dispatcher gets %+v, %v", got, err)
	}

	for _, want := range goldenTargets {
		target, err := e.FindTarget(ctx, want.Namespace, want.Name)
		if err != nil || target.Version != 1 || !bytes.Equal(target.Settings, want.Settings) {
			t.Errorf("target %q is %+v, %v", want.Name, target, err)
		}
	}
}

// C11.28: the files of every release can be opened and have all their content.
func TestGoldenFilesOpen(t *testing.T) {
	t.Parallel()
	golden := fmt.Sprintf("testdata/v%d.db.gz", current.version())
	if *update {
		path := filepath.Join(t.TempDir(), "golden.db")
		makeGolden(t, path)
		pack(t, path, golden)
	}

	files, err := filepath.Glob("testdata/v*.db.gz")
	if err != nil || len(files) != current.version() {
		t.Fatalf("there are %d golden files, %v; want one per layout", len(files), err)
	}

	for version := 1; version <= current.version(); version++ {
		file := fmt.Sprintf("testdata/v%d.db.gz", version)
		path := filepath.Join(t.TempDir(), "duly.db")
		unpack(t, file, path)
		limits := goldenLimits
		if version == 1 {
			limits = contract.Limits{}
		}
		judgeGolden(t, path, limits)
		if version >= 6 {
			judgeGoldenTopic(t, path)
		}
		if version >= 7 {
			judgeGoldenPush(t, path)
		}
		if version >= 8 {
			checkGoldenSchedules(t, path)
		}
		if version >= 9 {
			checkGoldenHold(t, path)
		}
		if version >= 10 {
			checkGoldenClosing(t, path)
		}
		if version >= 11 {
			checkGoldenLimiter(t, path)
		}
	}
}

var goldenScheduled = duly.Q("golden-schedules")

// goldenSchedule sets every field that a schedule of a pull queue can have.
func goldenSchedule() duly.Schedule {
	return duly.Schedule{
		Name: "full", Spec: "30 2 * * *", Zone: "Europe/Berlin",
		Start: clock.Epoch.Add(-time.Hour), End: clock.Epoch.AddDate(9, 0, 0),
		Jitter: time.Second, Window: time.Hour, Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow, Owner: "app",
		Template: duly.Job{
			Body: []byte("body \x00\xff"), Headers: map[string]string{"a": "b"}, Priority: -3, Tries: 4, MaxStalls: duly.None,
			Backoff: "fixed:5s", TTL: time.Hour, Lease: time.Minute, OrderKey: "k",
			Merge:  duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Second, Until: duly.UntilLeased},
			Retain: time.Hour,
		},
	}
}

// makeGoldenSchedules creates schedules, for golden files of layout 8 and later. One of them is
// paused.
func makeGoldenSchedules(t *testing.T, e *Engine) {
	ctx := context.Background()
	for _, s := range []duly.Schedule{goldenSchedule(), {Name: "paused", Spec: "@every 90m"}} {
		if _, err := e.PutSchedule(ctx, goldenScheduled, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.PauseSchedule(ctx, goldenScheduled, "paused"); err != nil {
		t.Fatal(err)
	}
}

// makeGoldenHold creates a held schedule, from layout 9 on.
func makeGoldenHold(t *testing.T, e *Engine) {
	ctx := context.Background()
	if _, err := e.PutSchedule(ctx, goldenScheduled, duly.Schedule{Name: "held", Spec: "@every 80m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.HoldSchedule(ctx, goldenScheduled, "held"); err != nil {
		t.Fatal(err)
	}
}

func checkGoldenHold(t *testing.T, path string) {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: path, Clock: clock.NewFake(), Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if held, err := e.HeldSchedules(t.Context(), goldenScheduled, duly.PageParams{}); err != nil || len(held.Names) != 1 {
		t.Errorf("the held schedules are %+v, %v", held, err)
	}
}

func checkGoldenSchedules(t *testing.T, path string) {
	t.Helper()
	ctx, c := t.Context(), clock.NewFake()
	e, err := Open(ctx, Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got, err := e.GetSchedule(ctx, goldenScheduled, "full")
	next := clock.Epoch.Add(90 * time.Minute)
	if err != nil || !reflect.DeepEqual(got.Schedule, goldenSchedule()) || !got.Next.Equal(next) {
		t.Errorf("the schedule is %+v, %v", got, err)
	}
	if paused, err := e.GetSchedule(ctx, goldenScheduled, "paused"); err != nil || !paused.Paused {
		t.Errorf("the paused schedule is %+v, %v", paused, err)
	}
	if put, err := e.PutSchedule(ctx, goldenScheduled, goldenSchedule()); err != nil || put.Status != duly.ScheduleUnchanged {
		t.Errorf("a repeated put is %+v, %v", put, err)
	}

	c.Advance(91 * time.Minute)
	jobs, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{goldenScheduled.Name}, Max: 10})
	if err != nil || len(jobs) != 1 || jobs[0].Headers[duly.HeaderSchedule] != "full" {
		t.Errorf("%d runs are delivered, %v", len(jobs), err)
	}
}

var goldenClosed = duly.Q("golden-closed")

// makeGoldenClosing closes a queue, from layout 10 on.
func makeGoldenClosing(t *testing.T, e *Engine) {
	ctx := context.Background()
	if _, err := e.Push(ctx, []duly.Job{{Queue: goldenClosed.Name, ID: "slowed"}}); err != nil {
		t.Fatal(err)
	}
	slowRelease(t, e, goldenClosed.Name, time.Hour)
}

// slowRelease takes a job of a queue and closes the queue.
func slowRelease(t *testing.T, e *Engine, queue string, slow time.Duration) {
	t.Helper()
	got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d jobs are delivered, %v", len(got), err)
	}
	errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{
		{Receipt: got[0].Receipt, As: duly.Release, Slow: &slow, Error: "HTTP 429"},
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

func checkGoldenClosing(t *testing.T, path string) {
	t.Helper()
	c := clock.NewFake()
	e, err := Open(t.Context(), Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	checkClosing(t, e, goldenClosed, clock.Epoch.Add(time.Hour))
}

// checkClosing checks that a queue is closed by slowRelease, and that it opens at that time.
func checkClosing(t *testing.T, e *Engine, q duly.QueueRef, until time.Time) {
	t.Helper()
	stats, err := e.Stats(t.Context(), q)
	if err != nil || !stats.Closing.Until.Equal(until) || stats.Closing.Reason != "HTTP 429" ||
		stats.Counters.Slowed != 1 || stats.Counters.Released != 1 {
		t.Errorf("the stats are %+v, %v", stats, err)
	}
	p := duly.ReserveParams{Queues: []string{q.Name}, Max: 1}
	if got, err := e.Reserve(t.Context(), p); err != nil || len(got) != 0 {
		t.Errorf("the closed queue delivers %d jobs, %v", len(got), err)
	}
}

var goldenAdaptive = duly.Q("golden-adaptive")

// makeGoldenLimiter makes a queue probe, from layout 11 on. The probe is leased.
func makeGoldenLimiter(t *testing.T, e *Engine, c *clock.Fake) {
	l := &limited{T: t, e: e, clock: c, queue: goldenAdaptive.Name, lease: 300 * 24 * time.Hour}
	l.startProbing()
	c.Advance(time.Second)
	l.take()
}

func checkGoldenLimiter(t *testing.T, path string) {
	t.Helper()
	c := clock.NewFake()
	c.Advance(time.Minute)
	e, err := Open(t.Context(), Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	stats, err := e.Stats(t.Context(), goldenAdaptive)
	if err != nil || stats.Factor != 0.1 || stats.Probing != 1 || stats.Sizes.Leased != 1 {
		t.Errorf("the stats are %+v, %v", stats, err)
	}
	if cfg, err := e.Config(t.Context(), goldenAdaptive); err != nil || cfg.Adapt.Floor != 0.1 {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
	if err := e.Delete(t.Context(), goldenAdaptive, "probe"); err != nil {
		t.Error(err)
	}
	until := clock.Epoch.Add(time.Minute + time.Second)
	if stats, err := e.Stats(t.Context(), goldenAdaptive); err != nil || !stats.Closing.Until.Equal(until) {
		t.Errorf("after the end of the probe, the stats are %+v, %v", stats, err)
	}
}

func judgeGoldenTopic(t *testing.T, path string) {
	t.Helper()
	ctx := t.Context()
	e, err := Open(ctx, Config{Path: path, Clock: clock.NewFake(), Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	stats, err := e.Stats(ctx, goldenGroup)
	if err != nil || stats.Sizes != (duly.Sizes{Delayed: 1, Blocked: 1, Leased: 1, Dead: 1}) ||
		stats.Group.Lag != 1 || stats.Counters.Acked != 1 {
		t.Errorf("the group is %+v, %v", stats, err)
	}
	if info, err := e.Topic(ctx, goldenTopic); err != nil || info.Config.Keep != 24*time.Hour ||
		info.Stats.Messages != 6 || info.Stats.Delayed != 1 {
		t.Errorf("the topic is %+v, %v", info, err)
	}

	repeat, err := e.Publish(ctx, []duly.Message{{Topic: goldenTopic.Name, ID: "dead"}})
	if err != nil || repeat[0].Status != duly.Exists {
		t.Errorf("a repeat is %+v, %v", repeat, err)
	}

	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{goldenGroup.Name}, Max: 10})
	if err != nil || len(got) != 1 || string(got[0].Body) != "new" || got[0].Headers["a"] != "b" {
		t.Errorf("the group hands out %+v, %v", got, err)
	}
}

func judgeGolden(t *testing.T, path string, limits contract.Limits) {
	ctx, c := t.Context(), clock.NewFake()
	e, err := Open(ctx, Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	states := []duly.State{duly.StateDone, duly.StateDead, duly.StateLeased, duly.StateReady, duly.StateReady,
		duly.StateBlocked, duly.StateReady, duly.StateDelayed}
	for i, j := range goldenJobs() {
		info, err := e.Get(ctx, duly.Q("golden"), j.ID)
		if err != nil || info.State != states[i] || !bytes.Equal(info.Body, j.Body) || info.OrderKey != j.OrderKey ||
			len(info.Headers) != len(j.Headers) || info.Merge.MaxWait != j.Merge.MaxWait {
			t.Errorf("%s is %+v, %v", j.ID, info, err)
		}
	}

	if cfg, err := e.Config(ctx, duly.Q("golden")); err != nil || cfg.MaxJobs != 1000 ||
		cfg.Rate.PerSecond != 100 || cfg.Defaults.Tries != 9 {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
	if tok, err := e.FindToken(ctx, [32]byte{1, 2, 3}); err != nil || !tok.Rights.Includes(contract.RightProduce) ||
		tok.Limits != limits {
		t.Errorf("the token is %+v, %v", tok, err)
	}
	if report, err := e.Check(ctx, contract.CheckParams{}); err != nil || len(report.Faults) > 0 ||
		report.Jobs < int64(len(states)) {
		t.Errorf("the check says %+v, %v", report, err)
	}

	c.Advance(49 * time.Hour)
	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"golden"}, Max: 10})
	if err != nil || len(got) != 4 || got[0].ID != "plain" || got[1].ID != "later" || got[2].ID != "head" ||
		got[3].ID != "large" {
		t.Errorf("%d jobs are delivered, %v", len(got), err)
	}
}

func pack(t *testing.T, path, to string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.MkdirAll(filepath.Dir(to), 0o755),
		os.WriteFile(to, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file, to string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// C11.22: a file without a WAL, such as a copy, gets a WAL.
func TestStoreAlwaysHasWAL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	makeStore(t, path)
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec("PRAGMA journal_mode = DELETE"), c.Close()); err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, path)
	if mode := ask(t, e, "PRAGMA journal_mode"); mode != "wal" {
		t.Errorf("the journal mode is %q", mode)
	}
	if sync := ask(t, e, "PRAGMA synchronous"); sync != "2" {
		t.Errorf("synchronous is %q, want 2, which is full", sync)
	}
}
