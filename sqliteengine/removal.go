package sqliteengine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Deletes of leased jobs that meet in one transaction share a statement per queue, if
// only the job's row must go. Programs that end their jobs by ID cause such Deletes.

// Delete implements contract.Operator.
func (e *Engine) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
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
	e.cancels.Publish(d.ref.Namespace, contract.Canceled{Queue: d.ref.Name, IDs: []string{id}})
	return nil
}

// WatchCancels implements contract.CancelWatcher. It reports only deletions of this process,
// because no other process can change the file.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	return e.cancels.Watch(ctx, contract.NamespaceOr(namespace), w)
}

// deleteCall is one call of Delete.
type deleteCall struct {
	op
	ref      duly.QueueRef
	q        *queue
	id       string
	number   duly.Number
	numbered bool // the ID is the job's number
}

// run deletes the job or adds it to the shared statement. It may run more than once.
func (d *deleteCall) run(t *tx) error {
	if err := t.checkKnown(d.ref); err != nil {
		return err
	}
	if d.q = t.queue(d.ref); d.q == nil {
		return d.notFound()
	}
	if !d.numbered || d.q.aliased || d.q.group != nil {
		return d.runAlone(t)
	}
	t.deletes = append(t.deletes, d)
	return nil
}

func (d *deleteCall) notFound() error { return contract.NotFound(d.ref, d.id) }

// runAlone deletes the job by the general path.
func (d *deleteCall) runAlone(t *tx) error {
	j, err := t.find(d.q, d.id)
	if err != nil {
		return err
	}
	if j == nil {
		return t.notFound(d.q, d.id)
	}
	return t.deleteJob(j)
}

// deleteJob deletes a job. A done job was already counted by its ack.
func (t *tx) deleteJob(j *job) error {
	if j.state != duly.StateDone {
		j.q.counters.Deleted++
	}
	return t.remove(j)
}

// flushDeletes runs the waiting Deletes.
func (t *tx) flushDeletes() error {
	all := t.deletes
	slices.SortStableFunc(all, func(a, b *deleteCall) int {
		return cmp.Or(cmp.Compare(a.q.id, b.q.id), bytes.Compare(a.number[:], b.number[:]))
	})

	for rest := all; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].q == rest[0].q {
			n++
		}
		n = width(n)
		if err := t.deleteMany(rest[0].q, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}

	clear(all)
	t.deletes = all[:0]
	return nil
}

// deleteMany deletes jobs of one queue, sorted by number: simple jobs by one statement,
// then the others one by one.
func (t *tx) deleteMany(q *queue, ds []*deleteCall) error {
	simple, others, err := t.splitSimple(q, ds)
	if err != nil {
		return err
	}
	if err := t.runMany("delete_leased", q, simple, nil); err != nil {
		return err
	}
	q.counters.Deleted += int64(len(simple))
	q.sizes.Leased -= int64(len(simple))
	for _, d := range others {
		if d.err = d.runAlone(t); d.err != nil && !isRefusal(d.err) {
			return d.err
		}
	}
	return nil
}

// splitSimple splits Deletes by whether the job is leased and has no keys and no external
// body. A second Delete of a job is among the others.
func (t *tx) splitSimple(q *queue, ds []*deleteCall) (simple []duly.Number, others []*deleteCall, err error) {
	s := t.conn.many("delete_candidates", len(ds)).Int(1, q.id)
	for k, d := range ds {
		s.Blob(2+k, d.number[:])
	}

	for i := 0; ; {
		row, err := s.Step()
		if err != nil {
			return nil, nil, err
		}
		if !row {
			return simple, append(others, ds[i:]...), nil
		}
		number, runs := s.ColRaw(0), isPlainLeased(s)
		for ; i < len(ds); i++ {
			d := ds[i]
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
func isPlainLeased(s *sq.Stmt) bool {
	if duly.State(s.ColInt(1)) != duly.StateLeased || s.ColInt(3) == 0 {
		return false
	}
	rules := s.ColRaw(2)
	if rules == nil {
		return true
	}
	bits, n := binary.Uvarint(rules)
	return n > 0 && bits&^(knownRules&^(hasID|hasOrderKey|hasMerge)) == 0
}
