package pools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// This file has the calls by ID and the lists. A job is in one of the two pools and never moves to
// the other. So the order of the calls matters only if an ID is in both pools. In that case, the
// job in the old pool counts.

// maxLookups is the maximum number of concurrent look-ups in one call.
const maxLookups = 16

// inParallel calls do for 0…n-1, at most maxLookups at a time.
func inParallel(n int, do func(i int)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, maxLookups)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			do(i)
			<-slots
		})
	}
	running.Wait()
}

// either calls f with the old pool. If that returns not_found, it calls f with the new pool.
func either[T any](m *migratingEngine, f func(e contract.Engine) (T, error)) (T, error) {
	found, err := f(m.old)
	if errors.Is(err, duly.ErrNotFound) {
		return f(m.new)
	}
	return found, err
}

// eitherErr is like either for a call that returns only an error.
func (m *migratingEngine) eitherErr(f func(e contract.Engine) error) error {
	_, err := either(m, func(e contract.Engine) (struct{}, error) { return struct{}{}, f(e) })
	return err
}

// Get implements contract.Inspector.
func (m *migratingEngine) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.Get(ctx, q, id) })
}

// Find implements contract.Finder. It reads the old pool first, because jobs move from there to the
// new pool. A queue with the job in both pools has the job of the old one.
func (m *migratingEngine) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	parts := [2]contract.Found{}
	for i, e := range []contract.Engine{m.old, m.new} {
		var err error
		parts[i], err = contract.FinderOf(e).Find(ctx, namespace, id)
		if err != nil && !errors.Is(err, duly.ErrNotFound) {
			return contract.Found{}, err
		}
	}

	// The stable sort keeps the jobs of the old pool first.
	jobs := slices.Concat(parts[0].Jobs, parts[1].Jobs)
	slices.SortStableFunc(jobs, func(a, b duly.JobInfo) int { return strings.Compare(a.Queue, b.Queue) })
	jobs = slices.CompactFunc(jobs, func(a, b duly.JobInfo) bool { return a.Queue == b.Queue })

	// If a pool has more jobs, they come after its last one, so the result ends there.
	var found contract.Found
	for _, j := range jobs {
		if !found.Add(j) {
			break
		}
		for _, part := range parts {
			if part.More && part.Jobs[len(part.Jobs)-1].Queue == j.Queue {
				found.More = true
				return found, nil
			}
		}
	}
	return found.OrNotFound(namespace, id)
}

// GetJobs implements contract.Inspector. The new pool gets the IDs that the old pool does not have. The
// jobs of both pools share the room of the answer.
func (m *migratingEngine) GetJobs(
	ctx context.Context, q duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	results, err := m.old.GetJobs(ctx, q, ids, bodies)
	if err != nil {
		return nil, err
	}

	var room contract.JobRoom
	rest, indexes := missing(ids, func(i int) error { return results[i].Err })
	if len(rest) == 0 {
		return results, nil
	}
	for _, r := range results {
		if r.Err == nil {
			room.Take(len(r.Info.Body) + len(r.Info.Result))
		}
	}

	more, err := m.new.GetJobs(ctx, q, rest, bodies)
	for k, i := range indexes {
		switch {
		case err != nil:
			results[i].Err = partial(err)
		case more[k].Err == nil && !room.Take(len(more[k].Info.Body)+len(more[k].Info.Result)):
			results[i].Err = contract.NoRoom(ids[i])
		default:
			results[i] = more[k]
		}
	}
	return results, nil
}

// missing returns the IDs that the old pool does not have, with their indexes.
func missing(ids []string, result func(i int) error) (rest []string, indexes []int) {
	for i, id := range ids {
		if errors.Is(result(i), duly.ErrNotFound) {
			rest, indexes = append(rest, id), append(indexes, i)
		}
	}
	return rest, indexes
}

// GetByReceipt implements contract.Inspector. A receipt belongs to one pool.
func (m *migratingEngine) GetByReceipt(
	ctx context.Context, namespace string, r duly.Receipt,
) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.GetByReceipt(ctx, namespace, r) })
}

// Peek implements contract.Inspector.
func (m *migratingEngine) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.Peek(ctx, q) })
}

// These prefixes of a cursor name the pool of the rest of the cursor.
const (
	inOld = "o~"
	inNew = "n~"
)

// List implements contract.Inspector. It lists the jobs of the old pool, then those of the new
// pool. Newest first, the new pool comes before the old one.
func (m *migratingEngine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	first, second := poolList{inOld, m.old}, poolList{inNew, m.new}
	if p.Newest {
		first, second = second, first
	}
	prefix, cursor := poolOf(p.Cursor, first)
	if prefix == second.prefix {
		return second.list(ctx, q, p, cursor)
	}

	page, err := first.list(ctx, q, p, cursor)
	switch {
	case err != nil || page.Next != "":
		return page, err
	case len(page.Jobs) > 0:
		page.Next = second.prefix
		return page, nil
	}
	return second.list(ctx, q, p, "")
}

