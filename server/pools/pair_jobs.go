package pools

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// What a pair does by ID and in lists. A job is in one of the two pools and never
// goes from one to the other, so the order in which they are asked changes
// nothing but for what is there twice: the older one counts.

// lookups is how many jobs are looked up at once.
const lookups = 16

// atOnce does something n times, several at once.
func atOnce(n int, do func(i int)) {
	var running sync.WaitGroup
	turns := make(chan struct{}, lookups)
	for i := range n {
		turns <- struct{}{}
		running.Go(func() {
			do(i)
			<-turns
		})
	}
	running.Wait()
}

// either asks the old pool, and the new one if that does not have it.
func either[T any](m *pair, ask func(e contract.Engine) (T, error)) (T, error) {
	found, err := ask(m.old)
	if errors.Is(err, duly.ErrNotFound) {
		return ask(m.new)
	}
	return found, err
}

// eitherOf is either for a call that returns only an error.
func (m *pair) eitherOf(ask func(e contract.Engine) error) error {
	_, err := either(m, func(e contract.Engine) (struct{}, error) { return struct{}{}, ask(e) })
	return err
}

// Get implements contract.Inspector.
func (m *pair) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.Get(ctx, q, id) })
}

// GetByReceipt implements contract.Inspector. A receipt is one pool's.
func (m *pair) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.GetByReceipt(ctx, namespace, r) })
}

// Peek implements contract.Inspector.
func (m *pair) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	return either(m, func(e contract.Engine) (duly.JobInfo, error) { return e.Peek(ctx, q) })
}

// The marks of a cursor: which pool's it is.
const (
	inOld = "o~"
	inNew = "n~"
)

// List implements contract.Inspector: the old pool's jobs, then the new one's.
func (m *pair) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	cursor, fromNew := strings.CutPrefix(p.Cursor, inNew)
	if !fromNew { // one without a mark is from before the move
		p.Cursor = strings.TrimPrefix(p.Cursor, inOld)
		page, err := m.old.List(ctx, q, p)
		switch {
		case err != nil:
			return page, err
		case page.Next != "":
			page.Next = inOld + page.Next
			return page, nil
		case len(page.Jobs) > 0:
			page.Next = inNew
			return page, nil
		}
	}
	p.Cursor = cursor
	if !fromNew {
		p.Cursor = ""
	}
	page, err := m.new.List(ctx, q, p)
	if page.Next != "" {
		page.Next = inNew + page.Next
	}
	return page, err
}

// afterMove is the cursor of a list that began while its namespace moved, once
// it is in one pool.
func afterMove(cursor string) string {
	if strings.HasPrefix(cursor, inOld) {
		return "" // what was there is over
	}
	return strings.TrimPrefix(cursor, inNew)
}

// Queues implements contract.Inspector.
func (m *pair) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	of := func(e contract.Engine) lister {
		return func(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
			return e.Queues(ctx, namespace, p)
		}
	}
	return merge(ctx, p, []lister{of(m.old), of(m.new)})
}

// Stats implements contract.Inspector.
func (m *pair) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	a, err := m.old.Stats(ctx, q)
	if err != nil {
		return a, err
	}
	b, err := m.new.Stats(ctx, q)
	return together(a, b), err
}

// Survey implements contract.Surveyor.
func (m *pair) Survey(ctx context.Context, namespace string, p duly.PageParams) (page contract.SurveyPage, err error) {
	names, err := m.Queues(ctx, namespace, p)
	if err != nil {
		return page, err
	}
	page = contract.SurveyPage{Queues: make([]contract.QueueStats, len(names.Names)), Next: names.Next}
	atOnce(len(names.Names), func(i int) {
		page.Queues[i] = contract.ReadQueueStats(ctx, m, duly.QueueRef{Namespace: namespace, Name: names.Names[i]})
	})
	return page, nil
}

// together is what two pools hold and have done.
func together(a, b duly.Stats) duly.Stats {
	for _, s := range duly.States {
		*a.Sizes.Of(s) += *b.Sizes.Of(s)
	}
	c, d := &a.Counters, &b.Counters
	for to, n := range map[*int64]int64{
		&c.Pushed: d.Pushed, &c.Merged: d.Merged, &c.Delivered: d.Delivered, &c.Acked: d.Acked, &c.Failed: d.Failed, &c.Stalled: d.Stalled,
		&c.Released: d.Released, &c.Dead: d.Dead, &c.Requeued: d.Requeued, &c.Expired: d.Expired, &c.Deleted: d.Deleted, &c.Dropped: d.Dropped,
	} {
		*to += n
	}
	a.OldestReady = max(a.OldestReady, b.OldestReady)
	if a.NextDue.IsZero() || !b.NextDue.IsZero() && b.NextDue.Before(a.NextDue) {
		a.NextDue = b.NextDue
	}
	if b.Delivery != "" { // its queue lasts
		a.Delivery = b.Delivery
	}
	return a
}

// Config implements contract.Inspector.
func (m *pair) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	return m.target.Config(ctx, q)
}

// inBoth does something in both pools, and is content if it was there in one.
func (m *pair) inBoth(do func(e contract.Engine) error) error {
	errOld := do(m.old)
	errNew := do(m.new)
	if errOld == nil {
		errNew = partly(errNew)
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
func (m *pair) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return m.inBoth(func(e contract.Engine) error { return e.Delete(ctx, q, id) })
}

// Update implements contract.Operator.
func (m *pair) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	return m.eitherOf(func(e contract.Engine) error { return e.Update(ctx, q, id, u) })
}

// Promote implements contract.Operator.
func (m *pair) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return m.eitherOf(func(e contract.Engine) error { return e.Promote(ctx, q, id) })
}

// Requeue implements contract.Operator: dead jobs live again where they are.
func (m *pair) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	results, err := m.old.Requeue(ctx, q, p)
	if err != nil {
		return nil, err
	}
	if len(p.IDs) == 0 {
		if p.N -= len(results); p.N == 0 {
			return results, nil
		}
		more, err := m.new.Requeue(ctx, q, p)
		if err != nil && len(results) > 0 {
			err = nil // those are requeued, and to be told
		}
		return append(results, more...), err
	}
	var rest []string
	var places []int
	for i := range results {
		if errors.Is(results[i].Err, duly.ErrNotFound) {
			rest, places = append(rest, p.IDs[i]), append(places, i)
		}
	}
	if len(rest) == 0 {
		return results, nil
	}
	p.IDs = rest
	more, err := m.new.Requeue(ctx, q, p)
	for k, i := range places {
		if err != nil {
			results[i].Err = partly(err)
		} else {
			results[i] = more[k]
		}
	}
	return results, nil
}

// Purge implements contract.Operator.
func (m *pair) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	purged, err := m.old.Purge(ctx, q, state, n)
	if err != nil || n > 0 && purged >= n {
		return purged, err
	}
	if n > 0 {
		n -= purged
	}
	more, err := m.new.Purge(ctx, q, state, n)
	if purged > 0 {
		err = partly(err)
	}
	return purged + more, err
}

// Destroy implements contract.Operator.
func (m *pair) Destroy(ctx context.Context, q duly.QueueRef) error {
	if err := m.old.Destroy(ctx, q); err != nil {
		return err
	}
	return partly(m.new.Destroy(ctx, q))
}
