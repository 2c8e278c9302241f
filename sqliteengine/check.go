package sqliteengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
)

var _ duly.Maintainer = (*Engine)(nil)

// The kinds of fault. What the tables can't hold is not among them: a job in no
// set or in two, a set entry without its job, a leased job without the end of
// its lease and a run state without its job are excluded by the one row that a
// job is, its CHECKs, and indexes that SQLite keeps.
const (
	faultFile          = "file_damaged"       // SQLite's own check of the file failed
	faultStray         = "rows_without_queue" // rows of a queue that does not exist
	faultUnreadable    = "job_unreadable"     // a row that can't be a job
	faultPlace         = "place_wrong"        // sorted where it does not belong
	faultBodyMissing   = "body_missing"       // no body anywhere
	faultBodyTwice     = "body_twice"         // a body inline and beside
	faultBodyStray     = "body_without_job"   // a body of no job
	faultAliasMissing  = "alias_missing"      // an own ID that finds nothing
	faultAliasStray    = "alias_without_job"  // an alias to nothing
	faultExpiryMissing = "expiry_missing"     // a TTL or Retain without its entry
	faultExpiryStray   = "expiry_without_job" // an entry without its job, or at another moment
	faultMergeMissing  = "merge_key_missing"  // a waiting job that does not hold its merge key
	faultMergeStray    = "merge_key_wrong"    // an entry of merges or replaceable without the job that it belongs to
	faultKeyNotHeld    = "order_key_not_held" // ready or leased without its order key
	faultKeyStray      = "order_key_wrong"    // an order key held by nothing
	faultBlockedByNone = "blocked_by_nobody"  // blocked, and the order key is free
	faultCounters      = "counters_differ"    // sizes are not the recount, or do not add up
	faultMoment        = "moment_missed"      // something is due that nobody would be woken for
)

// checkPage is how many rows are read at a time.
const checkPage = 500

// Check implements duly.Maintainer. It looks at one commit, beside all other
// work, and then mends fault by fault: each is judged again, and mended if it
// is still there, in one transaction.
func (e *Engine) Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error) {
	c := &check{e: e, p: p}
	if err := e.read(ctx, func(r *conn) error { return c.all(ctx, r) }); err != nil {
		return duly.CheckReport{}, err
	}
	if err := c.moments(ctx); err != nil {
		return duly.CheckReport{}, err
	}
	if p.Repair {
		if err := c.repair(ctx); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

// check is one Check under way.
type check struct {
	e      *Engine
	p      duly.CheckParams
	t      *tx // reads
	total  int64
	report duly.CheckReport
	mends  []mend                 // of report.Faults, one each
	groups map[duly.QueueRef]bool // with faults: mending one may change what adds up
}

// mend judges a fault again and mends it, in a transaction of the writer; found
// is false if it is there no more. nil: nothing can be done here.
type mend func(t *tx) (found bool, err error)

func (c *check) found(kind string, q *queue, id, detail string, m mend) {
	f := duly.Fault{Kind: kind, ID: id, Detail: detail}
	if q != nil {
		f.Queue = q.ref
	}
	c.groups = c.noteGroups(q)
	c.report.Faults = append(c.report.Faults, f)
	c.mends = append(c.mends, m)
}

// all looks at the whole file.
func (c *check) all(ctx context.Context, r *conn) error {
	c.t = &tx{conn: r, w: c.e.w, reading: true}
	c.t.begin()
	if err := c.file(); err != nil {
		return err
	}
	if err := c.strays(); err != nil {
		return err
	}

	if err := c.topicRows(); err != nil {
		return err
	}

	queues, err := loadQueues(r)
	if err != nil {
		return err
	}

	for _, q := range queues {
		c.total += q.held() + q.sizes.Dead + q.sizes.Done
		if q.kind == kindTopic {
			c.total += q.log.n.delayed
		}
	}

	// Topics first, so that their logs are mended before groups are fitted to them.
	for _, q := range queues {
		if q.kind == kindTopic {
			if err := c.topic(q); err != nil {
				return err
			}
		}
	}

	for _, q := range queues {
		if q.kind == kindTopic {
			continue
		}
		q.aliased = true
		for _, part := range []func(context.Context, *queue) error{
			c.groupAndLog, c.jobs, c.aliases, c.heads, c.merges, c.replaceable, c.expiries, c.bodies,
		} {
			if err := part(ctx, q); err != nil {
				return err
			}
		}
	}

	return nil
}

// file asks SQLite. What it finds can't be mended here: the file comes from a
// backup then.
func (c *check) file() error {
	s := c.t.stmt("file_check")
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		if text := s.ColText(0); text != "ok" {
			c.found(faultFile, nil, "", text, nil)
		}
	}
}

func (c *check) strays() error {
	s := c.t.stmt("stray_queues")
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		id := s.ColInt(0)
		c.found(faultStray, nil, "", fmt.Sprintf("queue %d", id), func(t *tx) (bool, error) {
			if _, err := t.stmt("tallies_drop").Int(1, id).Run(); err != nil {
				return false, err
			}
			_, err := t.stmt("grave_dig").Int(1, id).Run()
			return true, err
		})
	}
}

