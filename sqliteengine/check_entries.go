package sqliteengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// entry is a row of another table that refers to a job.
type entry struct {
	number duly.Number
	text   string // an alias or an order key
	merge  string // a merge key
	at     int64  // a time of expiry
}

// entryKind describes a table of entries.
type entryKind struct {
	fault string
	list  string // name of the statement: ?1 is the queue, ?2 and ?4 the last entry, ?3 the limit
	scan  func(s *sqliteconn.Stmt) entry
	bind  func(s *sqliteconn.Stmt, last *entry) // binds the statement; last is nil for the first page
	// matches reports whether the entry is correct. j is the job that the entry names, or nil if
	// there is none.
	matches func(j *job, e *entry) bool
	drop    func(t *tx, q *queue, e *entry) error
}

func numberAt(s *sqliteconn.Stmt, i int) (n duly.Number) {
	copy(n[:], s.ColRaw(i))
	return n
}

func textFrom(last *entry) string {
	if last == nil {
		return ""
	}
	return last.text
}

func numberFrom(last *entry) []byte {
	if last == nil {
		return nil
	}
	return last.number[:]
}

var aliasKind = entryKind{
	fault:   faultAliasStray,
	list:    "check_aliases",
	scan:    func(s *sqliteconn.Stmt) entry { return entry{text: s.ColText(0), number: numberAt(s, 1)} },
	bind:    func(s *sqliteconn.Stmt, last *entry) { s.Text(2, textFrom(last)) },
	matches: func(j *job, e *entry) bool { return j != nil && j.alias() == e.text },
	drop: func(t *tx, q *queue, e *entry) error {
		_, err := t.stmt("alias_drop").Int(1, q.id).Text(2, e.text).Blob(3, e.number[:]).Run()
		return err
	},
}

var headKind = entryKind{
	fault: faultKeyStray,
	list:  "check_heads",
	scan:  func(s *sqliteconn.Stmt) entry { return entry{text: s.ColText(0), number: numberAt(s, 1)} },
	bind:  func(s *sqliteconn.Stmt, last *entry) { s.Text(2, textFrom(last)) },
	// A delayed job holds its key after its first delivery.
	matches: func(j *job, e *entry) bool {
		return j != nil && j.lockKey() == e.text &&
			(j.state == duly.StateReady || j.state == duly.StateLeased || j.state == duly.StateDelayed && j.ended > 0)
	},
	drop: func(t *tx, q *queue, e *entry) error {
		dropped, err := t.stmt("head_drop").Int(1, q.id).Text(2, e.text).Blob(3, e.number[:]).Run()
		if err != nil || dropped == 0 { // An earlier repair has given the order key to another job.
			return err
		}
		return q.passKey(t, e.text)
	},
}

var mergeKind = entryKind{
	fault: faultMergeStray,
	list:  "check_merges",
	scan: func(s *sqliteconn.Stmt) entry {
		return entry{text: s.ColText(0), merge: s.ColText(1), number: numberAt(s, 2)}
	},
	bind: func(s *sqliteconn.Stmt, last *entry) {
		s.Text(2, textFrom(last))
		if last == nil {
			s.Text(4, "")
		} else {
			s.Text(4, last.merge)
		}
	},
	matches: func(j *job, e *entry) bool {
		return j != nil && j.lockKey() == e.text && j.entries().mergeKey == e.merge
	},
	drop: func(t *tx, q *queue, e *entry) error {
		_, err := t.stmt("merge_drop").Int(1, q.id).Text(2, e.text).Text(3, e.merge).Blob(4, e.number[:]).Run()
		return err
	},
}

var replaceableKind = entryKind{
	fault: faultMergeStray,
	list:  "check_replaceable",
	scan: func(s *sqliteconn.Stmt) entry {
		return entry{text: s.ColText(0), merge: s.ColText(1), number: numberAt(s, 2)}
	},
	bind: func(s *sqliteconn.Stmt, last *entry) { s.Blob(2, numberFrom(last)) },
	matches: func(j *job, e *entry) bool {
		return j != nil && j.lockKey() == e.text && j.MergeKey == e.merge && j.entries().replaceable
	},
	drop: func(t *tx, q *queue, e *entry) error {
		_, err := t.stmt("replaceable_drop").Int(1, q.id).Blob(2, e.number[:]).Run()
		return err
	},
}

