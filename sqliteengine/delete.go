package sqliteengine

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// In a transaction, Deletes of leased jobs share a statement per queue if they delete only the
// job's row. Such Deletes come from programs that end their jobs by ID.

// Delete implements contract.Operator.
func (e operatorAPI) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	d := &deleteCall{ref: ref.Normal(), id: id}
	d.number, d.numbered = duly.ParseNumber(id)
	d.op = op{Call: items(1), kind: opDelete, run: d.run}
	if err := e.write(ctx, &d.op); err != nil {
		return err
	}
	// Handlers of a deleted job are canceled only after the commit.
	e.cancels.Publish(d.ref.Namespace, contract.Canceled{Queue: d.ref.Name, IDs: []string{id}})
	return nil
}

// DeleteJobs implements contract.Operator. It is one operation of a transaction.
func (e operatorAPI) DeleteJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if err := contract.ValidateDeleteJobs(ids, state); err != nil {
		return nil, err
	}

	d := &deletion{ref: ref, ids: copyList(ctx, ids), state: state}
	if err := e.onQueue(ctx, ref, spaceNone, d.run); err != nil {
		return nil, err
	}

	// Handlers of deleted jobs are canceled only after the commit.
	if len(d.deleted) > 0 && contract.MayRun(state) {
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name, IDs: d.deleted})
	}
	return d.errs, nil
}

// deletion is one call to DeleteJobs.
type deletion struct {
	ref     duly.QueueRef
	ids     []string
	state   duly.State // StateNone for any state
	errs    []error    // the result of each ID
	deleted []string
}

// run deletes the jobs in order. It may run more than once.
func (d *deletion) run(t *tx, q *queue) error {
	d.errs, d.deleted = make([]error, len(d.ids)), nil
	for i, id := range d.ids {
		err := d.delete(t, q, id)
		if err == nil {
			d.deleted = append(d.deleted, id)
		}

		// Any other error fails the whole call.
		d.errs[i] = err
		if failureOnly(err) != nil {
			return err
		}
	}
	return nil
}

// delete deletes one job. q is nil for an unknown queue.
func (d *deletion) delete(t *tx, q *queue, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	if q == nil {
		return contract.NotFound(d.ref, id)
	}
	j, err := q.findJob(t, id)
	if err != nil {
		return err
	}
	if j == nil {
		return q.notFound(t, id)
	}

	if d.state != duly.StateNone {
		is, err := j.currentState(t)
		if err != nil {
			return err
		}
		if is != d.state {
			return contract.WrongState(id, is, d.state)
		}
	}
	return j.deleteCounted(t)
}

// WatchCancels implements contract.CancelWatcher. It reports only deletions of this process,
// because no other process can change the file.
func (e operatorAPI) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	return e.cancels.Watch(ctx, contract.NamespaceOr(namespace), w)
}

// deleteCall is one call to Delete.
type deleteCall struct {
	op
	ref      duly.QueueRef
	q        *queue
	id       string
	number   duly.Number
	numbered bool // whether the ID is the job's number
}

// run deletes the job or adds it to the shared statement. It may run more than once.
func (d *deleteCall) run(t *tx) error {
	if err := t.checkKnown(d.ref); err != nil {
		return err
	}
	if d.q = t.queue(d.ref); d.q == nil {
		return d.notFound()
	}
	// These jobs have rows in other tables, so they can't share a statement.
	if !d.numbered || d.q.aliased || d.q.group != nil {
		return d.runAlone(t)
	}
	t.deletes = append(t.deletes, d)
	return nil
}

func (d *deleteCall) notFound() error { return contract.NotFound(d.ref, d.id) }

// runAlone deletes the job by the general path.
func (d *deleteCall) runAlone(t *tx) error {
	j, err := d.q.findJob(t, d.id)
	if err != nil {
		return err
	}
	if j == nil {
		return d.q.notFound(t, d.id)
	}
	return j.deleteCounted(t)
}

// deleteBatch holds the Deletes that wait for a shared statement.
type deleteBatch []*deleteCall

// flush runs the waiting Deletes.
func (b *deleteBatch) flush(t *tx) error {
	all := *b
	// Sorting puts the jobs of a queue together and matches the order of the rows.
	slices.SortStableFunc(all, func(a, b *deleteCall) int {
		return cmp.Or(cmp.Compare(a.q.id, b.q.id), bytes.Compare(a.number[:], b.number[:]))
	})

	// A statement deletes jobs of only one queue. Its width is one of the prepared widths.
	for rest := all; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].q == rest[0].q {
			n++
		}
		n = width(n)
		if err := rest[:n].run(t, rest[0].q); err != nil {
			return err
		}
		rest = rest[n:]
	}

	b.reset()
	return nil
}

func (b *deleteBatch) reset() {
	clear(*b)
	*b = (*b)[:0]
}

// run deletes jobs of one queue, sorted by number: simple jobs by one statement, then the
// others one by one.
func (b deleteBatch) run(t *tx, q *queue) error {
	simple, others, err := b.split(t, q)
	if err != nil {
		return err
	}
	if err := t.runMany("delete_leased", q, simple, nil); err != nil {
		return err
	}
	for _, n := range simple {
		q.noteProbeLeft(n, t.now)
	}
	q.counters.Deleted += int64(len(simple))
	q.sizes.Leased -= int64(len(simple))
	// A Delete without its job returns an error alone, as it would outside a batch.
	for _, d := range others {
		if d.err = d.runAlone(t); d.err != nil && !isRefusal(d.err) {
			return d.err
		}
	}
	return nil
}

// split splits Deletes by whether the job is leased and has no keys and no external body. A second
// Delete of the same job goes to others.
func (b deleteBatch) split(t *tx, q *queue) (simple []duly.Number, others deleteBatch, err error) {
	s := t.conn.many("delete_candidates", len(b)).Int(1, q.id)
	for k, d := range b {
		s.Blob(2+k, d.number[:])
	}

	for i := 0; ; {
		row, err := s.Step()
		if err != nil {
			return nil, nil, err
		}
		if !row {
			return simple, append(others, b[i:]...), nil
		}
		// Rows and calls are both sorted by number. The general path reports a number without a
		// row as missing.
		number, runs := s.ColRaw(0), isPlainLeased(s)
		for ; i < len(b); i++ {
			d := b[i]
			if c := bytes.Compare(d.number[:], number); c > 0 {
				break
			} else if c == 0 && runs {
				simple, runs = append(simple, d.number), false
			} else {
				others = append(others, d)
			}
		}
	}
}

// isPlainLeased reads the columns state, rules, and whether the body is inline. It reports
// whether the job is leased and consists only of its row.
func isPlainLeased(s *sqliteconn.Stmt) bool {
	if duly.State(s.ColInt(1)) != duly.StateLeased || s.ColInt(3) == 0 {
		return false
	}
	return !rules.HasEntries(s.ColRaw(2))
}
