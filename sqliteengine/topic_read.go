package sqliteengine

import (
	"context"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Read implements duly.Topics. Every commit with new messages of the topic wakes a
// waiting reader.
func (e *Engine) Read(ctx context.Context, ref duly.QueueRef, p duly.ReadParams) (duly.ReadPage, error) {
	if err := p.Validate(ref); err != nil {
		return duly.ReadPage{}, err
	}

	ref = ref.Normal()
	timeout := e.cfg.Clock.NewTimer(p.Wait)
	defer timeout.Stop()
	for {
		entered := e.hub.entered(ref) // before the read, so that no message is missed
		page, err := e.readPage(ctx, ref, &p)
		if err != nil || len(page.Entries) > 0 || p.Wait == 0 {
			return page, err
		}
		p.From = page.Next // "end" is the end at the first read
		select {
		case <-entered:
		case <-timeout.C:
			p.Wait = 0
		case <-ctx.Done():
			return duly.ReadPage{}, ctx.Err()
		case <-e.stopped:
			return duly.ReadPage{}, duly.ErrClosed
		}
	}
}

// readPage reads a page without waiting.
func (e *Engine) readPage(ctx context.Context, ref duly.QueueRef, p *duly.ReadParams) (page duly.ReadPage, err error) {
	err = e.lookAtTopic(ctx, ref, func(t *tx, q *queue) error {
		page = duly.ReadPage{}
		next, err := t.readFrom(q, p.From)
		if err != nil {
			return err
		}
		if gone := q.log.n.first; next < gone {
			if f, _ := p.From.Parts(); f.Kind == duly.KindPosition || f.Kind == duly.KindNext {
				page.Gap = gone - next // with start or a time the reader expects no certain message
			}
			next = gone
		}
		return t.readEntries(q, next, p.Limit, &page)
	})
	return page, err
}

// readEntries adds the messages from an ordinal on.
func (t *tx) readEntries(q *queue, next int64, limit int, page *duly.ReadPage) error {
	defer func() { page.Next = duly.NextPrefix + duly.From(strconv.FormatInt(next, 10)) }()
	s := t.stmt("messages_from").Int(1, q.id).Int(2, next).Int(3, int64(limit))
	defer s.Reset()
	for bytes := 0; ; {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		ordinal, ms := s.ColInt(0), s.ColInt(1)
		m := message{id: s.ColText(2), key: s.ColText(3), headers: s.ColRaw(4), body: s.ColBytes(5)}
		if bytes += len(m.body); len(page.Entries) > 0 && bytes > duly.MaxBatchBytes {
			return nil
		}
		page.Entries = append(page.Entries, duly.Entry{
			Message: m.public(q.ref), Position: q.log.position(ordinal, ms), EnteredAt: clock.FromMilli(ms),
		})
		next = ordinal + 1
	}
}

// readFrom returns the ordinal at which a Read begins.
func (t *tx) readFrom(q *queue, from duly.From) (int64, error) {
	parts, _ := from.Parts() // was validated
	n := &q.log.n
	if parts.Kind == duly.KindNext {
		next, err := strconv.ParseUint(parts.Next, 10, 40)
		switch {
		case err != nil || next == 0:
			return 0, duly.Invalid("from", "is not the next of a page of this topic; begin with start, end, a time or a position")
		case int64(next) > n.last+1:
			return 0, q.log.ends(from)
		}
		return int64(next), nil
	}
	at, ahead, err := t.point(q, parts)
	if err == nil && ahead {
		err = q.log.ends(from)
	}
	return at.wanted, err
}

// ends returns the error for a From beyond the end of the log.
func (l *topicLog) ends(from duly.From) error {
	if l.n.last == 0 {
		return duly.LogEnds(from, "")
	}
	return duly.LogEnds(from, l.position(l.n.last, l.n.lastMs).String())
}
