package topics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logcursor"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// reading is a Read of all shards.
type reading struct {
	topic   *identity // the topic that the Read found first; nil means any topic with the name
	from    duly.From
	parts   contract.FromParts
	limit   int
	room    int                // bytes of bodies that each shard may return beyond its first message
	entries [][]contract.Entry // entries of each shard
	more    []bool             // whether each shard has more messages after its entries
	next    []logcursor.Place  // where each shard continues
	gap     int64
	due     time.Duration // time until the next delayed message enters; 0 if there is none
}

// identity is the topic that a Read found first. Its later polls return [duly.ErrNotFound] for a
// topic that was created again.
type identity struct {
	known bool
	born  string
}

// readPage reads one page. due is the local time at which the next delayed message enters, or 0.
func (e *Topics) readPage(
	ctx context.Context, ref duly.QueueRef, p contract.ReadParams, topic *identity,
) (page contract.ReadPage, due time.Duration, err error) {
	r := &reading{from: p.From, limit: p.Limit, topic: topic}
	if r.parts, err = contract.ParseFromIn(p.From, ref, true); err != nil {
		return page, 0, err
	}
	if err := r.read(ctx, e, ref); err != nil {
		return page, 0, err
	}
	page.Entries = r.merged()
	page.Gap = r.gap
	page.Next = logcursor.Next(r.next)
	return page, r.dueAt(e.Local()), nil
}

// read reads all shards.
func (r *reading) read(ctx context.Context, e *Topics, ref duly.QueueRef) error {
	return e.WithTopic(ctx, ref, func(q *catalog.Queue) error {
		if r.topic != nil && r.topic.known && !q.Topic.Is(r.topic.born) {
			return contract.NoTopic(ref)
		}
		from, err := r.places(q)
		if err != nil {
			return err
		}
		// A page and all that is read for it are in memory, so the shards share the limit.
		r.room = max(1, duly.MaxBatchBytes/len(q.Shards))
		shards := len(q.Shards)
		r.entries, r.more, r.next = make([][]contract.Entry, shards), make([]bool, shards), make([]logcursor.Place, shards)
		// A retry starts over.
		r.gap, r.due = 0, 0
		for i, s := range q.Shards {
			if err := r.shard(ctx, e, q, s, from[i]); err != nil {
				return err
			}
		}

		if r.topic != nil {
			*r.topic = identity{true, q.Topic.Born}
		}
		return nil
	})
}

// dueAt returns when the next delayed message enters, by the given clock, or 0 if there is none.
func (r *reading) dueAt(c clock.Clock) time.Duration {
	if r.due == 0 {
		return 0
	}
	return c.Mono() + r.due
}

// readStart is the start in a shard: an ordinal, or a time from which on messages count.
type readStart struct {
	ordinal uint64
	ms      int64
	end     bool // after the last message of the shard
	// seen is a message that the shard must have had, unless the shard lost writes. A zero entry
	// time means none.
	seen messages.Place
}

// places returns the start position in every shard.
func (r *reading) places(q *catalog.Queue) ([]readStart, error) {
	all := make([]readStart, len(q.Shards))
	switch r.parts.Kind {
	case contract.KindNext:
		next, err := logcursor.Parse(r.parts.Next, len(all))
		if err != nil {
			return nil, err
		}
		for i, n := range next {
			all[i] = readStart{ordinal: n.Ordinal, seen: messages.Place{Ordinal: n.Ordinal - 1, Millis: n.Seen}}
		}
	case contract.KindPosition:
		parts := contract.PositionPartsOf(r.parts.Position)
		if parts.Shard >= len(all) {
			return nil, contract.LogEnds(r.from, "")
		}
		for i := range all {
			all[i].ms = parts.Millis
		}
		all[parts.Shard] = readStart{ordinal: parts.Ordinal, seen: messages.Place{Ordinal: parts.Ordinal,
			Millis: parts.Millis}}
	case contract.KindTime:
		for i := range all {
			all[i].ms = clock.CeilMilli(r.parts.Time)
		}
	case contract.KindEnd:
		for i := range all {
			all[i].end = true
		}
	}
	return all, nil
}