// poolList is one of the pools of a list. The prefix of a cursor says which pool continues it.
type poolList struct {
	prefix string
	engine contract.Engine
}

// list returns a page of the pool after a cursor without a prefix.
func (l poolList) list(
	ctx context.Context, q duly.QueueRef, p duly.ListParams, cursor string,
) (duly.ListPage, error) {
	p.Cursor = cursor
	page, err := l.engine.List(ctx, q, p)
	if page.Next != "" {
		page.Next = l.prefix + page.Next
	}
	return page, err
}

// poolOf splits a cursor into the prefix of its pool and the rest. An empty cursor is of the first
// pool.
func poolOf(cursor string, first poolList) (prefix, rest string) {
	if cursor == "" {
		return first.prefix, ""
	}
	if rest, ok := strings.CutPrefix(cursor, inNew); ok {
		return inNew, rest
	}
	// A cursor without a prefix is from before the move.
	return inOld, strings.TrimPrefix(cursor, inOld)
}

// afterMove converts a cursor of a namespace that moved into a cursor of the pool after the move.
func afterMove(cursor string) string {
	if strings.HasPrefix(cursor, inOld) {
		// The old pool has no jobs any more.
		return ""
	}
	return strings.TrimPrefix(cursor, inNew)
}

// endsAfterMove reports whether a list of a namespace that moved ends at its cursor. Newest first,
// the jobs of the old pool come last, and the old pool has none any more.
func endsAfterMove(p *duly.ListParams) bool { return p.Newest && strings.HasPrefix(p.Cursor, inOld) }

// Queues implements contract.Inspector.
func (m *migratingEngine) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	of := func(e contract.Engine) lister {
		return func(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
			return e.Queues(ctx, namespace, p)
		}
	}
	return mergeNames(ctx, p, []lister{of(m.old), of(m.new)})
}

// Stats implements contract.Inspector.
func (m *migratingEngine) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	a, err := m.old.Stats(ctx, q)
	if err != nil {
		return a, err
	}
	b, err := m.new.Stats(ctx, q)
	return addStats(a, b), err
}

// Survey implements contract.Surveyor.
func (m *migratingEngine) Survey(
	ctx context.Context, namespace string, p duly.PageParams,
) (page contract.SurveyPage, err error) {
	names, err := m.Queues(ctx, namespace, p)
	if err != nil {
		return page, err
	}

	page = contract.SurveyPage{Queues: make([]contract.QueueStats, len(names.Names)), Next: names.Next}
	inParallel(len(names.Names), func(i int) {
		page.Queues[i] = contract.ReadQueueStats(ctx, m, duly.QueueRef{Namespace: namespace, Name: names.Names[i]})
	})
	return page, nil
}

// addStats adds the statistics of a queue in two pools.
func addStats(a, b duly.Stats) duly.Stats {
	for _, s := range duly.States {
		*a.Sizes.Of(s) += *b.Sizes.Of(s)
	}
	c, d := &a.Counters, &b.Counters
	for to, n := range map[*int64]int64{
		&c.Pushed: d.Pushed, &c.Merged: d.Merged, &c.Delivered: d.Delivered, &c.Acked: d.Acked, &c.Failed: d.Failed,
		&c.Stalled: d.Stalled, &c.Released: d.Released, &c.Slowed: d.Slowed, &c.Dead: d.Dead, &c.Requeued: d.Requeued,
		&c.Expired: d.Expired, &c.Deleted: d.Deleted, &c.Dropped: d.Dropped,
	} {
		*to += n
	}

	// The oldest job and the next due time may be in either pool.
	a.OldestReady = max(a.OldestReady, b.OldestReady)
	if a.NextDue.IsZero() || !b.NextDue.IsZero() && b.NextDue.Before(a.NextDue) {
		a.NextDue = b.NextDue
	}
	a.Schedules += b.Schedules
	if a.NextTick.IsZero() || !b.NextTick.IsZero() && b.NextTick.Before(a.NextTick) {
		a.NextTick = b.NextTick
	}
	// A slow release closes the queue in the pool of its job.
	a.Closing = contract.LaterClosing(a.Closing, b.Closing)
	if b.Factor != 0 && (a.Factor == 0 || b.Factor < a.Factor) {
		a.Factor = b.Factor
	}
	a.Probing += b.Probing
	contract.AddTokens(&a, b.Tokens, b.NextToken)
	// After the move the queue of the new pool remains, so its settings are shown.
	if b.Delivery != "" {
		a.Delivery = b.Delivery
	}
	return a
}

// Config implements contract.Inspector.
func (m *migratingEngine) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	config, err := m.target.Config(ctx, q)
	if err != nil {
		return config, err
	}

	// The settings are the same in both pools, but each pool closes gates separately.
	for _, e := range []contract.Engine{m.old, m.new} {
		other, err := e.Config(ctx, q)
		if err != nil {
			return config, err
		}
		config.Closing = contract.LaterClosing(config.Closing, other.Closing)
	}
	return config, nil
}

