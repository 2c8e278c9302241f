package model

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logcursor"
)

// Read implements contract.Topics.
func (e *Engine) Read(ctx context.Context, ref duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	if err := p.Validate(ref); err != nil {
		return contract.ReadPage{}, err
	}
	over := make(chan struct{})

	// One timeout covers all tries of the loop, so an empty try does not restart it.
	timeout := e.cfg.Clock.AfterFunc(p.Wait, func() { close(over) })
	defer timeout.Stop()

	var topic *topic // topic of the first page
	for {
		page, changed, err := e.read(ctx, ref, p, &topic)
		if err != nil || len(page.Entries) > 0 || p.Wait == 0 {
			return page, err
		}

		p.From = page.Next // "end" means the end of the log at the first read
		select {
		case <-changed:
		case <-over:
			p.Wait = 0
		case <-ctx.Done():
			return contract.ReadPage{}, ctx.Err()
		}
	}
}

// read returns the page without waiting. The channel changed is closed when another read may return
// more. read sets *of to the topic. If *of is set already, it returns [duly.ErrNotFound] for
// another topic with the same name.
func (e *Engine) read(
	ctx context.Context, ref duly.QueueRef, p contract.ReadParams, of **topic,
) (page contract.ReadPage, changed <-chan struct{}, err error) {
	t, err := e.beginTopic(ctx, ref)
	if err != nil {
		return page, nil, err
	}
	defer e.mu.Unlock()

	// A topic may be destroyed and created again. Its positions then mean other messages.
	if *of != nil && *of != t {
		return page, nil, contract.NoTopic(ref)
	}
	*of = t
	next, err := t.readFrom(p.From)
	if err != nil {
		return page, nil, err
	}
	for i, l := range t.logs {
		if gone := l.first(); next[i].Ordinal < gone {
			page.Gap += t.gap(p.From, gone-next[i].Ordinal)
			next[i] = logcursor.Place{Ordinal: gone}
		}
	}

	page.Entries = t.merged(next, p.Limit)
	page.Next = logcursor.Next(next)

	// The channel is taken under the lock, so no message after this page goes unnoticed.
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return page, e.changed, nil
}

// gap returns gone for a From that names a message. After "start" or a time the reader expects no
// particular message, so gap returns 0.
func (t *topic) gap(from duly.From, gone uint64) int64 {
	if p, _ := contract.ParseFrom(from); p.Kind == contract.KindPosition || p.Kind == contract.KindNext {
		return int64(gone)
	}
	return 0
}

// merged returns messages by position, beginning at the ordinals in next, and advances the
// ordinals.
func (t *topic) merged(next []logcursor.Place, limit int) (entries []contract.Entry) {
	bytes := 0
	for len(entries) < limit {
		var least *message
		for i, l := range t.logs {
			rest := l.from(next[i].Ordinal)
			if len(rest) > 0 && (least == nil || slices.Compare(rest[0].position[:], least.position[:]) < 0) {
				least = rest[0]
			}
		}
		if least == nil {
			break
		}

		// The first message always fits: a larger body is a page of its own (C4.6).
		if bytes += len(least.Body); len(entries) > 0 && bytes > duly.MaxBatchBytes {
			break
		}
		entries = append(entries, least.entry())
		next[contract.PositionPartsOf(least.position).Shard] = logcursor.Place{Ordinal: least.ordinal + 1, Seen: least.entered}
	}
	return entries
}

// readFrom returns where a Read begins in each shard.
func (t *topic) readFrom(from duly.From) (next []logcursor.Place, err error) {
	parts, _ := contract.ParseFrom(from) // was validated, so the error is impossible
	if parts.Kind == contract.KindNext {
		return t.parseNext(from, parts.Next)
	}
	for _, l := range t.logs {
		place := l.place(parts)
		if parts.Kind == contract.KindPosition && (place.ahead || l.lost(parts.Position)) {
			return nil, l.ends(from)
		}
		next = append(next, logcursor.Place{Ordinal: place.wanted})
	}
	return next, nil
}

func (t *topic) parseNext(from duly.From, text string) ([]logcursor.Place, error) {
	next, err := logcursor.Parse(text, len(t.logs))
	if err != nil {
		return nil, err
	}
	for i, l := range t.logs {
		n := next[i]
		if n.Ordinal > l.last.Ordinal+1 || n.Seen > 0 && l.replaced(n.Ordinal-1, n.Seen) {
			return nil, l.ends(from)
		}
	}
	return next, nil
}

// lost reports whether a position of this shard belonged to a lost message.
func (l *log) lost(position duly.Position) bool {
	at := contract.PositionPartsOf(position)
	return at.Shard == l.index && l.replaced(at.Ordinal, at.Millis)
}

// replaced reports whether the log never had, or has lost, a message that entered at ms. A deleted
// message is known only to have entered before the remaining ones.
func (l *log) replaced(ordinal uint64, ms int64) bool {
	rest := l.from(ordinal)
	switch {
	case len(rest) == 0:
		return ms > l.last.Millis
	case rest[0].ordinal == ordinal:
		return ms != rest[0].entered
	}
	return ms > rest[0].entered
}

// ends returns the error for a reader whose position is after the end of the log.
func (l *log) ends(from duly.From) error {
	if l.last.Ordinal == 0 {
		return contract.LogEnds(from, "")
	}
	return contract.LogEnds(from, l.last.Position().String())
}

