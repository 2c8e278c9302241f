package sqliteengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The kinds of fault of queues. The schema excludes other faults of the contract: a job is one row
// with one state, and SQLite maintains its indexes. So a job is never in no set or in two, no set
// has an entry without a job, and a leased job always has a lease end.
const (
	faultFile          = "file_damaged"       // SQLite's own check of the file failed
	faultStray         = "rows_without_queue" // rows of a queue that does not exist
	faultUnreadable    = "job_unreadable"     // a row that can't be read as a job
	faultPlace         = "place_wrong"        // the sort key does not match the job
	faultBodyMissing   = "body_missing"       // a job whose body is neither in its row nor in bodies
	faultBodyTwice     = "body_twice"         // a job with a body in its row and another body in bodies
	faultBodyStray     = "body_without_job"   // a row of bodies without its job
	faultAliasMissing  = "alias_missing"      // a job that can't be found by its ID
	faultAliasStray    = "alias_without_job"  // an alias without its job
	faultExpiryMissing = "expiry_missing"     // a TTL or Retain without its entry
	faultExpiryStray   = "expiry_without_job" // an entry without its job, or with another time
	faultMergeMissing  = "merge_key_missing"  // a waiting job that does not hold its merge key
	faultMergeStray    = "merge_key_wrong"    // an entry of table merges or replaceable without its job
	faultKeyNotHeld    = "order_key_not_held" // a ready or leased job that does not hold its order key
	faultKeyStray      = "order_key_wrong"    // an order key whose holder does not exist
	faultBlockedByNone = "blocked_by_nobody"  // a blocked job whose order key is free
	// The sizes differ from the recount, or the counters don't add up.
	faultCounters = "counters_differ"
	faultMoment   = "moment_missed"       // the timer would miss a due time, or a tick
	faultSchedule = "schedule_unreadable" // a schedule whose record cannot be read
	faultLimiter  = "limiter_wrong"       // a limiter that does not match its queue
)

// checkPage is the number of rows that a check reads at a time.
const checkPage = 500

// check is one Check call.
type check struct {
	e       *store
	p       contract.CheckParams
	t       checkTx // the read transaction of the check
	total   int64
	result  contract.CheckReport
	repairs []repair               // one repair for each fault in report.Faults
	groups  map[duly.QueueRef]bool // groups whose counters a repair may affect
}

// repair verifies and repairs a fault in a write transaction. found is false if the fault no
// longer exists. A nil mend means that the fault can't be repaired.
type repair func(t checkTx) (found bool, err error)

func (c *check) report(kind string, q *queue, id, detail string, m repair) {
	f := contract.Fault{Kind: kind, ID: id, Detail: detail}
	if q != nil {
		f.Queue = q.ref
	}
	// A repair may unbalance these groups, so balanceGroups visits them at the end.
	c.groups = c.affectedGroups(q)
	c.result.Faults = append(c.result.Faults, f)
	c.repairs = append(c.repairs, m)
}

// run checks the whole file.
func (c *check) run(ctx context.Context, r *conn) error {
	c.t = checkTx{&tx{conn: r, w: c.e.w, readOnly: true}}
	c.t.begin()
	if err := c.fileFaults(); err != nil {
		return err
	}
	if err := c.strayRows(); err != nil {
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
			// Delayed messages are in the numbers of the log, not in the sizes.
			c.total += q.log.n.delayed
		}
	}

	// Topics come first, because repairs of groups need correct logs.
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
		// The queue in memory may know of no alias although the file has one, so the check looks up
		// every alias.
		q.aliased = true
		for _, part := range []func(context.Context, *queue) error{
			c.groupAndLog, c.jobs, c.aliases, c.heads, c.merges, c.replaceable, c.expiries, c.bodies, c.schedules,
			c.limiter,
		} {
			if err := part(ctx, q); err != nil {
				return err
			}
		}
	}

	return nil
}

// fileFaults runs SQLite's own check. A repair can't remove its faults; only restoring a backup
// can.
func (c *check) fileFaults() error {
	s := c.t.stmt("file_check")
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		if text := s.ColText(0); text != "ok" {
			c.report(faultFile, nil, "", text, nil)
		}
	}
}

