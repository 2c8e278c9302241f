package sqliteengine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// cursor is a position in a list: the sort key and the number of the last listed job.
type cursor struct {
	set    bool
	at     int64  // sort key in all states except blocked
	key    []byte // sort key of a blocked job
	number duly.Number
}

// text encodes a cursor as state, number and sort key.
func (c *cursor) text(state duly.State) string {
	b := append([]byte{byte(state)}, c.number[:]...)
	if state == duly.StateBlocked {
		b = append(b, c.key...)
	} else {
		b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// further returns the position that comes later in a list.
func (c cursor) further(o cursor, newest bool) cursor {
	order := cmp.Or(cmp.Compare(c.at, o.at), bytes.Compare(c.key, o.key), bytes.Compare(c.number[:], o.number[:]))
	if c.set && (order > 0) != newest {
		return c
	}
	return o
}

// parseCursor decodes a cursor of a list of that state.
func parseCursor(text string, state duly.State) (c cursor, err error) {
	if text == "" {
		return c, nil
	}

	b, err := base64.RawURLEncoding.DecodeString(text)
	const head = 1 + len(c.number)
	// Each state has different sort keys, so a cursor is valid for one state only.
	if err != nil || len(b) < head+8 || duly.State(b[0]) != state || len(b) > head+1+duly.MaxKey+8 {
		return c, contract.BadCursor()
	}

	c.set = true
	copy(c.number[:], b[1:])
	switch rest := b[head:]; {
	case state == duly.StateBlocked:
		c.key = rest
	case len(rest) != 8:
		return c, contract.BadCursor()
	default:
		c.at = int64(binary.BigEndian.Uint64(rest))
	}

	return c, nil
}

// List implements contract.Inspector.
func (e inspectorAPI) List(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	if err := contract.ValidateList(&p); err != nil {
		return page, err
	}
	from, err := parseCursor(p.Cursor, p.State)
	if err != nil {
		return page, err
	}
	if at, ok := contract.ListBound(&p); ok {
		from = from.further(cursor{set: true, at: at}, p.Newest)
	}
	if p.Key != "" {
		from = from.further(cursor{set: true, key: keyPlace(p.Key, p.Newest)}, p.Newest)
	}

	l := listReader{p: &p, behind: from}
	if err := e.onLongSnapshot(ctx, ref, l.read); err != nil {
		return page, err
	}
	return l.page, nil
}

// listReader is a page of a list.
type listReader struct {
	p      *duly.ListParams
	page   duly.ListPage
	behind cursor // position of the page's last job
	bytes  int    // bytes of bodies and results, if they are requested
}

// read adds jobs until the page or the slice ends. It skips unreadable rows. It reports whether
// more jobs follow.
func (l *listReader) read(t readTx, q *queue, s *readSlice) (more bool, err error) {
	if q == nil {
		return false, nil
	}
	name := "list_" + l.p.State.String()
	if l.p.Newest {
		name += "_newest"
	}
	rows := t.stmt(name).Int(1, q.id)
	l.behind.bind(rows, l.p.State, l.p.Newest)
	rows.Int(4, noLimit).Int(5, boolean(l.p.Bodies))
	defer rows.Reset()

	for {
		row, err := rows.Step()
		if err != nil || !row {
			return false, err
		}
		var j job
		if j.scanJob(rows, q) != nil {
			continue
		}
		// The jobs of another key follow.
		if l.p.Key != "" && j.OrderKey != l.p.Key {
			return false, nil
		}
		size, err := t.size(&j, rows)
		// The next step or Reserve counts the message as missed.
		if err == errGone {
			continue
		}
		if err != nil {
			return false, err
		}
		// A single large job still fits on a page of its own.
		if l.full(&j, size) {
			l.page.Next = l.behind.text(l.p.State)
			return false, nil
		}
		if err := l.add(t, &j, size); err != nil {
			return false, err
		}
		if s.timeUp() {
			return true, nil
		}
	}
}

// noLimit disables a statement's LIMIT. The caller stops early.
const noLimit = -1

// full reports whether a job belongs on the next page.
func (l *listReader) full(j *job, size int) bool {
	if l.p.Bodies {
		l.bytes += size + len(j.result)
	}
	n := len(l.page.Jobs)
	return n == l.p.Limit || n > 0 && l.bytes > duly.MaxBatchBytes
}

// add adds a job to the page.
func (l *listReader) add(t readTx, j *job, size int) error {
	if l.p.Bodies {
		if err := j.readBody(t.conn); err != nil {
			return err
		}
	}
	info := j.info(j.state, size)
	if !l.p.Bodies {
		info.Body, info.Result = nil, nil
	}
	l.page.Jobs = append(l.page.Jobs, info)
	l.behind = j.cursor()
	return nil
}

// Queues implements contract.Inspector.
func (e inspectorAPI) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.namePage(ctx, p, "queue_names", contract.NamespaceOr(namespace))
}

// Namespaces implements contract.Registry.
func (e inspectorAPI) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return e.namePage(ctx, p, "namespace_names", "")
}

// bind binds the position to the arguments of a list statement. An unset position is the beginning.
func (c *cursor) bind(s *sqliteconn.Stmt, state duly.State, newest bool) {
	switch {
	case c.set && state == duly.StateBlocked:
		s.Blob(2, c.key)
	case c.set:
		s.Int(2, c.at)
	case !newest:
		s.Int(2, math.MinInt64)
	case state == duly.StateBlocked:
		s.Blob(2, []byte{0xff}) // a key begins with its length, of at most MaxKey
	default:
		s.Int(2, math.MaxInt64)
	}

	if c.set {
		s.Blob(3, c.number[:])
	} else {
		s.Blob(3, nil)
	}
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
