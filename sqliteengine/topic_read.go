package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logcursor"
)

// Read implements contract.Topics. Every commit with new messages of the topic wakes a
// waiting reader.
func (e *Engine) Read(ctx context.Context, ref duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	if err := p.Validate(ref); err != nil {
		return contract.ReadPage{}, err
	}

	ref = ref.Normal()
	timeout := e.cfg.Clock.NewTimer(p.Wait)
	defer timeout.Stop()
	topic := int64(0) // the queue ID that the first page came from
	for {
		entered := e.notifier.entered(ref) // before the read, so that no message is missed
		page, err := e.readPage(ctx, ref, &p, &topic)
		if err != nil || len(page.Entries) > 0 || p.Wait == 0 {
			return page, err
		}
		p.From = page.Next // "end" is the end at the first read
		select {
		case <-entered:
		case <-timeout.C:
			p.Wait = 0
		case <-ctx.Done():
			return contract.ReadPage{}, ctx.Err()
		case <-e.stopped:
			return contract.ReadPage{}, duly.ErrClosed
		}
	}
}

// readPage reads a page without waiting. It sets topic to the ID of the topic. If topic is
// set, readPage returns ErrNotFound for another topic of the name.
func (e *Engine) readPage(ctx context.Context, ref duly.QueueRef, p *contract.ReadParams, topic *int64) (page contract.ReadPage, err error) {
	err = e.onTopicSnapshot(ctx, ref, func(t *tx, q *queue) error {
		page = contract.ReadPage{}
		if *topic != 0 && *topic != q.id {
			return contract.NoTopic(ref)
		}

		*topic = q.id
		next, err := t.readFrom(q, p.From)
		if err != nil {
			return err
		}

		if gone := uint64(q.log.n.first); next.Ordinal < gone {
			if f, _ := contract.ParseFrom(p.From); f.Kind == contract.KindPosition || f.Kind == contract.KindNext {
				page.Gap = int64(gone - next.Ordinal) // with start or a time the reader expects no certain message
			}
			next = logcursor.Place{Ordinal: gone}
		}

		return t.readEntries(q, next, p.Limit, &page)
	})
	return page, err
}

// readEntries adds the messages from a place on.
func (t *tx) readEntries(q *queue, next logcursor.Place, limit int, page *contract.ReadPage) error {
	defer func() { page.Next = logcursor.Next([]logcursor.Place{next}) }()
	s := t.stmt("messages_from").Int(1, q.id).Int(2, int64(next.Ordinal)).Int(3, int64(limit))
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
		page.Entries = append(page.Entries, contract.Entry{
			Message: m.public(q.ref), Position: q.log.position(ordinal, ms), EnteredAt: clock.FromMilli(ms),
		})
		next = logcursor.Place{Ordinal: uint64(ordinal) + 1, Seen: ms}
	}
}

// readFrom returns where a Read begins.
func (t *tx) readFrom(q *queue, from duly.From) (next logcursor.Place, err error) {
	parts, _ := contract.ParseFrom(from) // was validated
	if parts.Kind == contract.KindNext {
		return t.readFromNext(q, from, parts.Next)
	}
	at, ahead, err := t.point(q, parts)
	if err == nil && !ahead && parts.Kind == contract.KindPosition {
		ahead, err = t.replaced(q, at.wanted, contract.PositionPartsOf(parts.Position).Millis)
	}
	if err == nil && ahead {
		err = q.log.ends(from)
	}
	return logcursor.Place{Ordinal: uint64(at.wanted)}, err
}

func (t *tx) readFromNext(q *queue, from duly.From, text string) (next logcursor.Place, err error) {
	places, err := logcursor.Parse(text, 1)
	if err != nil {
		return next, err
	}
	next = places[0]
	lost := int64(next.Ordinal) > q.log.n.last+1
	if !lost && next.Seen > 0 {
		lost, err = t.replaced(q, int64(next.Ordinal)-1, next.Seen)
	}
	if err == nil && lost {
		err = q.log.ends(from)
	}
	return next, err
}

// replaced reports whether the log never had, or has lost, a message that entered at ms.
// Of a message that is gone, it only knows that it entered before those that are left.
func (t *tx) replaced(q *queue, ordinal, ms int64) (bool, error) {
	p, err := t.messageAt(q, ordinal)
	if p.ordinal == ordinal {
		return p.ms != ms, err
	}
	return ms > p.ms, err
}

// ends returns the error for a From beyond the end of the log.
func (l *topicLog) ends(from duly.From) error {
	if l.n.last == 0 {
		return contract.LogEnds(from, "")
	}
	return contract.LogEnds(from, l.position(l.n.last, l.n.lastMs).String())
}