// progress tells how far it is.
func (c *check) progress(ctx context.Context) error {
	if c.p.Progress != nil {
		done := c.report.Jobs + c.report.Messages
		c.p.Progress(done, max(c.total, done))
	}
	return c.e.alive(ctx)
}

// counters compares sizes with what was counted, and the counters with each
// other.
func (c *check) counters(q *queue, counted duly.Sizes) {
	if q.kind == kindGroup {
		c.groupCounters(q, counted)
		return
	}
	if counted != q.sizes {
		c.found(faultCounters, q, "", fmt.Sprintf("sizes are %+v, must be %+v", q.sizes, counted), mendCounters(q.ref))
		return
	}
	if sum := q.accounted(); sum != q.counters.Pushed {
		c.found(faultCounters, q, "", fmt.Sprintf("pushed is %d, but %d jobs are accounted for", q.counters.Pushed, sum), mendCounters(q.ref))
	}
}

// accounted is what pushed must be.
func (q *queue) accounted() int64 {
	c := &q.counters
	return c.Acked + c.Merged + c.Expired + c.Deleted + c.Dropped + q.held() + q.sizes.Dead
}

func mendCounters(ref duly.QueueRef) mend {
	return func(t *tx) (bool, error) {
		q := t.queue(ref)
		if q == nil {
			return false, nil
		}
		counted, err := t.recount(q)
		if err != nil || counted == q.sizes && q.accounted() == q.counters.Pushed {
			return false, err
		}
		q.sizes = counted
		q.counters.Pushed = q.accounted()
		return true, nil
	}
}

func (t *tx) recount(q *queue) (z duly.Sizes, err error) {
	s := t.stmt("recount").Int(1, q.id)
	for {
		row, err := s.Step()
		if err != nil || !row {
			return z, err
		}
		*z.Of(duly.State(s.ColInt(0))) = s.ColInt(1)
	}
}

// moments asks the writer whether what it knows of the next moments is not
// later than what the indexes say: it would sleep over them.
func (c *check) moments(ctx context.Context) error {
	var late []duly.QueueRef
	err := c.e.change(ctx, func(t *tx) error {
		late = nil
		for ref, q := range t.w.queues {
			if q.work != nil { // changed by calls before this one, in the same transaction
				q = q.work
			}
			if q.destroyed {
				continue
			}
			truth := queue{id: q.id, kind: q.kind}
			if err := truth.readMoments(t.conn); err != nil {
				return err
			}
			if q.first.later(truth.first) || truth.aliased && !q.aliased {
				late = append(late, ref)
			}
		}
		return nil
	})

	for _, ref := range late {
		c.found(faultMoment, &queue{ref: ref}, "", "", func(t *tx) (bool, error) {
			if q := t.queue(ref); q != nil {
				return true, q.readMoments(t.conn)
			}
			return false, nil
		})
	}

	return err
}

// later tells whether any moment lies behind the true one.
func (m moments) later(truth moments) bool {
	return m.due > truth.due || m.leaseEnd > truth.leaseEnd || m.dead > truth.dead || m.expiry > truth.expiry
}

// repair mends what was found, each fault in a transaction of its own.
func (c *check) repair(ctx context.Context) error {
	for i, m := range c.mends {
		if m == nil {
			continue
		}
		found := false
		err := c.e.change(ctx, func(t *tx) (err error) {
			found, err = m(t)
			return err
		})
		if err != nil {
			return err
		}
		f := &c.report.Faults[i]
		if f.Repaired = true; !found {
			f.Detail += " (it had gone before it was mended)"
		}
		c.report.Repaired++
	}

	return c.balanceGroups(ctx)
}
