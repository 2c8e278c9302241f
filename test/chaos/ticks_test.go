package chaos

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/schedule"
)

// tickPeriod is the time between two ticks of every schedule in these tests.
const tickPeriod = time.Second

// everySecond returns a schedule with a tick at this offset in each second. Each tick has its own
// run, also if it is late.
func everySecond(name string, offset time.Duration) duly.Schedule {
	return duly.Schedule{
		Name: name, Spec: "@every " + tickPeriod.String(), Start: time.Unix(1, 0).Add(offset),
		Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow, Template: duly.Job{Body: []byte(name)},
	}
}

// spread returns schedules whose ticks have even distances.
func spread(n int) []duly.Schedule {
	schedules := make([]duly.Schedule, n)
	for i := range schedules {
		schedules[i] = everySecond("s"+strconv.Itoa(i), time.Duration(i)*tickPeriod/time.Duration(n))
	}
	return schedules
}

// tickOf is a tick of a schedule, in ms since 1970.
type tickOf struct {
	schedule string
	tick     int64
}

// tickLedger records the deliveries of the runs of a queue's schedules.
type tickLedger struct {
	t     *testing.T
	queue duly.QueueRef

	schedules map[string]duly.Schedule
	first     map[string]int64 // the first tick of each schedule

	mu    sync.Mutex
	taken map[tickOf]int // number of deliveries
}

// keepTicks puts schedules into a queue.
func keepTicks(t *testing.T, e duly.Scheduler, queue string, schedules ...duly.Schedule) *tickLedger {
	t.Helper()
	l := &tickLedger{
		t: t, queue: duly.Q(queue), schedules: map[string]duly.Schedule{}, first: map[string]int64{},
		taken: map[tickOf]int{},
	}
	for _, s := range schedules {
		put, err := e.PutSchedule(t.Context(), l.queue, s)
		must(t, err)
		l.schedules[s.Name], l.first[s.Name] = s, put.Next.UnixMilli()
	}
	return l
}

// take records a delivery. A run has the ID of its tick, and no run is early.
func (l *tickLedger) take(d *duly.Delivery) tickOf {
	l.t.Helper()
	of, err := tickIn(d)
	if err != nil {
		l.t.Errorf("a delivery has the headers %v: %v", d.Headers, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.id(of); d.ID != id {
		l.t.Errorf("the run of tick %+v has the ID %s, want %s", of, d.ID, id)
	}
	if at := time.UnixMilli(of.tick); d.PushedAt.Before(at) || d.Now.Before(at) {
		l.t.Errorf("the run of tick %s of %s was pushed at %s and delivered at %s", at, of.schedule, d.PushedAt, d.Now)
	}
	l.taken[of]++
	return of
}

// tickIn returns the tick of a run.
func tickIn(d *duly.Delivery) (tickOf, error) {
	tick, err := time.Parse(time.RFC3339Nano, d.Headers[duly.HeaderTick])
	return tickOf{d.Headers[duly.HeaderSchedule], tick.UnixMilli()}, err
}

// id returns the ID of the run of a tick.
func (l *tickLedger) id(of tickOf) string {
	s := l.schedules[of.schedule]
	return schedule.Run(&contract.ScheduleRecord{Queue: l.queue, Schedule: s}, of.tick).ID
}

// drain reserves and acks all runs. Every call must be answered.
func (l *tickLedger) drain(e duly.Engine) {
	l.t.Helper()
	for {
		ds, err := e.Reserve(l.t.Context(), duly.ReserveParams{Queues: []string{l.queue.Name}, Max: 100})
		must(l.t, err)
		if len(ds) == 0 {
			return
		}
		acks := make([]duly.SettleRequest, len(ds))
		for i := range ds {
			l.take(&ds[i])
			acks[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack}
		}
		results, err := e.Settle(l.t.Context(), "", acks)
		must(l.t, err)
		for _, err := range results {
			must(l.t, err)
		}
	}
}

// stepTicks fires the ticks that are due in a queue.
func stepTicks(t *testing.T, e contract.Maintainer, q duly.QueueRef) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = e.Step(t.Context(), q)
		must(t, err)
	}
}

// conclude checks the schedules and the deliveries. By the counters of the store, each tick from the
// first to the last has fired once, and none until the given time is left. A second Fire would have
// counted as fired or as skipped. If once is set, each run was delivered once, and otherwise at least
// once. conclude returns the number of ticks, and of the deliveries after the first one of each tick.
func (l *tickLedger) conclude(e duly.Scheduler, until time.Time, once bool) (ticks, repeated int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	left := maps.Clone(l.taken)
	for _, name := range slices.Sorted(maps.Keys(l.schedules)) {
		info, err := e.GetSchedule(l.t.Context(), l.queue, name)
		must(l.t, err)
		first, period := l.first[name], tickPeriod.Milliseconds()
		last := first - period
		if !info.Last.IsZero() {
			last = info.Last.UnixMilli()
		}

		n := int((last-first)/period) + 1
		if !info.Next.After(until) {
			l.t.Errorf("tick %d of schedule %s was due before %d, and has not fired", info.Next.UnixMilli(), name,
				until.UnixMilli())
		}
		if info.Fired != int64(n) || info.Skipped != 0 || info.Missed != 0 || info.Next.UnixMilli() != last+period {
			l.t.Errorf("schedule %s has %d ticks from %d to %d; %d fired, %d were skipped and %d missed, and the next one is %d",
				name, n, first, last, info.Fired, info.Skipped, info.Missed, info.Next.UnixMilli())
		}
		for tick := first; tick <= last; tick += period {
			of := tickOf{name, tick}
			switch taken := left[of]; {
			case taken == 0:
				l.t.Errorf("the run of tick %+v was not delivered", of)
			case taken > 1 && once:
				l.t.Errorf("the run of tick %+v was delivered %d times", of, taken)
			default:
				repeated += taken - 1
			}
			delete(left, of)
		}
		ticks += n
	}
	for of := range left {
		l.t.Errorf("a run of tick %+v was delivered, and the store knows no such tick", of)
	}
	return ticks, repeated
}

// awaitFired waits until the ticks that are due now have fired, and returns the time.
func (l *tickLedger) awaitFired(e duly.Scheduler) (until time.Time) {
	l.t.Helper()
	until = time.Now()
	for name := range l.schedules {
		var last error
		redistest.Await(l.t, "the due ticks fire", func() bool {
			info, err := e.GetSchedule(l.t.Context(), l.queue, name)
			if err != nil && (last == nil || err.Error() != last.Error()) {
				l.t.Logf("a schedule cannot be read: %v", err)
				last = err
			}
			return err == nil && info.Next.After(until)
		})
	}
	return until
}

// fired returns the number of fired ticks of all schedules, the last one of each, and the next one of
// all.
func (l *tickLedger) fired(e duly.Scheduler) (fired int64, last map[string]int64, next int64) {
	l.t.Helper()
	last = map[string]int64{}
	for name := range l.schedules {
		info, err := e.GetSchedule(context.Background(), l.queue, name)
		must(l.t, err)
		fired += info.Fired
		last[name] = info.Last.UnixMilli()
		if n := info.Next.UnixMilli(); next == 0 || n < next {
			next = n
		}
	}
	return fired, last, next
}