var expiryKind = entryKind{
	fault: faultExpiryStray,
	list:  "check_expiries",
	scan:  func(s *sqliteconn.Stmt) entry { return entry{at: s.ColInt(0), number: numberAt(s, 1)} },
	bind: func(s *sqliteconn.Stmt, last *entry) {
		s.Blob(4, numberFrom(last))
		if last == nil {
			s.Int(2, -1<<63)
		} else {
			s.Int(2, last.at)
		}
	},
	matches: func(j *job, e *entry) bool { return j != nil && j.entries().expiry == e.at },
	drop: func(t *tx, q *queue, e *entry) error {
		_, err := t.stmt("expiry_drop").Int(1, q.id).Int(2, e.at).Blob(3, e.number[:]).Run()
		return err
	},
}

var bodyKind = entryKind{
	fault: faultBodyStray,
	list:  "check_bodies",
	scan:  func(s *sqliteconn.Stmt) entry { return entry{number: numberAt(s, 0)} },
	bind:  func(s *sqliteconn.Stmt, last *entry) { s.Blob(2, numberFrom(last)) },
	// An additional inline body is a fault of the job.
	matches: func(j *job, _ *entry) bool { return j != nil },
	drop: func(t *tx, q *queue, e *entry) error {
		_, err := t.stmt("body_drop").Int(1, q.id).Blob(2, e.number[:]).Run()
		return err
	},
}

func (c *check) aliases(ctx context.Context, q *queue) error { return c.entries(ctx, q, &aliasKind) }
func (c *check) heads(ctx context.Context, q *queue) error   { return c.entries(ctx, q, &headKind) }
func (c *check) merges(ctx context.Context, q *queue) error  { return c.entries(ctx, q, &mergeKind) }
func (c *check) replaceable(ctx context.Context, q *queue) error {
	return c.entries(ctx, q, &replaceableKind)
}
func (c *check) expiries(ctx context.Context, q *queue) error { return c.entries(ctx, q, &expiryKind) }
func (c *check) bodies(ctx context.Context, q *queue) error   { return c.entries(ctx, q, &bodyKind) }

// entries checks the entries of one table.
func (c *check) entries(ctx context.Context, q *queue, kind *entryKind) error {
	var last *entry
	// A page that is not full is the last one. The next page continues after the last entry in
	// the order of the primary key.
	for n := checkPage; n == checkPage; {
		s := c.t.stmt(kind.list).Int(1, q.id).Int(3, checkPage)
		kind.bind(s, last)
		var page []entry
		for {
			row, err := s.Step()
			if err != nil {
				return err
			}
			if !row {
				break
			}
			page = append(page, kind.scan(s))
		}
		for i := range page {
			if err := c.entry(q, kind, &page[i]); err != nil {
				return err
			}
			last = &page[i]
		}
		n = len(page)
		if err := ctx.Err(); err != nil {
			return err
		}
	}

	return nil
}

// entry compares an entry with its job.
func (c *check) entry(q *queue, kind *entryKind, e *entry) error {
	j, err := q.byNumber(c.t.tx, e.number)
	if err != nil || kind.matches(j, e) {
		return err
	}

	// An unreadable row counts as a missing job here. The check of jobs reports it.
	id, stray := "", *e
	if j != nil {
		id = j.ID
	}

	c.report(kind.fault, q, id, fmt.Sprintf("number %s", e.number), func(t checkTx) (bool, error) {
		q := t.queue(q.ref)
		if q == nil {
			return false, nil
		}
		j, err := q.byNumber(t.tx, stray.number)
		if err != nil || kind.matches(j, &stray) {
			return false, err
		}
		return true, kind.drop(t.tx, q, &stray)
	})
	return nil
}
