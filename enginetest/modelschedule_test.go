package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// TestScheduleModelFindsPlantedBugs runs the model test of schedules against engines with one bug
// each. It has to find all of them.
func TestScheduleModelFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range scheduleBugs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findsBug(t, scheduleScripts(modelSteps), func(sc script) error { return playScheduleBug(t, bug, sc) })
		})
	}
}

// playScheduleBug runs one script against a model with the bug.
func playScheduleBug(t *testing.T, bug scheduleBug, sc script) (err error) {
	synctest.Test(t, func(t *testing.T) {
		c := &skewed{Fake: clock.NewFake()}
		m := model.New(model.Config{Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, OneShard: true,
			Manual: true})
		defer m.Close()
		e := &buggyFirer{Engine: m, clock: c, bug: bug}
		h := &Harness{Engine: e, Maintainer: e, Clock: c.Fake, Quiet: synctest.Wait}
		err = playSchedules(t.Context(), h, sc, situations{})
	})
	return err
}

// scheduleBug changes the input or the output of an engine.
type scheduleBug struct {
	put      func(*buggyFirer, duly.QueueRef, *duly.Schedule)
	got      func(*duly.ScheduleInfo)
	page     func(duly.PageParams, *duly.SchedulePage)
	item     func(*buggyFirer, duly.QueueRef, *contract.FireItem)
	fireSkew time.Duration // error with which Fire reads the clock
	stepSkew time.Duration
	ignored  string // name of the operation that does nothing
	err      func(error) error
}

func scheduleBugs() map[string]scheduleBug {
	return map[string]scheduleBug{
		"FiresAMillisecondEarly": {fireSkew: time.Millisecond},
		"FiresAMillisecondLate":  {stepSkew: -time.Millisecond},
		"IgnoresTheVersionOfAFire": {item: func(b *buggyFirer, q duly.QueueRef, i *contract.FireItem) {
			i.Version = b.stored(q, i.Name).Version
		}},
		"FiresATickTwice": {item: func(b *buggyFirer, q duly.QueueRef, i *contract.FireItem) {
			if next := b.stored(q, i.Name).Next; !next.IsZero() && next.UnixMilli() > i.Expected {
				i.Expected, i.Tick, i.Following = next.UnixMilli(), next.UnixMilli(), 0
			}
		}},
		"CountsNoMissedTicks":    {item: func(_ *buggyFirer, _ duly.QueueRef, i *contract.FireItem) { i.Missed = 0 }},
		"ForgetsTheExpiryOfARun": {item: func(_ *buggyFirer, _ duly.QueueRef, i *contract.FireItem) { i.ExpiresAt = 0 }},
		"MovesTheTickAtEachPut": {put: func(b *buggyFirer, q duly.QueueRef, s *duly.Schedule) {
			b.Engine.DeleteSchedule(context.Background(), q, s.Name, 0)
		}},
		"IgnoresTheOwner": {put: func(b *buggyFirer, q duly.QueueRef, s *duly.Schedule) {
			s.Owner = b.stored(q, s.Name).Owner
		}},
		"IgnoresTheJitter": {put: func(_ *buggyFirer, _ duly.QueueRef, s *duly.Schedule) { s.Jitter = 0 }},
		"SkipsAsItCatchesUp": {put: func(_ *buggyFirer, _ duly.QueueRef, s *duly.Schedule) {
			if s.Catchup == duly.CatchupAll {
				s.Catchup = duly.CatchupOne
			}
		}},
		"LosesTheLastTick": {got: func(i *duly.ScheduleInfo) { i.Last = time.Time{} }},
		"SkipsOneAtAPage": {page: func(p duly.PageParams, page *duly.SchedulePage) {
			if p.Cursor != "" && len(page.Schedules) > 0 {
				page.Schedules = page.Schedules[1:]
			}
		}},
		"IgnoresPause":      {ignored: "pause"},
		"IgnoresResume":     {ignored: "resume"},
		"DeletesAnyVersion": {ignored: "version"},
		"SleepsOn":          {ignored: "wait"},
		"AnswersAStaleDelete": {err: func(err error) error {
			if errors.Is(err, duly.ErrConflict) {
				return nil
			}
			return err
		}},
	}
}

// buggyFirer is a model with a bug in its schedules.
type buggyFirer struct {
	*model.Engine
	clock *skewed
	bug   scheduleBug
}

// stored returns a schedule, or the zero value if there is none.
func (b *buggyFirer) stored(q duly.QueueRef, name string) duly.ScheduleInfo {
	info, _ := b.Engine.GetSchedule(context.Background(), q, name)
	return info
}

func (b *buggyFirer) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	if b.bug.put != nil {
		b.bug.put(b, q, &s)
	}
	return b.Engine.PutSchedule(ctx, q, s)
}

func (b *buggyFirer) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	info, err := b.Engine.GetSchedule(ctx, q, name)
	if b.bug.got != nil {
		b.bug.got(&info)
	}
	return info, err
}

func (b *buggyFirer) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	page, err := b.Engine.Schedules(ctx, q, p)
	if b.bug.page != nil {
		b.bug.page(p, &page)
	}
	return page, err
}

func (b *buggyFirer) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	if b.bug.ignored == "version" {
		version = 0
	}
	err := b.Engine.DeleteSchedule(ctx, q, name, version)
	if b.bug.err != nil {
		err = b.bug.err(err)
	}
	return err
}

func (b *buggyFirer) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	if b.bug.ignored == "pause" {
		_, err := b.Engine.GetSchedule(ctx, q, name)
		return err
	}
	return b.Engine.PauseSchedule(ctx, q, name)
}

func (b *buggyFirer) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	if b.bug.ignored == "resume" {
		_, err := b.Engine.GetSchedule(ctx, q, name)
		return err
	}
	return b.Engine.ResumeSchedule(ctx, q, name)
}

func (b *buggyFirer) Fire(ctx context.Context, q duly.QueueRef, items []contract.FireItem) (
	[]contract.FireResult, error,
) {
	items = slices.Clone(items)
	for i := range items {
		if b.bug.item != nil {
			b.bug.item(b, q, &items[i])
		}
	}
	b.clock.by.Store(int64(b.bug.fireSkew))
	defer b.clock.by.Store(0)
	return b.Engine.Fire(ctx, q, items)
}

func (b *buggyFirer) Step(ctx context.Context, q duly.QueueRef) (bool, error) {
	b.clock.by.Store(int64(b.bug.stepSkew))
	defer b.clock.by.Store(0)
	return b.Engine.Step(ctx, q)
}

func (b *buggyFirer) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	ready, err := b.Engine.Wait(ctx, p)
	return ready && b.bug.ignored != "wait", err
}
