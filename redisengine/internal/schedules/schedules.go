package schedules

import (
	"cmp"
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Schedules implements contract.Firer.
type Schedules struct {
	*catalog.Catalog
	passes *Passes
}

// shardOf returns the shard of a schedule.
func shardOf(q *catalog.Queue, name string) *catalog.Shard {
	return q.Shards[contract.ScheduleShard(name, len(q.Shards))]
}

// found is a schedule as a script has returned it, with the state of its shard.
type found struct {
	record *contract.ScheduleRecord // nil for an unknown schedule
	clock  store.Reading
	stored int64 // number of schedules in the shard
}

// find reads a schedule.
func (e *Schedules) find(ctx context.Context, q *catalog.Queue, name string) (f found, err error) {
	asked := e.Local().Mono()
	r, err := e.Call(ctx, q, shardOf(q, name), store.ScriptScheduleGet, name)
	if err != nil {
		return f, err
	}
	f.clock, f.stored = e.reading(codec.Integer(&r.Rest[0]), asked), codec.Integer(&r.Rest[2])
	text := codec.Text(&r.Rest[1])
	if text == "" {
		return f, nil
	}

	record, err := codec.ReadSchedule(q.Ref, name, text)
	if err != nil {
		return f, &duly.Error{Code: duly.CodeCorrupt, Cause: err, Message: "schedule " + contract.Quoted(name) +
			" of queue " + q.Ref.String() + " cannot be read; run duly check --repair, and put it again"}
	}
	f.record = &record
	return f, nil
}

// must returns a schedule like find, and an error if it does not exist.
func (e *Schedules) must(ctx context.Context, q *catalog.Queue, ref duly.QueueRef, name string) (f found, err error) {
	if q == nil {
		return f, contract.NoSchedule(ref, name)
	}
	if f, err = e.find(ctx, q, name); err == nil && f.record == nil {
		err = contract.NoSchedule(ref, name)
	}
	return f, err
}

// GetSchedule implements duly.Scheduler.
func (e *Schedules) GetSchedule(ctx context.Context, ref duly.QueueRef, name string) (info duly.ScheduleInfo, err error) {
	if err := e.admit(ctx, contract.ValidateScheduleName(ref, name)); err != nil {
		return info, err
	}
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		f, err := e.must(ctx, q, ref, name)
		if err == nil {
			info = f.record.Info()
		}
		return err
	})
	return info, err
}

// admit begins an operation whose parameters were already validated.
func (e *Schedules) admit(ctx context.Context, invalid error) error {
	return cmp.Or(invalid, e.Alive(ctx))
}

// DeleteSchedule implements duly.Scheduler. It does not read the record, so an unreadable one can be
// deleted.
func (e *Schedules) DeleteSchedule(ctx context.Context, ref duly.QueueRef, name string, version int64) error {
	wanted := ""
	if version != 0 {
		wanted = codec.ScheduleVersion(version)
	}
	return e.drop(ctx, ref, name, wanted, "0")
}

// drop deletes a schedule. wanted is the version that it must have, "" for any. hold is "1" for a
// schedule that must be held, and "0" for one that must not.
func (e *Schedules) drop(ctx context.Context, ref duly.QueueRef, name, wanted, hold string) error {
	if err := e.admit(ctx, contract.ValidateScheduleName(ref, name)); err != nil {
		return err
	}
	return e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return contract.NoSchedule(ref, name)
		}
		r, err := e.Call(ctx, q, shardOf(q, name), store.ScriptScheduleDrop, name, wanted, hold, "")
		switch {
		case err != nil:
			return err
		case r.Word == "none":
			return contract.NoSchedule(ref, name)
		case r.Word == "other":
			return contract.ScheduleVersion(ref, name, codec.ReadScheduleVersion(&r.Rest[0]))
		case r.Word == "hold" && hold == "0":
			return contract.ScheduleMoves(ref, name)
		case r.Word == "hold":
			return contract.ScheduleFree(ref, name)
		}
		return nil
	})
}

// PauseSchedule implements duly.Scheduler.
func (e *Schedules) PauseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.change(ctx, ref, name, func(r *contract.ScheduleRecord, us int64) (bool, error) {
		if err := r.CheckFree(); err != nil {
			return false, err
		}
		return schedule.Pause(r, time.UnixMicro(us).UTC()), nil
	})
}

// ResumeSchedule implements duly.Scheduler.
func (e *Schedules) ResumeSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.change(ctx, ref, name, func(r *contract.ScheduleRecord, us int64) (bool, error) {
		if err := r.CheckFree(); err != nil || !r.Paused {
			return false, err
		}
		timing, err := schedule.Timing(&r.Schedule)
		if err != nil {
			return false, contract.Errorf(duly.CodeUnsupported, "schedule %s of queue %s cannot be resumed by this process: %w",
				contract.Quoted(name), ref, err)
		}
		return schedule.Resume(r, timing, time.UnixMicro(us).UTC()), nil
	})
}

// change changes the part of a schedule that the engine maintains. f changes the record, and
// reports whether it did.
func (e *Schedules) change(
	ctx context.Context, ref duly.QueueRef, name string, f func(r *contract.ScheduleRecord, us int64) (bool, error),
) error {
	if err := e.admit(ctx, contract.ValidateScheduleName(ref, name)); err != nil {
		return err
	}
	c := e.Retry(ctx)
	for c.Next() {
		done := true
		err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
			got, err := e.must(ctx, q, ref, name)
			if err != nil {
				return err
			}
			// f changes the record in place, so the old head is packed first.
			old := codec.ScheduleHead(got.record)
			if changed, err := f(got.record, got.clock.Now); err != nil || !changed {
				return err
			}

			s := shardOf(q, name)
			r, err := e.Call(ctx, q, s, store.ScriptScheduleSet, s.Limits, name, old, codec.ScheduleHead(got.record))
			if done = r.Word == "ok"; done {
				e.keep(q, got.record, got.clock)
			}
			return err
		})
		if err != nil || done {
			return err
		}
	}
	return c.Failed("schedule %s keeps changing", name)
}

