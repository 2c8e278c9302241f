package chaos

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// trial is what a history is judged by, besides its events.
type trial struct {
	// undone are the times whose changes a crash or a failover may have undone. They are
	// documented as the window of loss.
	undone []window
	// calm is the time at which the last fault ended, in µs, or 0 if there is none.
	calm int64
	// slack is how late a job that is due after calm may be delivered, or delivered again after its
	// lease has expired. It is ten times the promise. 0 means that the lateness is not checked.
	slack time.Duration
}

// window is a time range in µs.
type window struct{ from, to int64 }

// verdicts are the results of a run.
type verdicts struct {
	answered, acked, deliveries int
	// Lost, resurrected and twice count within the windows; outside them they are faults.
	lost, resurrected, twice, unseen int
	redelivered, taken               time.Duration
}

// may reports whether a change between the two times may have been undone.
func (r trial) may(from, to int64) bool {
	return slices.ContainsFunc(r.undone, func(w window) bool { return to >= w.from && from <= w.to })
}

// judge checks the invariants: lost (I1), resurrected (I2), fenced (I3), overlap (I4), early
// (I5), attempts (I6), duplicates (I7) and foreign (I10). It measures what I12 bounds. The store
// must have been drained by clients whose diaries were read.
func (h *history) judge(r trial) (v verdicts) {
	for key, l := range h.lives {
		slices.SortStableFunc(l.deliveries, func(a, b *delivery) int {
			return cmp.Or(cmp.Compare(a.now, b.now),
				cmp.Compare(a.n, b.n))
		})
		h.judgeLife(r, key, l, &v)
	}
	for id, j := range h.jobs {
		if j.answered == 0 {
			continue
		}
		v.answered++
		if j.acked {
			v.acked++
		}
		switch {
		case j.acked || j.dead:
		case r.may(j.sent, j.answered):
			v.lost++
		default:
			h.fault("I1: lost: %s, answered at %d", id, j.answered)
		}
	}
	return v
}

func (h *history) judgeLife(r trial, key lifeKey, l *life, v *verdicts) {
	j := h.jobs[l.id]
	if j == nil {
		h.fault("I10: delivered, but never pushed: %s", l.id)
		return
	}
	releases := 0
	var before *delivery
	for _, d := range l.deliveries {
		v.deliveries++
		if key.queue != j.queue || d.sum != j.sum || d.priority != j.priority {
			h.fault("I10: %s is not as it was pushed: %+v, %+v", l.id, d, j)
		}
		if d.at < max(d.due*1000, j.sent+j.delay) || d.due*1000 < j.sent+j.delay-dueError {
			h.fault("I5: early: %s, pushed at %d with a delay of %d, was delivered at %d, due at %d", l.id, j.sent, j.delay,
				d.at, d.due*1000)
		}
		h.judgeSettles(r, l, d, j)
		if before != nil {
			h.judgeNext(r, l, before, d, v)
		} else {
			v.unseen += int(d.n - 1)
			if r.calm != 0 && d.n == 1 {
				v.taken = max(v.taken, us(d.at-max(d.due*1000, j.sent, j.answered, r.calm)))
			}
		}
		if slices.ContainsFunc(d.settles, func(s *try) bool { return s.as == "release" && s.maybe() }) {
			releases++
		}
		before = d
	}
	if n := len(l.deliveries) - releases; n > duly.DefaultTries+duly.DefaultMaxStalls && len(r.undone) == 0 {
		h.fault("I6: %s was delivered %d times", l.id, n)
	}
}

// dueError is by how much, in µs, the due time in a job's record may be before the one that sorts
// it. On Redis the client estimates the server's time from its last reply. It stores that due
// time if it is correct to a tenth of a second.
const dueError = 101_000

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// judgeSettles checks that a receipt is accepted only once.
func (h *history) judgeSettles(r trial, l *life, d *delivery, j *pushed) {
	accepted := 0
	for _, s := range d.settles {
		if s.as == "ack" && s.maybe() {
			j.acked = true
		}
		if s.ok() {
			accepted++
		}
	}
	if accepted > 1 && !r.may(d.at, d.settles[len(d.settles)-1].at) {
		h.fault("I3: %s: one receipt was accepted %d times", l.id, accepted)
	}
}

// judgeNext compares a delivery with the previous one of the same job.
func (h *history) judgeNext(r trial, l *life, a, b *delivery, v *verdicts) {
	f := a.finished()
	back := f != nil && b.at >= f.sent
	if back && b.n <= a.n && b.sent <= f.at {
		back = false // the settle may belong to this delivery, which has the same receipt after a crash
	}
	if back {
		v.resurrected++
		if !r.may(f.sent, f.at) {
			h.fault("I2: %s was delivered (%d) at %d after its %s was answered at %d", l.id, b.n, b.at, f.as, f.at)
		}
	}
	if b.n <= a.n {
		v.twice++
		if !r.may(a.sent, b.at) {
			h.fault("I7: %s: delivery %d at %d came behind delivery %d at %d", l.id, b.n, b.at, a.n, a.at)
		}
	}
	if back || b.n <= a.n {
		return
	}
	for _, s := range a.settles {
		if s.ok() && s.sent > (b.now+1)*1000 && !r.may(b.sent, s.at) {
			h.fault("I3: %s: a %s of delivery %d was accepted at %d, after delivery %d at %d", l.id, s.as, a.n, s.at, b.n, b.at)
		}
	}
	if b.n > a.n+1 {
		v.unseen += int(b.n - a.n - 1)
		return
	}
	if l.ended(a, b.at) {
		return
	}
	until := l.until(a)
	if b.now < until && !r.may(a.sent, b.at) {
		h.fault("I4: %s: delivery %d ran until %d, and delivery %d began at %d", l.id, a.n, until, b.n, b.now)
	}
	v.redelivered = max(v.redelivered, time.Duration(b.now-until)*time.Millisecond)
}

