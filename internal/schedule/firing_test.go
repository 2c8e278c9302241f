package schedule

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
)

// firer is an engine with the schedules of one shard.
type firer struct {
	contract.Firer
	mu      sync.Mutex
	clock   *clock.Fake
	records []contract.ScheduleRecord
	reads   int
	calls   [][]contract.FireItem
	gate    chan struct{} // blocks DueSchedules until it receives a value
	answer  func(item contract.FireItem) contract.FireResult
	err     error
}

func (f *firer) DueSchedules(_ context.Context, _ duly.QueueRef, _ int, cursor string) (contract.DueSchedules, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	due := contract.DueSchedules{Now: f.clock.Now().UnixMilli(), TTL: duly.None}
	from, _ := strconv.Atoi(cursor) // of the records
	for i := from; i < len(f.records); i++ {
		if r := f.records[i]; r.Next == 0 || r.Next > due.Now {
			continue
		}
		if len(due.Schedules) == contract.MaxDue {
			due.Next = strconv.Itoa(i)
			break
		}
		due.Schedules = append(due.Schedules, f.records[i])
	}
	return due, f.err
}

func (f *firer) Fire(_ context.Context, _ duly.QueueRef, items []contract.FireItem) ([]contract.FireResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, items)
	results := make([]contract.FireResult, len(items))
	for i, item := range items {
		if f.answer != nil {
			results[i] = f.answer(item)
			if results[i].Status != contract.FireFired {
				continue
			}
		}
		results[i].Status = contract.FireFired
		for k := range f.records {
			if r := &f.records[k]; r.Name == item.Name {
				r.Advance(&item, duly.PushResult{Status: duly.Created})
			}
		}
	}
	return results, nil
}

func newFirer(records ...contract.ScheduleRecord) (*firer, *Firing, *logtest.Log) {
	f, log := &firer{clock: clock.NewFake(), records: records}, new(logtest.Log)
	return f, NewFiring(f, f.clock, log.Logger()), log
}

// due returns a schedule with a tick every minute. Its next tick is due at the start of the clock.
func due(name string, change func(*contract.ScheduleRecord)) contract.ScheduleRecord {
	r := contract.ScheduleRecord{Queue: duly.Q("q"), Version: 1, Next: clock.Epoch.UnixMilli()}
	r.Schedule = contract.FillSchedule(duly.Schedule{Name: name, Spec: "* * * * *"})
	if change != nil {
		change(&r)
	}
	return r
}

func TestRoundFiresDueTicks(t *testing.T) {
	t.Parallel()
	f, firing, _ := newFirer(due("a", nil), due("b", nil),
		due("later", func(r *contract.ScheduleRecord) { r.Next += minute }))
	o, err := firing.Round(t.Context(), duly.Q("q"), 0)
	if err != nil || o != (Outcome{Fired: 2}) || len(f.calls) != 1 || len(f.calls[0]) != 2 {
		t.Errorf("%+v, %v after %d calls", o, err, len(f.calls))
	}
	if o, err = firing.Round(t.Context(), duly.Q("q"), 0); err != nil || o != (Outcome{}) || len(f.calls) != 1 {
		t.Errorf("with nothing due: %+v, %v after %d calls", o, err, len(f.calls))
	}
	f.err = duly.ErrUnavailable
	if _, err = firing.Round(t.Context(), duly.Q("q"), 0); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("with a store that is away: %v", err)
	}
}

// Rule C17.110: a round has bounds, and says whether more is due.
func TestRoundIsBounded(t *testing.T) {
	t.Parallel()
	var records []contract.ScheduleRecord
	for i := range 250 {
		records = append(records, due(fmt.Sprintf("s%d", i), nil))
	}
	f, firing, _ := newFirer(records...)
	var fired []int
	for more := true; more; {
		o, err := firing.Round(t.Context(), duly.Q("q"), 0)
		if err != nil {
			t.Fatal(err)
		}
		fired, more = append(fired, o.Fired), o.More
	}
	if fmt.Sprint(fired) != "[100 100 50]" || len(f.calls) != 3 {
		t.Errorf("rounds fire %v", fired)
	}

	// With catchup all, the items of several schedules fill a call.
	f, firing, _ = newFirer(due("a", nil), due("b", nil), due("c", nil))
	for i := range f.records {
		f.records[i].Spec, f.records[i].Catchup = "* * * * * *", duly.CatchupAll
		f.records[i].Template.Body = make([]byte, 16<<10)
	}
	f.clock.Advance(299 * time.Second)
	fired = nil
	for more := true; more; {
		o, err := firing.Round(t.Context(), duly.Q("q"), 0)
		if err != nil {
			t.Fatal(err)
		}
		fired, more = append(fired, o.Fired), o.More
	}
	if fmt.Sprint(fired) != "[512 388]" {
		t.Errorf("rounds fire %v of 900 ticks", fired)
	}
}