// keep lets this process fire the next tick of a schedule that it has put or resumed. So the tick
// fires even if no waiter and no server watches the queue.
func (e *Schedules) keep(q *catalog.Queue, r *contract.ScheduleRecord, clock store.Reading) {
	if !r.Idle() {
		e.passes.Keep(catalog.ShardRef{Ref: q.Ref, Index: shardOf(q, r.Name).Index}, r.Next, clock)
	}
}

// place is the position from which a list continues.
type place struct {
	shard         int
	score, member string
}

func (p place) String() string { return strconv.Itoa(p.shard) + ":" + p.score + ":" + p.member }

// tickScore is how Redis writes the score of a schedule.
var tickScore = regexp.MustCompile(`^[0-9]{1,16}$`)

func readPlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	parts := strings.SplitN(cursor, ":", 3)
	if len(parts) != 3 {
		return p, contract.BadCursor()
	}
	p.shard, err = strconv.Atoi(parts[0])
	p.score, p.member = parts[1], parts[2]
	// A cursor comes from a caller, and its parts become arguments of a script.
	if err != nil || p.shard < 0 || (p.score == "") != (p.member == "") || p.score != "" && !tickScore.MatchString(p.score) {
		return p, contract.BadCursor()
	}
	return p, nil
}

// Schedules implements duly.Scheduler. It walks shard by shard, and skips records that cannot be read.
func (e *Schedules) Schedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (
	page duly.SchedulePage, err error,
) {
	if err := contract.ValidateSchedules(ref, &p); err != nil {
		return page, err
	}
	from, err := readPlace(p.Cursor)
	if err := e.admit(ctx, err); err != nil {
		return page, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		// With may call this function again, after an attempt that has filled a part of the page.
		page = duly.SchedulePage{}
		if q == nil {
			return nil
		}
		room := duly.MaxBatchBytes
		for at := from; at.shard < len(q.Shards); {
			l, err := e.list(ctx, q, at, false, p.Limit-len(page.Schedules))
			if err != nil {
				return err
			}
			for i := range l.records {
				page.Schedules = append(page.Schedules, l.records[i].Info())
			}

			room -= l.bytes
			if at = l.end; !l.more {
				at = place{shard: at.shard + 1}
			}
			if at.shard < len(q.Shards) && (l.more || room <= 0 || len(page.Schedules) >= p.Limit) {
				page.Next = at.String()
				return nil
			}
		}
		return nil
	})
	return page, err
}

// HeldSchedules implements contract.ScheduleMover. Held schedules are among those that fire nothing, at the
// end of each shard.
func (e *Schedules) HeldSchedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (
	page duly.NamePage, err error,
) {
	if err := contract.ValidateSchedules(ref, &p); err != nil {
		return page, err
	}
	from, err := readPlace(p.Cursor)
	if err := e.admit(ctx, err); err != nil {
		return page, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		page = duly.NamePage{}
		if q == nil {
			return nil
		}
		for at := from; at.shard < len(q.Shards); {
			if at.score == "" {
				at.score = codec.IdlePlace()
			}
			l, err := e.list(ctx, q, at, false, p.Limit-len(page.Names))
			if err != nil {
				return err
			}
			for i := range l.records {
				if l.records[i].Held {
					page.Names = append(page.Names, l.records[i].Name)
				}
			}

			if at = l.end; !l.more {
				at = place{shard: at.shard + 1}
			}
			if at.shard < len(q.Shards) && len(page.Names) >= p.Limit {
				page.Next = at.String()
				return nil
			}
		}
		return nil
	})
	return page, err
}

// listed is a page of one shard.
type listed struct {
	// Us is the engine's clock in µs. next is the first tick after it, or else a due tick, in ms.
	us, next   int64
	records    []contract.ScheduleRecord
	unreadable [][2]string // pairs of name and record
	bytes      int
	more       bool
	end        place
}

// list reads a page of one shard. With due, it reads only schedules whose tick is due.
func (e *Schedules) list(ctx context.Context, q *catalog.Queue, from place, due bool, most int) (l listed, err error) {
	r, err := e.Call(ctx, q, q.Shards[from.shard], store.ScriptScheduleList, codec.Flag(due), strconv.Itoa(most),
		from.score, from.member)
	if err != nil {
		return l, err
	}

	l.us, l.more = codec.Integer(&r.Rest[0]), codec.Integer(&r.Rest[2]) == 1
	l.end = place{from.shard, codec.Text(&r.Rest[3]), codec.Text(&r.Rest[4])}
	l.next = codec.Integer(&r.Rest[5])
	pairs := codec.Elements(&r.Rest[1])
	for i := 0; i+1 < len(pairs); i += 2 {
		name, text := codec.Text(&pairs[i]), codec.Text(&pairs[i+1])
		// Unreadable records count as well, because the answer contains them.
		l.bytes += len(text)
		record, err := codec.ReadSchedule(q.Ref, name, text)
		if err != nil {
			l.unreadable = append(l.unreadable, [2]string{name, text})
			continue
		}
		l.records = append(l.records, record)
	}
	return l, nil
}
