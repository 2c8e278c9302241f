package topics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// publisher batches the publishes of a shard.
type publisher = batch.Batcher[*publishCall]

// publishCall is the part of one caller in a batched publish.
type publishCall struct {
	batch.Call
	items []*item
	read  func(items []rueidis.RedisMessage, ms int64, ordinals []uint64, durable error)
}

// newPublisher returns the publisher of a shard.
func (e *Topics) newPublisher(q *catalog.Queue, s *catalog.Shard) *publisher {
	p := &publisher{}
	store.InitBatcher(e.Store, p, func(ctx context.Context, calls []*publishCall) error {
		return e.send(ctx, q, s,
			calls)
	})
	return p
}

// item is one message being published.
type item struct {
	place int // index of the message in the caller's call
	id    string
	value string
	due   int64 // a delay in microseconds, or an absolute time in ms, negated; 0 means now
	bytes int
}

// Publish implements contract.Topics.
func (e *Topics) Publish(ctx context.Context, all []duly.Message) ([]duly.PublishResult, error) {
	if err := contract.CheckBatch(len(all), contract.MessageBytes(all)); err != nil {
		return nil, err
	}
	if err := e.Alive(ctx); err != nil {
		return nil, err
	}

	p := &publish{e: e, all: all, results: make([]duly.PublishResult, len(all))}
	var order []duly.QueueRef
	byTopic := map[duly.QueueRef][]int{}
	for i := range all {
		m := &all[i]
		p.results[i].ID = m.ID
		if err := contract.ValidateMessage(m, e.Settings.MaxBody); err != nil {
			p.results[i].Err = err
			continue
		}
		ref := duly.QueueRef{Namespace: m.Namespace, Name: m.Topic}.Normal()
		if byTopic[ref] == nil {
			order = append(order, ref)
		}
		byTopic[ref] = append(byTopic[ref], i)
	}

	// The topics are created one after the other, in the order of the messages.
	for _, ref := range order {
		if err := p.topic(ctx, ref, byTopic[ref]); err != nil {
			// If some messages are stored, the call reports the error only for the remaining
			// messages.
			if ctx.Err() != nil || !p.answered() {
				return nil, err
			}
			for _, i := range byTopic[ref] {
				p.fail(i, err)
			}
		}
	}
	return p.results, nil
}

// publish is one Publish in progress.
type publish struct {
	e       *Topics
	all     []duly.Message
	results []duly.PublishResult
}

// answered reports whether a message was stored.
func (p *publish) answered() bool {
	return slices.ContainsFunc(p.results, func(r duly.PublishResult) bool { return r.Status != 0 })
}

// fail sets the error of a message that has no answer yet.
func (p *publish) fail(i int, err error) {
	if r := &p.results[i]; r.Status == 0 && r.Err == nil {
		r.Err = err
	}
}

// topic publishes the messages of one topic. If a shard has another configuration, the answers of
// the other shards are kept.
func (p *publish) topic(ctx context.Context, ref duly.QueueRef, places []int) error {
	c := p.e.Retry(ctx)
	for c.Next() {
		q, err := p.e.Find(ctx, ref)
		if err != nil {
			return err
		}
		if q == nil {
			if q, err = p.e.CreateTopic(ctx, ref, p.e.TopicConfig()); err != nil {
				return p.refuse(places, err)
			}
		}
		if q.Topic == nil {
			return p.refuse(places, contract.IsQueue(ref))
		}

		err = p.send(ctx, q, places)
		var other *catalog.Stale
		if !errors.As(err, &other) {
			return err
		}
		if err := p.e.Sync(ctx, q, other); err != nil {
			return err
		}
		// Only messages without an answer are sent again.
		places = slices.DeleteFunc(slices.Clone(places), func(i int) bool {
			return p.results[i].Status != 0 ||
				p.results[i].Err != nil
		})
		if len(places) == 0 {
			return nil
		}
	}
	return c.Failed("the configuration of topic %s keeps changing", ref)
}

// refuse sets the answers of messages whose topic could not be created.
func (p *publish) refuse(places []int, err error) error {
	if code := duly.CodeOf(err); code != duly.CodeFull && code != duly.CodeConflict {
		return err
	}
	for _, i := range places {
		p.fail(i, err)
	}
	return nil
}

// send sends the messages to their shards.
func (p *publish) send(ctx context.Context, q *catalog.Queue, places []int) error {
	// This clock only chooses the shard. The script compares due times with the server's clock.
	now := p.e.Local().Now()
	parts := map[int][]*item{}
	// Messages without a key go to one shard together, which saves calls.
	free := anyShard(len(q.Shards))
	for _, i := range places {
		m := &p.all[i]
		stored, due, err := contract.PlanMessage(*m, now)
		if err != nil {
			p.results[i].Err = err
			continue
		}
		next := &item{place: i, id: m.ID, due: whenDue(m), bytes: len(m.Body)}
		delayed := due > clock.Milli(now)
		shard, fixed := contract.MessageShard(&stored, q.Topic.Config, delayed)
		if !fixed {
			shard = free
		}
		if next.due != 0 && next.id == "" {
			// Without an ID, a delayed message could not be found and canceled.
			next.id = duly.NewNumberIn(byte(shard)).String()
		}
		if delayed {
			stored.ID = next.id
		}
		next.value = messages.Pack(&stored)
		parts[shard] = append(parts[shard], next)
	}

	err := catalog.Parallel(slices.Collect(maps.Keys(parts)), func(shard int) error {
		return p.shard(ctx, q, q.Shards[shard], parts[shard])
	})
	// Other shards may have stored messages, and the error replaces all results.
	if ctx.Err() != nil && len(parts) > 1 {
		return link.Partly(err)
	}
	return err
}