func (c *check) strayRows() error {
	s := c.t.stmt("stray_queues")
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		id := s.ColInt(0)
		c.report(faultStray, nil, "", fmt.Sprintf("queue %d", id), func(t checkTx) (bool, error) {
			for _, name := range []string{"tallies_drop", "limiter_drop"} {
				if _, err := t.stmt(name).Int(1, id).Run(); err != nil {
					return false, err
				}
			}
			// Maintenance deletes the rows of a grave in small steps, so the repair stays short.
			_, err := t.stmt("grave_add").Int(1, id).Run()
			return true, err
		})
	}
}

// progress reports the progress to the caller.
func (c *check) progress(ctx context.Context) error {
	if c.p.Progress != nil {
		done := c.result.Jobs + c.result.Messages
		// The total comes from the stored counters, which may be too small.
		c.p.Progress(done, max(c.total, done))
	}
	return c.e.checkOpen(ctx)
}

// counters compares the sizes with a recount of the rows, and the counters with each other.
func (c *check) counters(q *queue, counted duly.Sizes) {
	if q.kind == kindGroup {
		c.groupCounters(q, counted)
		return
	}
	if counted != q.sizes {
		c.report(faultCounters, q, "", fmt.Sprintf("sizes are %+v, must be %+v", q.sizes, counted),
			repairCounters(q.ref))
		return
	}
	// The sum includes the sizes, so it is meaningful only if the sizes are correct.
	if sum := q.accounted(); sum != q.counters.Pushed {
		c.report(faultCounters, q, "", fmt.Sprintf("pushed is %d, but the other counters add up to %d",
			q.counters.Pushed, sum), repairCounters(q.ref))
	}
}

func repairCounters(ref duly.QueueRef) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil {
			return false, nil
		}
		// Calls have changed the queue since the check read it, so the repair counts again.
		counted, err := t.recount(q)
		if err != nil || counted == q.sizes && q.accounted() == q.counters.Pushed {
			return false, err
		}
		q.sizes = counted
		// No other counter records how many jobs were pushed, so Pushed follows from the others.
		q.counters.Pushed = q.accounted()
		return true, nil
	}
}

func (t checkTx) recount(q *queue) (z duly.Sizes, err error) {
	s := t.stmt("recount").Int(1, q.id)
	for {
		row, err := s.Step()
		if err != nil || !row {
			return z, err
		}
		*z.Of(duly.State(s.ColInt(0))) = s.ColInt(1)
	}
}

// earliestTimes finds queues whose earliest times in memory are later than in the indexes. The
// timer would miss these times.
func (c *check) earliestTimes(ctx context.Context) error {
	var late []duly.QueueRef
	err := c.e.change(ctx, func(t *tx) error {
		// A transaction runs again after a full disk, so it begins with an empty list.
		late = nil
		for ref, q := range t.w.queues {
			// Earlier calls of the same transaction may have changed the queue.
			if q.draft != nil {
				q = q.draft
			}
			if q.destroyed {
				continue
			}
			// The indexes are the truth. The times in memory may be earlier, but never later.
			truth := queue{id: q.id, kind: q.kind}
			if err := truth.readEarliest(t.conn); err != nil {
				return err
			}
			if q.earliest.isLater(truth.earliest) || truth.aliased && !q.aliased || truth.schedules != q.schedules {
				late = append(late, ref)
			}
		}
		return nil
	})

	for _, ref := range late {
		c.report(faultMoment, &queue{ref: ref}, "", "", func(t checkTx) (bool, error) {
			if q := t.queue(ref); q != nil {
				return true, q.readEarliest(t.conn)
			}
			return false, nil
		})
	}

	return err
}

// isLater reports whether any time is later than the true time of the same kind.
func (m eventTimes) isLater(truth eventTimes) bool {
	return m.due > truth.due || m.leaseEnd > truth.leaseEnd || m.dead > truth.dead || m.expiry > truth.expiry ||
		m.tick > truth.tick
}

// repair repairs each fault in a transaction of its own.
func (c *check) repair(ctx context.Context) error {
	for i, m := range c.repairs {
		// A damaged file has no repair; it needs a backup.
		if m == nil {
			continue
		}
		// Calls ran since the check found the fault, so each repair verifies it again.
		found := false
		err := c.e.change(ctx, func(t *tx) (err error) {
			found, err = m(checkTx{t})
			return err
		})
		if err != nil {
			return err
		}
		f := &c.result.Faults[i]
		if f.Repaired = true; !found {
			f.Detail += " (it disappeared before the repair)"
		}
		c.result.Repaired++
	}

	// A repair of a topic or of a message changes the numbers that its groups are checked by.
	return c.balanceGroups(ctx)
}
