package sqliteengine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Deletes of running jobs that meet in one transaction, which is how programs
// end their jobs that know them by ID, are one statement per queue if nothing
// but its row has to go with the job.

// Delete implements duly.Operator.
func (e *Engine) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := duly.ValidateID(id); err != nil {
		return err
	}
	if err := ref.Validate(); err != nil {
		return err
	}
	d := &removal{ref: ref.Normal(), id: id}
	d.number, d.numbered = duly.ParseNumber(id)
	d.op = op{Call: items(1), joins: joinsRemovals, run: d.run}
	if err := e.write(ctx, &d.op); err != nil {
		return err
	}
	e.cancels.Publish(d.ref.Namespace, duly.Canceled{Queue: d.ref.Name, IDs: []string{id}})
	return nil
}

// WatchCancels implements duly.CancelWatcher. Only this process can remove a job.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w duly.CancelWatch) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	return e.cancels.Watch(ctx, duly.NamespaceOr(namespace), w)
}

// removal is one call of Delete.
type removal struct {
	op
	ref      duly.QueueRef
	q        *queue
	id       string
	number   duly.Number
	numbered bool // the ID is a number
}

// run may run more than once.
func (d *removal) run(t *tx) error {
	if err := t.known(d.ref); err != nil {
		return err
	}
	if d.q = t.queue(d.ref); d.q == nil {
		return d.notFound()
	}
	if !d.numbered || d.q.aliased || d.q.group != nil {
		return d.alone(t)
	}
	t.removals = append(t.removals, d)
	return nil
}

func (d *removal) notFound() error { return duly.NotFound(d.ref, d.id) }

// alone removes the job whatever it is.
func (d *removal) alone(t *tx) error {
	j, err := t.find(d.q, d.id)
	if err != nil {
		return err
	}
	if j == nil {
		return t.missing(d.q, d.id)
	}
	return t.remove(j)
}

// remove deletes a job. A done one was counted when it was acked.
func (t *tx) remove(j *job) error {
	if j.state != duly.StateDone {
		j.q.counters.Deleted++
	}
	return t.gone(j)
}

// flushRemovals removes the jobs whose removal waits.
func (t *tx) flushRemovals() error {
	all := t.removals
	slices.SortStableFunc(all, func(a, b *removal) int {
		return cmp.Or(cmp.Compare(a.q.id, b.q.id), bytes.Compare(a.number[:], b.number[:]))
	})

	for rest := all; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].q == rest[0].q {
			n++
		}
		n = width(n)
		if err := t.removeMany(rest[0].q, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}

	clear(all)
	t.removals = all[:0]
	return nil
}

// removeMany removes jobs of one queue, sorted by their numbers: those that are
// simple in one statement, then the others one by one.
func (t *tx) removeMany(q *queue, ds []*removal) error {
	simple, others, err := t.simplest(q, ds)
	if err != nil {
		return err
	}
	if err := t.many("removal_drop", q, simple, nil); err != nil {
		return err
	}
	q.counters.Deleted += int64(len(simple))
	q.sizes.Leased -= int64(len(simple))
	for _, d := range others {
		if d.err = d.alone(t); d.err != nil && !refusal(d.err) {
			return d.err
		}
	}
	return nil
}

// simplest tells which of the jobs are running and have neither keys nor a body
// elsewhere. Each is told once; who comes for it again is among the others.
func (t *tx) simplest(q *queue, ds []*removal) (simple []duly.Number, others []*removal, err error) {
	s := t.conn.many("removal_look", len(ds)).Int(1, q.id)
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
		number, runs := s.ColRaw(0), runsPlainly(s)
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

// runsPlainly reads the columns state, rules, and whether the body is inline:
// does the job run, and is its row all that there is of it?
func runsPlainly(s *sq.Stmt) bool {
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