// whenDue returns when a message enters, as the script reads it. The shard's clock decides
// whether an absolute time has passed.
func whenDue(m *duly.Message) int64 {
	if m.Delay > 0 {
		return codec.Micros(m.Delay)
	}
	if m.Due.IsZero() {
		return 0
	}
	// 0 would mean now, so a time before 1970 becomes -1.
	return -max(1, clock.CeilMilli(m.Due))
}

func (p *publish) shard(ctx context.Context, q *catalog.Queue, s *catalog.Shard, items []*item) error {
	c := &publishCall{items: items}
	c.Items = len(items)
	for _, i := range items {
		c.Bytes += i.bytes
	}
	at := messages.ShardOf(q.Ref, s.Index)
	c.read = func(odd []rueidis.RedisMessage, ms int64, ordinals []uint64, durable error) {
		for k, i := range items {
			r := &p.results[i.place]
			r.ID = i.id
			// An ordinal means that the message simply entered the log.
			if ordinals[k] > 0 {
				r.ID = p.all[i.place].ID
				r.Status, r.Position = duly.Created, at.Position(messages.Place{Ordinal: ordinals[k], Millis: ms})
			} else {
				*r = oddResult(q, s, i, codec.Elements(&odd[k]))
			}
			// The message is stored but not confirmed, so the caller gets the error.
			if r.Err == nil {
				r.Err = durable
			}
		}
	}
	err := p.e.State(q, s).Calls.(*publisher).Do(ctx, c)
	if err != nil && err == ctx.Err() {
		return contract.Unanswered(err)
	}
	return err
}

// oddResult returns the answer for a message that did not simply enter.
func oddResult(q *catalog.Queue, s *catalog.Shard, i *item, r []rueidis.RedisMessage) duly.PublishResult {
	switch codec.Text(&r[1]) {
	case "delayed":
		return duly.PublishResult{Status: duly.Created, ID: i.id}
	case "exists":
		result := duly.PublishResult{Status: duly.Exists, ID: i.id}
		if p := (messages.Place{Ordinal: uint64(codec.Integer(&r[3])), Millis: codec.Integer(&r[2])}); p.Ordinal > 0 {
			result.Position = messages.ShardOf(q.Ref, s.Index).Position(p)
		}
		return result
	case "used_up":
		return duly.PublishResult{ID: i.id, Err: usedUp(s.Tag + "log")}
	}
	c := q.Topic.Config
	setting, bound := "max_bytes", c.MaxBytes
	if codec.Text(&r[2]) == "max_count" {
		setting, bound = "max_count", int64(c.MaxCount)
	}
	return duly.PublishResult{ID: i.id, Err: contract.TopicFull(q.Ref, setting, bound)}
}

// usedUp returns the error for a log whose last entry has the last position. Deleting the key is
// the only way to lower its last ID that works on all servers.
func usedUp(key string) error {
	return contract.Errorf(
		duly.CodeCorrupt, "no message can enter the log %q: another program has added an entry at its last position; "+
			"let the groups finish their messages, delete this key, then run duly check --repair", key,
	)
}

// send runs a batched publish.
func (e *Topics) send(ctx context.Context, q *catalog.Queue, s *catalog.Shard, calls []*publishCall) error {
	n := 0
	for _, c := range calls {
		n += len(c.items)
	}
	args := make([]string, 0, n+2)
	args = append(args, strconv.Itoa(n), packAbout(calls, n))
	for _, c := range calls {
		for _, i := range c.items {
			args = append(args, i.value)
		}
	}
	r, durable, err := e.WriteTopic(ctx, q, s, store.ScriptTopicPublish, false, args...)
	if err != nil {
		return err
	}

	// Reads in other processes wait for the announcement.
	e.announce(q)
	ms, next, odd := codec.Integer(&r.Rest[0]), uint64(codec.Integer(&r.Rest[1])), codec.Elements(&r.Rest[2])
	at := 0
	// The messages that simply entered have consecutive ordinals.
	for _, c := range calls {
		about, ordinals := make([]rueidis.RedisMessage, len(c.items)), make([]uint64, len(c.items))
		for k := range c.items {
			at++
			if len(odd) > 0 && int(codec.Integer(&codec.Elements(&odd[0])[0])) == at {
				about[k], odd = odd[0], odd[1:]
				continue
			}
			ordinals[k] = next
			next++
		}
		c.read(about, ms, ordinals, durable)
	}
	return nil
}

// packAbout packs the IDs and due times of the messages. It returns "" if there are none.
func packAbout(calls []*publishCall, n int) string {
	anyID, anyDue := false, false
	for _, c := range calls {
		for _, i := range c.items {
			anyID, anyDue = anyID || i.id != "", anyDue || i.due != 0
		}
	}
	// An empty text saves the script from unpacking the usual case.
	if !anyID && !anyDue {
		return ""
	}

	var w codec.Packer
	w.Array(2)
	column := func(is bool, pack func(i *item)) {
		if !is {
			w.No()
			return
		}
		w.Array(n)
		for _, c := range calls {
			for _, i := range c.items {
				pack(i)
			}
		}
	}
	column(anyID, func(i *item) { w.Text(i.id) })
	column(anyDue, func(i *item) { w.Integer(i.due) })
	return string(w)
}