// report prints the results and fails the test if an invariant was violated.
func (h *history) report(t *testing.T, r trial, v verdicts) {
	t.Helper()
	t.Logf("%d pushes answered, %d acked, %d deliveries; inside the stated windows: %d lost, %d resurrected, %d "+
		"delivered twice with one receipt; "+
		"%d deliveries without a receiver; an expired lease was delivered again within %v, a job after the last fault "+
		"within %v",
		v.answered, v.acked, v.deliveries, v.lost, v.resurrected, v.twice, v.unseen, v.redelivered, v.taken)
	h.weigh(r, v)
	if n := len(h.faults); n > 0 {
		t.Errorf("%d faults in the history, the first:", n)
		for _, f := range h.faults[:min(5, n)] {
			t.Log(f)
		}
		for _, line := range h.story(h.faults[0]) {
			t.Log(line)
		}
	}
	if v.acked == 0 {
		t.Error("no job was acked, so the run proves nothing")
	}
}

// weigh checks the results against their bounds.
func (h *history) weigh(r trial, v verdicts) {
	if v.unseen > 0 && h.gaps == 0 && len(r.undone) == 0 {
		h.fault("I7: %d deliveries that nobody heard of, and no call was left without an answer", v.unseen)
	}
	if r.slack > 0 && (v.taken > r.slack || v.redelivered > r.slack) {
		h.fault("I12: taken after %v, redelivered after %v; may take %v", v.taken, v.redelivered, r.slack)
	}
}

type drainable interface {
	contract.Engine
	contract.Maintainer
}

// patience limits how long a store takes until it is drained, and how long any other wait for an
// end takes.
const patience = time.Minute

// drain reserves and acknowledges all jobs and returns the diary of these calls.
func drain(t *testing.T, engine drainable, queues ...string) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := newPages()
	l := &load{engine: engine, diary: &p.diary}
	for {
		if empty(t, engine, queues) {
			return p.lines()
		}
		if ctx.Err() != nil {
			t.Fatalf("the store was not drained in %v", patience)
		}
		sent := at()
		got, err := engine.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: duly.MaxBatch, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			if _, err := engine.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: time.Second}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		outcomes := make([]outcome, len(got))
		for i := range got {
			p.delivered(sent, &got[i])
			outcomes[i] = outcomeOf(&got[i], duly.Ack)
		}
		l.settle(outcomes)
	}
}

// empty reports whether no job waits or is in flight.
func empty(t *testing.T, engine contract.Inspector, queues []string) bool {
	t.Helper()
	for _, q := range queues {
		s, err := engine.Stats(context.Background(), duly.Q(q))
		if err != nil {
			t.Fatal(err)
		}
		if s.Sizes.Delayed+s.Sizes.Ready+s.Sizes.Blocked+s.Sizes.Leased != 0 {
			return false
		}
	}
	return true
}

// clean checks the store (I9) and that every push is accounted for (I8).
func clean(t *testing.T, engine drainable, queues ...string) {
	t.Helper()
	report, err := engine.Check(context.Background(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("I9: Check found %d faults, %v: %+v", len(report.Faults), err, report.Faults[:min(3, len(report.Faults))])
	}
	for _, q := range queues {
		s, err := engine.Stats(context.Background(), duly.Q(q))
		if err != nil {
			t.Fatal(err)
		}
		c, z := s.Counters, s.Sizes
		ended := c.Acked + c.Merged + c.Expired + c.Deleted + c.Dropped
		stored := z.Delayed + z.Ready + z.Blocked + z.Leased + z.Dead
		if sum := ended + stored; c.Pushed != sum {
			t.Errorf("I8: queue %s: pushed %d jobs, but %d are accounted for: %+v", q, c.Pushed, sum, s)
		}
	}
}

// bury notes the dead jobs of drained queues. Each needs a cause (I6).
func (h *history) bury(t *testing.T, engine contract.Inspector, queues ...string) {
	t.Helper()
	for _, q := range queues {
		p := duly.ListParams{State: duly.StateDead}
		for {
			page, err := engine.List(context.Background(), duly.Q(q), p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Jobs {
				h.dead(&page.Jobs[i])
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
	}
}

func (h *history) dead(info *duly.JobInfo) {
	j := h.jobs[info.ID]
	if j == nil {
		h.fault("I10: dead, but never pushed: %s", info.ID)
		return
	}
	j.dead = true
	if info.LastError != "by lot" && info.Failures < info.Tries && info.Stalls <= info.MaxStalls {
		h.fault("I6: %s is dead without a cause: %+v", info.ID, info)
	}
}

// conclude drains the store, checks it and judges the history.
func (h *history) conclude(t *testing.T, engine drainable, r trial, queues ...string) verdicts {
	t.Helper()
	h.read(drain(t, engine, queues...))
	clean(t, engine, queues...)
	h.bury(t, engine, queues...)
	v := h.judge(r)
	h.report(t, r, v)
	return v
}