// shard reads one shard.
func (r *reading) shard(ctx context.Context, e *Topics, q *catalog.Queue, s *catalog.Shard, from readStart) error {
	most := r.limit
	if from.end {
		// Only the end is wanted, so no message is read.
		most = 0
	}
	reply, err := r.call(ctx, e, q, s, from, most)
	if err != nil {
		return err
	}
	now, first := codec.Integer(&reply.Rest[0]), codec.Integer(&reply.Rest[1])
	last, lastMS := codec.Integer(&reply.Rest[2]), codec.Integer(&reply.Rest[3])
	at := messages.ShardOf(q.Ref, s.Index)
	if wanted := int64(from.ordinal); wanted > 0 {
		// The log ends before the reader's position, so the shard has lost writes.
		if wanted > last && r.parts.Kind == contract.KindPosition || wanted > last+1 || codec.Integer(&reply.Rest[7]) == 1 {
			return ends(r.from, at, last, lastMS)
		}
		r.gap += max(0, first-wanted)
	}

	for _, m := range codec.Elements(&reply.Rest[5]) {
		if entry, ok := at.Entry(&m); ok {
			r.entries[s.Index] = append(r.entries[s.Index], entry)
		}
	}
	r.more[s.Index] = codec.Integer(&reply.Rest[4]) == 1
	next := logcursor.Place{Ordinal: uint64(last) + 1}
	if found := r.entries[s.Index]; len(found) > 0 {
		next.Ordinal = contract.PositionPartsOf(found[0].Position).Ordinal
	} else if from.ordinal > 0 {
		next.Ordinal = max(from.ordinal, uint64(first))
	}
	// Without a new message, the last seen message is still what proves that the next read misses
	// nothing.
	if next.Ordinal == from.seen.Ordinal+1 {
		next.Seen = from.seen.Millis
	}
	r.next[s.Index] = next
	// Both times are of the server's clock, so the difference needs no other clock.
	if due := codec.Integer(&reply.Rest[6]); due > 0 {
		if d := time.Duration(max(1, due-now)) * time.Millisecond; r.due == 0 || d < r.due {
			r.due = d
		}
	}
	return nil
}

// call reads a shard. Delayed messages that are due enter first.
func (r *reading) call(
	ctx context.Context, e *Topics, q *catalog.Queue, s *catalog.Shard, from readStart, most int,
) (catalog.Reply, error) {
	for {
		reply, err := e.CallTopic(ctx, q, s, store.ScriptTopicRead,
			strconv.FormatUint(from.ordinal, 10), strconv.FormatInt(from.ms, 10), strconv.Itoa(most), strconv.Itoa(r.room),
			strconv.FormatUint(from.seen.Ordinal, 10), strconv.FormatInt(from.seen.Millis, 10))
		if err != nil {
			return reply, err
		}
		// A due message belongs before the end of the log, so a step lets it enter.
		due := codec.Integer(&reply.Rest[6])
		if due == 0 || due > codec.Integer(&reply.Rest[0]) || e.Settings.Manual {
			return reply, nil
		}
		if _, err := e.StepTopic(ctx, q, s); err != nil {
			return reply, err
		}
	}
}

// ends returns the error for a reader whose position is after the end of the log.
func ends(from duly.From, at messages.Shard, last, ms int64) error {
	if last == 0 {
		return contract.LogEnds(from, "")
	}
	return contract.LogEnds(from, at.Position(messages.Place{Ordinal: uint64(last), Millis: ms}).String())
}

// merged merges the shards' messages by position, up to the position that all shards have reached.
func (r *reading) merged() (all []contract.Entry) {
	bytes := 0
	for len(all) < r.limit {
		least := -1
		for i, some := range r.entries {
			if len(some) == 0 {
				// The shard's next message may come before those of the other shards.
				if r.more[i] {
					return all
				}
				continue
			}
			if least < 0 || slices.Compare(some[0].Position[:], r.entries[least][0].Position[:]) < 0 {
				least = i
			}
		}
		if least < 0 {
			return all
		}
		e := r.entries[least][0]
		// A page always has at least one message, however large it is.
		if bytes += len(e.Body); len(all) > 0 && bytes > duly.MaxBatchBytes {
			return all
		}
		all = append(all, e)
		r.entries[least] = r.entries[least][1:]
		at := contract.PositionPartsOf(e.Position)
		r.next[least] = logcursor.Place{Ordinal: at.Ordinal + 1, Seen: at.Millis}
	}
	return all
}