// Rule C17.111: a process has one pass of a shard at a time. Other calls wait for its result.
func TestRoundsOfAShardAreJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, firing, _ := newFirer(due("a", nil))
		f.gate = make(chan struct{})
		outcomes := make(chan Outcome, 10)
		for range cap(outcomes) {
			go func() {
				o, err := firing.Round(t.Context(), duly.QueueRef{Name: "q"}, 0)
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			}()
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, err := firing.Round(ctx, duly.Q("q"), 0); left <- err }()
		synctest.Wait()

		// The round outlives a caller that leaves.
		cancel()
		if err := <-left; !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves gets %v", err)
		}
		close(f.gate)
		for range cap(outcomes) {
			if o := <-outcomes; o.Fired != 1 {
				t.Errorf("a caller gets %+v", o)
			}
		}
		if f.reads != 1 || len(f.calls) != 1 {
			t.Errorf("%d reads and %d calls of Fire, want one", f.reads, len(f.calls))
		}
	})
}

func TestCloseWaitsForTheRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, firing, _ := newFirer(due("a", nil))
		f.gate = make(chan struct{})
		go func() { _, _ = firing.Round(t.Context(), duly.Q("q"), 0) }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { firing.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returns before the round")
		default:
		}
		close(f.gate)
		<-closed
		if _, err := firing.Round(t.Context(), duly.Q("q"), 0); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("a round after Close: %v", err)
		}
		if firing.Go(func() {}) {
			t.Error("Go runs a function after Close")
		}
	})
}

// Rule C17.93: a tick whose run does not fit is held for 2 s. Ticks of other schedules fire.
func TestFullTickIsHeld(t *testing.T) {
	t.Parallel()
	f, firing, _ := newFirer(due("full", nil), due("b", nil))
	f.answer = func(item contract.FireItem) contract.FireResult {
		if item.Name == "full" {
			return contract.FireResult{Status: contract.FireFull, Err: duly.ErrFull}
		}
		return contract.FireResult{Status: contract.FireFired}
	}
	round := func(want Outcome) {
		t.Helper()
		if o, err := firing.Round(t.Context(), duly.Q("q"), 0); err != nil || o != want {
			t.Errorf("%+v, %v, want %+v", o, err, want)
		}
	}
	round(Outcome{Fired: 1, Pause: 2 * time.Second})
	round(Outcome{Pause: 2 * time.Second})
	f.clock.Advance(1500 * time.Millisecond)
	round(Outcome{Pause: 500 * time.Millisecond})
	if len(f.calls) != 1 {
		t.Errorf("%d calls of Fire within the pause", len(f.calls))
	}

	// A Put ends the pause, and so does its time.
	f.records[0].Version++
	round(Outcome{Pause: 2 * time.Second})
	f.clock.Advance(2 * time.Second)
	f.answer = nil
	round(Outcome{Fired: 1})
	if len(f.calls) != 3 {
		t.Errorf("%d calls of Fire", len(f.calls))
	}
}

// Rule C17.110: more due ticks than a page has cannot fire, and hold up no later ones.
func TestHeldTicksHoldUpNoLaterOnes(t *testing.T) {
	t.Parallel()
	var records []contract.ScheduleRecord
	for i := range 250 {
		records = append(records, due(fmt.Sprintf("full%d", i), nil))
	}
	f, firing, _ := newFirer(append(records, due("free", nil))...)
	f.answer = func(item contract.FireItem) contract.FireResult {
		if item.Name != "free" {
			return contract.FireResult{Status: contract.FireFull, Err: duly.ErrFull}
		}
		return contract.FireResult{Status: contract.FireFired}
	}
	o, err := firing.Round(t.Context(), duly.Q("q"), 0)
	if err != nil || o != (Outcome{Fired: 1, Pause: contract.FullPause}) || len(f.calls) != 3 {
		t.Errorf("%+v, %v after %d calls of Fire", o, err, len(f.calls))
	}

	// All others are left alone. A round reads them, and calls nothing.
	f.records[250].Next = f.clock.Now().UnixMilli()
	f.reads = 0
	o, err = firing.Round(t.Context(), duly.Q("q"), 0)
	if err != nil || o.Fired != 1 || len(f.calls) != 4 || len(f.calls[3]) != 1 || f.reads != 3 {
		t.Errorf("%+v, %v after %d calls of Fire and %d reads", o, err, len(f.calls), f.reads)
	}
}