// place is the position of a From in one shard.
type place struct {
	wanted  uint64 // the ordinal, whose message may be deleted
	clipped bool   // whether messages from there on are deleted
	ahead   bool   // whether the position is after the end
}

// place finds the position of a From in the shard. A position applies to its own shard. The other
// shards use the entry time of that position.
func (l *log) place(p contract.FromParts) place {
	switch p.Kind {
	case contract.KindEnd:
		return place{wanted: l.last.Ordinal + 1}
	case contract.KindTime:
		return l.placeOfTime(clock.CeilMilli(p.Time))
	case contract.KindPosition:
		at := contract.PositionPartsOf(p.Position)
		if at.Shard >= len(l.topic.logs) {
			return place{ahead: true}
		}
		if at.Shard == l.index {
			return place{wanted: at.Ordinal, clipped: at.Ordinal < l.first(), ahead: at.Ordinal > l.last.Ordinal}
		}
		return l.placeOfTime(at.Millis)
	}
	return place{wanted: l.first()}
}

// placeOfTime finds the first message that entered at ms or later.
func (l *log) placeOfTime(ms int64) place {
	i, _ := slices.BinarySearchFunc(l.messages, ms,
		func(m *message, ms int64) int { return cmp.Compare(m.entered, ms) })
	oldest := l.last.Millis + 1 // in an empty log, the target may be the last message that was there
	if len(l.messages) > 0 {
		oldest = l.messages[0].entered
	}
	return place{wanted: l.first() + uint64(i), clipped: l.first() > 1 && ms < oldest}
}

// delayedCursor is the position after which a list of delayed messages continues.
type delayedCursor struct {
	Shard int
	Due   int64
	ID    string
	Key   string
}

// Delayed implements contract.Topics.
func (e *Engine) Delayed(ctx context.Context, ref duly.QueueRef, p contract.DelayedParams) (page contract.DelayedPage, err error) {
	if err := contract.ValidatePage(&p.PageParams); err != nil {
		return page, err
	}
	after := delayedCursor{Due: -1}
	if p.Cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || json.Unmarshal(raw, &after) != nil || after.Shard < 0 {
			return page, contract.BadCursor()
		}
	}
	t, err := e.beginTopic(ctx, ref)
	if err != nil {
		return page, err
	}
	defer e.mu.Unlock()

	bytes := 0
	for _, l := range t.logs[min(after.Shard, len(t.logs)):] {
		inOrder := func(a, b *message) int { return byPlace(a.place(), b.place()) }
		for _, m := range slices.SortedFunc(slices.Values(l.delayed), inOrder) {
			place := m.place()
			if place.Shard = l.index; place.Shard == after.Shard && byPlace(place, after) <= 0 {
				continue
			}
			if p.Bodies {
				bytes += len(m.Body)
			}

			// The first message always fits. after is the last message of the page.
			if n := len(page.Messages); n == p.Limit || n > 0 && bytes > duly.MaxBatchBytes {
				text, _ := json.Marshal(after) // impossible to fail, because all fields are plain
				page.Next = base64.RawURLEncoding.EncodeToString(text)
				return page, nil
			}
			page.Messages = append(page.Messages, m.waiting(p.Bodies))
			after = place
		}
	}
	return page, nil
}

func (m *message) place() delayedCursor { return delayedCursor{Due: m.due, ID: m.ID, Key: m.Key} }

// byPlace compares delayed messages by their order within a shard. Messages with different keys may
// have the same ID.
func byPlace(a, b delayedCursor) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Key, b.Key))
}

// waiting returns a delayed message in the form for callers.
func (m *message) waiting(body bool) duly.Message {
	w := m.Message
	w.Due, w.Headers, w.Body = clock.FromMilli(m.due), maps.Clone(m.Headers), nil
	if body {
		w.Body = slices.Clone(m.Body)
	}
	return w
}

// findDelayed begins an operation on a delayed message. The caller ends the operation
// unless there is an error.
func (e *Engine) findDelayed(ctx context.Context, ref duly.QueueRef, key, id string) (*log, *message, error) {
	if err := contract.ValidateID(id); err != nil {
		return nil, nil, err
	}
	t, err := e.beginTopic(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	for _, shard := range contract.DelayedShards(key, id, t.cfg.Shards) {
		if m := t.logs[shard].findDelayed(key, id); m != nil {
			return t.logs[shard], m, nil
		}
	}
	e.end()
	return nil, nil, contract.NoMessage(ref, id)
}

// DelayedMessage implements contract.Topics.
func (e *Engine) DelayedMessage(ctx context.Context, ref duly.QueueRef, key, id string) (duly.Message, error) {
	_, m, err := e.findDelayed(ctx, ref, key, id)
	if err != nil {
		return duly.Message{}, err
	}
	defer e.end()
	return m.waiting(true), nil
}

// CancelDelayed implements contract.Topics.
func (e *Engine) CancelDelayed(ctx context.Context, ref duly.QueueRef, key, id string) error {
	l, m, err := e.findDelayed(ctx, ref, key, id)
	if err != nil {
		return err
	}
	defer e.end()
	l.delayed = slices.DeleteFunc(l.delayed, func(other *message) bool { return other == m })
	l.bytes -= m.size()
	l.counters.Canceled++
	return nil
}

// aheadOf reports whether a From is a time ahead of the clock.
func aheadOf(p contract.FromParts, now time.Time) bool {
	return p.Kind == contract.KindTime && p.Time.After(now)
}
