package pools

import (
	"cmp"
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The schedules of the old pool move once every server has seen that jobs are pushed to the new one. The
// server with the removal lock (removal_lock.go) moves each one in four steps:
//
//  1. It holds the schedule in the old pool. A held schedule fires nothing and refuses changes.
//  2. It stores a held copy in the new pool.
//  3. It deletes the schedule in the old pool.
//  4. It releases the copy. Its due ticks then fire in the new pool.
//
// Each step may be repeated. If the server dies, another one finds the schedule in the old pool and
// begins again with step 1, or finds only the held copy and makes step 4. A suspended server is refused,
// as at every step of a move.
//
// If the new pool refuses a copy, the schedule continues in the old pool, and the move waits.

// scheduleMove moves the schedules of a namespace. Its steps end with the lock.
type scheduleMove struct {
	*stepEngine
	m        *migratingEngine
	from, to contract.ScheduleMover
}

// heldSchedule is a schedule that is held.
type heldSchedule struct {
	queue duly.QueueRef
	name  string
}

// moveSchedules moves the schedules of the old pool, and releases copies in the new one that another
// server has left held.
func (m *migratingEngine) moveSchedules(ctx context.Context) error {
	s := scheduleMove{m: m}
	var ok, fits bool
	s.from, ok = inner(m.old).(contract.ScheduleMover)
	s.to, fits = inner(m.new).(contract.ScheduleMover)
	// advance has found that there are no schedules then.
	if !ok || !fits {
		return nil
	}

	var queues []string
	err := contract.QueuesWithSchedules(ctx, m.old, m.where.Namespace, func(queue string) error {
		queues = append(queues, queue)
		return nil
	})
	if err != nil {
		return err
	}
	var held []heldSchedule
	// Only a server with the lock can leave a hold, and to acquire the lock raises the version.
	free, _, _ := m.state.removal.state(m.where.Version, m.state.clock.Mono())
	if m.state.holdsEnded() != m.where.Version {
		if held, err = heldIn(ctx, m.new, m.where.Namespace); err != nil {
			return err
		}
	}

	if len(queues)+len(held) > 0 {
		if s.stepEngine, err = m.lockRemoval(ctx); err != nil {
			return err
		}
		for _, name := range queues {
			q := duly.QueueRef{Namespace: m.where.Namespace, Name: name}
			err = cmp.Or(err, s.moveQueue(ctx, q))
		}
		if err := cmp.Or(err, s.releaseCopies(ctx, held)); err != nil {
			return err
		}
		free = true
	}
	if free {
		m.state.setHoldsEnded(m.where.Version)
	}
	return nil
}

// moveQueue moves the schedules of a queue. It returns the first error, after it has tried all of them.
func (s *scheduleMove) moveQueue(ctx context.Context, q duly.QueueRef) error {
	// The list is complete before the first hold, which would change its order.
	var names []string
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		page, err := schedulerOf(s.m.old).Schedules(ctx, q, p)
		if err != nil {
			return err
		}
		for i := range page.Schedules {
			names = append(names, page.Schedules[i].Name)
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}

	// One after the other: each schedule is held for a few calls only, however many there are.
	var failed error
	for _, name := range names {
		err := s.move(ctx, q, name)
		// The lock is over, so every other step would be refused too.
		if errors.Is(err, duly.ErrConflict) {
			return err
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// move performs the four steps for one schedule.
func (s *scheduleMove) move(ctx context.Context, q duly.QueueRef, name string) error {
	var r, stored contract.ScheduleRecord
	err := s.run(ctx, func(ctx context.Context) (err error) {
		r, err = s.from.HoldSchedule(ctx, q, name)
		return err
	})
	// A caller has deleted it.
	if errors.Is(err, duly.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = s.run(ctx, func(ctx context.Context) (err error) {
			stored, err = s.to.ImportSchedule(ctx, r)
			return err
		})
		if errors.Is(err, duly.ErrInvalid) || errors.Is(err, duly.ErrFull) {
			return s.giveBack(ctx, q, name, err)
		}
	}
	if err == nil && !stored.Held && stored.Version < r.Version {
		err = s.putAgain(ctx, q, &r)
	}

	if err == nil {
		err = s.run(ctx, func(ctx context.Context) error { return s.from.DropSchedule(ctx, q, name) })
	}
	if err == nil || errors.Is(err, duly.ErrNotFound) {
		err = s.release(ctx, s.to, q, name)
	}
	return err
}

// giveBack releases a schedule in the old pool, because the new one has refused it. Another attempt may
// have stored a copy, which goes first: a schedule that a caller then deletes must not come back.
func (s *scheduleMove) giveBack(ctx context.Context, q duly.QueueRef, name string, reason error) error {
	err := s.run(ctx, func(ctx context.Context) error { return s.to.DropSchedule(ctx, q, name) })
	if err == nil || errors.Is(err, duly.ErrNotFound) {
		err = s.release(ctx, s.from, q, name)
	}
	if err != nil {
		return err
	}
	return contract.Errorf(duly.CodeOf(reason),
		"schedule %s of queue %s cannot move to the new pool, and stays in the old one: %w",
		contract.Quoted(name), q, reason)
}

// putAgain puts a schedule that was put to the old pool after one of its name to the new pool: the server
// was suspended, or had not seen the phase. The later put wins, unless the owner is another.
func (s *scheduleMove) putAgain(ctx context.Context, q duly.QueueRef, r *contract.ScheduleRecord) error {
	err := s.run(ctx, func(ctx context.Context) error {
		_, err := schedulerOf(s.m.new).PutSchedule(ctx, q, r.Schedule)
		return err
	})
	if errors.Is(err, duly.ErrConflict) || errors.Is(err, duly.ErrInvalid) {
		s.m.pools.cfg.Logger.Warn("a schedule of the old pool is dropped, because the new pool has another one of its name",
			"queue", q.String(), "schedule", r.Name, "error", err)
		return nil
	}
	return err
}

func (s *scheduleMove) release(ctx context.Context, e contract.ScheduleMover, q duly.QueueRef, name string) error {
	err := s.run(ctx, func(ctx context.Context) error { return e.ReleaseSchedule(ctx, q, name) })
	if errors.Is(err, duly.ErrNotFound) {
		return nil
	}
	return err
}

// releaseCopies releases copies whose originals are gone.
func (s *scheduleMove) releaseCopies(ctx context.Context, held []heldSchedule) error {
	for _, h := range held {
		_, err := schedulerOf(s.m.old).GetSchedule(ctx, h.queue, h.name)
		switch {
		case errors.Is(err, duly.ErrNotFound):
			err = s.release(ctx, s.to, h.queue, h.name)
		// The next turn moves the original.
		case err == nil:
			err = contract.ScheduleMoves(h.queue, h.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heldIn lists the held schedules of a namespace in an engine.
func heldIn(ctx context.Context, e contract.Engine, namespace string) (held []heldSchedule, err error) {
	mover, ok := inner(e).(contract.ScheduleMover)
	if !ok {
		return nil, nil
	}
	err = contract.QueuesWithSchedules(ctx, e, namespace, func(queue string) error {
		q := duly.QueueRef{Namespace: namespace, Name: queue}
		for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
			page, err := mover.HeldSchedules(ctx, q, p)
			if err != nil {
				return err
			}
			for _, name := range page.Names {
				held = append(held, heldSchedule{q, name})
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				return nil
			}
		}
	})
	return held, err
}

// releaseHolds releases the held schedules of a namespace that does not move. Its pool has them if it was
// restored from a backup that was made during a move.
func (r *Pools) releaseHolds(ctx context.Context, where *contract.Placement) error {
	engine, err := r.poolEngine(where.Namespace, where.Pool)
	if err != nil {
		return err
	}
	held, err := heldIn(ctx, engine, where.Namespace)
	if err != nil || len(held) == 0 {
		return err
	}
	step, err := r.beginStep(ctx, engine, where)
	if err != nil {
		return err
	}
	for _, h := range held {
		err := step.run(ctx, func(ctx context.Context) error {
			return inner(engine).(contract.ScheduleMover).ReleaseSchedule(ctx, h.queue, h.name)
		})
		if err != nil && !errors.Is(err, duly.ErrNotFound) {
			return err
		}
	}
	return nil
}