// Rules C17.39, C17.87 and C17.92: each event of a schedule is logged once per version.
func TestLogHasOneLinePerVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*contract.ScheduleRecord)
		answer contract.FireResult
		says   string
	}{
		{"UnknownZone", func(r *contract.ScheduleRecord) { r.Zone = "Mars/Phobos" },
			contract.FireResult{Status: contract.FireFired}, "Mars/Phobos"},
		{"ForeignTick", func(r *contract.ScheduleRecord) { r.Next -= 1000 },
			contract.FireResult{Status: contract.FireFired}, "differs"},
		{"RunNotAllowed", nil, contract.FireResult{Status: contract.FireFired,
			Run: duly.PushResult{Err: duly.ErrInvalid}}, "made no run"},
		{"BadItem", nil, contract.FireResult{Err: duly.ErrInvalid}, "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, firing, log := newFirer(due("a", tt.change))
			next := f.records[0].Next
			f.answer = func(contract.FireItem) contract.FireResult { return tt.answer }
			for version := range int64(3) {
				for range 3 {
					f.records[0].Version, f.records[0].Next = version+1, next
					if _, err := firing.Round(t.Context(), duly.Q("q"), 0); err != nil {
						t.Fatal(err)
					}
					f.clock.Advance(contract.FullPause)
				}
			}
			if n := log.Count(tt.says); n != 3 || strings.Count(log.String(), "\n") != 3 {
				t.Errorf("the log is\n%s\nwant 3 lines that say %q", log.String(), tt.says)
			}
		})
	}
}

// A pass does not pause because of a tick that another process fires, or that is early because the
// clock was set back.
func TestStaleAndEarlyTicksDoNotPause(t *testing.T) {
	t.Parallel()
	f, firing, log := newFirer(due("a", nil))
	for _, status := range []contract.FireStatus{contract.FireStale, contract.FireEarly, contract.FireNotFound} {
		f.answer = func(contract.FireItem) contract.FireResult { return contract.FireResult{Status: status} }
		if o, err := firing.Round(t.Context(), duly.Q("q"), 0); err != nil || o != (Outcome{}) {
			t.Errorf("%s: %+v, %v", status, o, err)
		}
	}
	if log.String() != "" {
		t.Errorf("the log is\n%s", log.String())
	}
}

// An observer sees each Fire with the engine's clock, may replace its items, and gets the result.
func TestObserverSeesEachFire(t *testing.T) {
	t.Parallel()
	f, firing, _ := newFirer(due("a", nil), due("b", nil))
	f.clock.Advance(3 * time.Second)
	ended := 0
	firing.ObserveFire(func(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func([]contract.FireResult, error),
	) {
		if q != duly.Q("q") || now-items[0].Tick != 3000 || len(items) != 2 {
			t.Errorf("a fire in %s at %d has the items %+v", q, now, items)
		}
		return ctx, items[:1], func(results []contract.FireResult, err error) {
			if ended++; len(results) != 1 || results[0].Status != contract.FireFired || err != nil {
				t.Errorf("the fire ended with %+v, %v", results, err)
			}
		}
	})
	if o, err := firing.Round(t.Context(), duly.Q("q"), 0); err != nil || o.Fired != 1 || ended != 1 {
		t.Errorf("%+v, %v, ended %d times", o, err, ended)
	}

	firing.ObserveFire(nil)
	if o, err := firing.Round(t.Context(), duly.Q("q"), 0); err != nil || o.Fired != 1 || ended != 1 {
		t.Errorf("without an observer: %+v, %v, ended %d times", o, err, ended)
	}
}