// Delayed implements contract.Topics.
func (e *Topics) Delayed(ctx context.Context, ref duly.QueueRef, p contract.DelayedParams) (page contract.DelayedPage,
	err error) {
	if err := contract.ValidatePage(&p.PageParams); err != nil {
		return page, err
	}
	from, err := readCursor(p.Cursor, "")
	if err != nil {
		return page, err
	}
	if err := e.admit(ctx, ref); err != nil {
		return page, err
	}
	ref = ref.Normal()

	err = e.WithTopic(ctx, ref, func(q *catalog.Queue) error {
		page = contract.DelayedPage{}
		at, room := from, duly.MaxBatchBytes
		for at.Shard < len(q.Shards) {
			r, err := e.CallTopic(ctx, q, q.Shards[at.Shard], store.ScriptTopicDelayed,
				strconv.Itoa(p.Limit-len(page.Messages)), codec.Flag(p.Bodies), strconv.Itoa(room),
				at.Score, string(at.Member))
			if err != nil {
				return err
			}
			items := codec.Elements(&r.Rest[2])
			for i := 0; i+2 < len(items); i += 3 {
				m, ok := messages.Delayed(q.Ref, codec.Text(&items[i]), codec.Text(&items[i+1]))
				if !ok {
					continue
				}
				if !p.Bodies {
					m.Body = nil
				}
				room -= len(m.Body)
				page.Messages = append(page.Messages, m)
			}
			// The script's limit counts bodies even if the page leaves them out.
			more := codec.Integer(&r.Rest[1]) == 1
			at.Score, at.Member = codec.Text(&r.Rest[3]), []byte(codec.Text(&r.Rest[4]))
			if !more {
				at = cursor{Shard: at.Shard + 1}
			}
			if at.Shard < len(q.Shards) && (more || len(page.Messages) >= p.Limit) {
				page.Next = at.text()
				return nil
			}
		}
		return nil
	})
	return page, err
}

// delayed calls a script for one delayed message, in each shard that may have the message. It
// returns the reply of the shard that has it.
func (e *Topics) delayed(ctx context.Context, ref duly.QueueRef, key, id string,
	sc *store.LogScript) (found catalog.Reply, err error) {
	if err := contract.ValidateID(id); err != nil {
		return found, err
	}
	if err := e.admit(ctx, ref); err != nil {
		return found, err
	}
	err = e.WithTopic(ctx, ref.Normal(), func(q *catalog.Queue) error {
		for _, shard := range contract.DelayedShards(key, id, len(q.Shards)) {
			r, err := e.CallTopic(ctx, q, q.Shards[shard], sc, messages.DelayedName(key, id))
			if err != nil {
				return err
			}
			if found = r; r.Word == "ok" {
				return nil
			}
		}
		return contract.NoMessage(ref, id)
	})
	return found, err
}

// DelayedMessage implements contract.Topics.
func (e *Topics) DelayedMessage(ctx context.Context, ref duly.QueueRef, key, id string) (duly.Message, error) {
	r, err := e.delayed(ctx, ref, key, id, store.ScriptTopicMessage)
	if err != nil {
		return duly.Message{}, err
	}
	m, ok := messages.Delayed(ref.Normal(), id, codec.Text(&r.Rest[1]))
	if !ok {
		return duly.Message{}, contract.Errorf(
			duly.CodeCorrupt,
			"the delayed message %s of topic %s can't be read: another program has overwritten it; run duly check --repair",
			id, ref,
		)
	}
	return m, nil
}

// CancelDelayed implements contract.Topics.
func (e *Topics) CancelDelayed(ctx context.Context, ref duly.QueueRef, key, id string) error {
	_, err := e.delayed(ctx, ref, key, id, store.ScriptTopicCancel)
	return err
}