// inBoth calls do with both pools. It succeeds even if one of them does not have the job or queue.
func (m *migratingEngine) inBoth(do func(e contract.Engine) error) error {
	errOld := do(m.old)
	errNew := do(m.new)
	if errOld == nil {
		errNew = partial(errNew)
	}

	switch {
	case errors.Is(errOld, duly.ErrNotFound):
		return errNew
	case errors.Is(errNew, duly.ErrNotFound):
		return errOld
	case errOld != nil:
		return errOld
	}
	return errNew
}

// Delete implements contract.Operator.
func (m *migratingEngine) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return m.inBoth(func(e contract.Engine) error { return e.Delete(ctx, q, id) })
}

// DeleteJobs implements contract.Operator. A job in the old pool counts, so the new pool gets only the
// IDs that the old pool has deleted or does not have.
func (m *migratingEngine) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	errs, err := m.old.DeleteJobs(ctx, q, ids, state)
	if err != nil {
		return nil, err
	}

	var rest []string
	var indexes []int
	for i, err := range errs {
		if err == nil || errors.Is(err, duly.ErrNotFound) {
			rest, indexes = append(rest, ids[i]), append(indexes, i)
		}
	}
	if len(rest) == 0 {
		return errs, nil
	}

	more, err := m.new.DeleteJobs(ctx, q, rest, state)
	for k, i := range indexes {
		deleted := errs[i] == nil
		switch {
		case err != nil:
			errs[i] = partial(err)
		// After a deletion in the old pool, the ID of another job in the new one is no error.
		case !deleted || !errors.Is(more[k], duly.ErrNotFound) && !errors.Is(more[k], duly.ErrConflict):
			errs[i] = more[k]
		}
	}
	return errs, nil
}

// Update implements contract.Operator.
func (m *migratingEngine) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	return m.eitherErr(func(e contract.Engine) error { return e.Update(ctx, q, id, u) })
}

// Promote implements contract.Operator.
func (m *migratingEngine) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return m.eitherErr(func(e contract.Engine) error { return e.Promote(ctx, q, id) })
}

// PromoteJobs implements contract.Operator. The new pool gets the IDs that the old pool does not have.
func (m *migratingEngine) PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) ([]error, error) {
	errs, err := m.old.PromoteJobs(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	rest, indexes := missing(ids, func(i int) error { return errs[i] })
	if len(rest) == 0 {
		return errs, nil
	}

	more, err := m.new.PromoteJobs(ctx, q, rest)
	for k, i := range indexes {
		if err != nil {
			errs[i] = partial(err)
		} else {
			errs[i] = more[k]
		}
	}
	return errs, nil
}

// Requeue implements contract.Operator. Dead jobs stay in the pool where they are.
func (m *migratingEngine) Requeue(
	ctx context.Context, q duly.QueueRef, p duly.RequeueParams,
) ([]duly.RequeueResult, error) {
	results, err := m.old.Requeue(ctx, q, p)
	if err != nil {
		return nil, err
	}
	if len(p.IDs) == 0 {
		// A requeue by count requeues the remaining number from the new pool.
		if p.N -= len(results); p.N == 0 {
			return results, nil
		}
		more, err := m.new.Requeue(ctx, q, p)
		if err != nil && len(results) > 0 {
			// The caller must get the jobs that were requeued, so the error is dropped.
			err = nil
		}
		return append(results, more...), err
	}

	var rest []string
	var indexes []int
	for i := range results {
		if errors.Is(results[i].Err, duly.ErrNotFound) {
			rest, indexes = append(rest, p.IDs[i]), append(indexes, i)
		}
	}
	if len(rest) == 0 {
		return results, nil
	}

	// A requeue by ID searches the IDs that the old pool does not have.
	p.IDs = rest
	more, err := m.new.Requeue(ctx, q, p)
	for k, i := range indexes {
		if err != nil {
			results[i].Err = partial(err)
		} else {
			results[i] = more[k]
		}
	}
	return results, nil
}

// Purge implements contract.Operator.
func (m *migratingEngine) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	purged, err := m.old.Purge(ctx, q, state, n)
	if err != nil || n > 0 && purged >= n {
		return purged, err
	}
	// Zero means all jobs.
	if n > 0 {
		n -= purged
	}
	more, err := m.new.Purge(ctx, q, state, n)
	if purged > 0 {
		err = partial(err)
	}
	return purged + more, err
}

// Destroy implements contract.Operator.
func (m *migratingEngine) Destroy(ctx context.Context, q duly.QueueRef) error {
	if err := m.old.Destroy(ctx, q); err != nil {
		return err
	}
	return partial(m.new.Destroy(ctx, q))
}
