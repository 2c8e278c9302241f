package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

// putTime is the time per schedule that the schedules of a run may take to be stored.
const putTime = 5 * time.Millisecond

// loadTicks stores Load.Rate schedules with one tick per second, at even distances. Together they
// have the given number of ticks.
func (b *bench) loadTicks(ctx context.Context, at Progress, q duly.QueueRef, ticks int) error {
	scheduler, ok := b.engine.(duly.Scheduler)
	if !ok {
		return errors.New("the engine has no schedules")
	}
	schedules := min(b.cfg.Load.Rate, ticks)
	r := newRun(ctx, schedules)
	defer r.stop(nil)
	at.Loading = true
	b.progress.watch(at, r)

	// A schedule that is stored after its start has lost its first tick.
	begin := b.engineNow().Add(lead + time.Duration(schedules)*putTime)
	b.firstTick = begin.Truncate(time.Millisecond).Add(time.Millisecond)
	err := r.each(min(b.cfg.Load.Callers, schedules), func() error {
		for i, n := r.claim(1); n > 0; i, n = r.claim(1) {
			s := b.ticking(int(i), ticks)
			put, err := scheduler.PutSchedule(ctx, q, s)
			switch {
			case err == nil && put.Next.Equal(s.Start):
			case !b.engineNow().Before(s.Start):
				return fmt.Errorf("storing %d schedules took until after their first ticks; choose a lower rate", schedules)
			case err != nil:
				return fmt.Errorf("storing schedule %s: %w", s.Name, err)
			default:
				return fmt.Errorf("schedule %s has its first tick at %s, want %s", s.Name, put.Next, s.Start)
			}
			r.done.Add(1)
		}
		return nil
	})
	return errors.Join(err, ctx.Err())
}

// ticking returns schedule i of a run. Tick i + k·rate of the run is its tick k.
func (b *bench) ticking(i, ticks int) duly.Schedule {
	rate := b.cfg.Load.Rate
	start := b.firstTick.Add(time.Duration(i) * time.Second / time.Duration(rate)).Truncate(time.Millisecond)
	last := start.Add(time.Duration((ticks-i-1)/rate) * time.Second)
	return duly.Schedule{
		Name: fmt.Sprintf("tick-%d", i), Spec: "@every 1s",
		Start: start, End: last.Add(time.Millisecond), // the end must be after the start
		Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow, Template: duly.Job{Body: b.body},
	}
}

// tickLateness measures how late after their ticks the handlers of runs start.
func (b *bench) tickLateness(ctx context.Context, r *run, q duly.QueueRef) error {
	// r.start becomes the time of the first tick.
	ahead := b.firstTick.Sub(b.engineNow())
	r.start += ahead
	return b.untilLate(r, ahead, func() error {
		return b.handle(ctx, r, q, func(d *duly.Delivery) { b.recordTick(r, d) })
	})
}

// recordTick records the delivery of a run when its handler starts. Its due time is not before its
// push, so the lateness counts from the tick.
func (b *bench) recordTick(r *run, d *duly.Delivery) {
	tick, err := time.Parse(time.RFC3339Nano, d.Headers[duly.HeaderTick])
	if err != nil {
		r.stop(fmt.Errorf("a run has the tick %q: %w", d.Headers[duly.HeaderTick], err))
		return
	}
	b.recordLateness(r, d, tick)
}

// engineNow returns the time on the engine's clock.
func (b *bench) engineNow() time.Time { return b.clock.Now().Add(b.offset.ahead) }
