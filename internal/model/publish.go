package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Publish implements contract.Topics.
func (e *Engine) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	if err := contract.CheckBatch(len(messages), contract.MessageBytes(messages)); err != nil {
		return nil, err
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	defer e.end()

	t, now := e.now()
	p := &publishing{e: e, t: t, now: now, stepped: map[*log]bool{}, chosen: map[*topic]int{}}
	results := make([]duly.PublishResult, len(messages))
	for i := range messages {
		results[i] = p.publish(messages[i])
	}

	// A step or a new message may have moved the floor. Checking the floor once at the end covers
	// the whole call.
	for l := range p.stepped {
		l.noteHolder(now)
	}
	return results, nil
}

// publishing is one Publish in progress.
type publishing struct {
	e       *Engine
	t       time.Time
	now     int64
	stepped map[*log]bool
	chosen  map[*topic]int // shards chosen for messages that may go to any shard, by topic
}

// publish checks in the contract's order: invalid, exists, full.
func (p *publishing) publish(m duly.Message) duly.PublishResult {
	failed := func(err error) duly.PublishResult { return duly.PublishResult{ID: m.ID, Err: err} }
	if err := contract.ValidateMessage(&m, p.e.cfg.MaxBody); err != nil {
		return failed(err)
	}
	stored, due, err := contract.PlanMessage(m, p.t)
	if err != nil {
		return failed(err)
	}
	topic, err := p.e.makeTopic(duly.QueueRef{Namespace: stored.Namespace, Name: m.Topic}, p.e.usualTopic())
	if err != nil {
		return failed(err)
	}

	stored.Body, stored.Headers = slices.Clone(stored.Body), maps.Clone(stored.Headers)
	next := &message{Message: stored, due: due}
	delayed := due > p.now
	l := topic.logs[p.shard(topic, &stored, delayed)]

	// Retention runs before the bounds are checked, once for each shard of the call.
	if !p.stepped[l] {
		l.step(p.now)
		p.stepped[l] = true
	}

	// The check for a repeat comes before the check for room, because a repeat succeeds even in a
	// full topic.
	if first := l.repeated(next, delayed, p.now); first != nil {
		l.counters.Exists++
		return duly.PublishResult{Status: duly.Exists, Position: first.position, ID: first.ID}
	}

	// A delayed message has no position yet. A cancel needs an ID that names its shard.
	if delayed && next.ID == "" {
		next.ID = duly.NewNumberIn(byte(l.index)).String()
	}
	if err := l.makeRoom(next, p.now); err != nil {
		return failed(err)
	}

	l.add(next, delayed, p.now)
	return duly.PublishResult{Status: duly.Created, Position: next.position, ID: next.ID}
}

// shard returns the shard of a message. All messages of a call that may go to any shard go to the
// same shard.
func (p *publishing) shard(t *topic, m *duly.Message, delayed bool) int {
	if shard, fixed := contract.MessageShard(m, t.cfg, delayed); fixed {
		return shard
	}

	// One shard per call keeps the messages of the call in order (C12.22, C12.29).
	shard, known := p.chosen[t]
	if known {
		return shard
	}
	if p.e.cfg.Publish != nil {
		shard, known = p.e.cfg.Publish(t.ref)
	}
	if !known {
		n := duly.NewNumber() // the last byte of a number is random
		shard = int(n[len(n)-1])
	}
	p.chosen[t] = shard % t.cfg.Shards
	return p.chosen[t]
}

// repeated returns the message that m repeats: a message with its ID within the window
// of dedupe, or, if m is delayed, a delayed message with its key and ID.
func (l *log) repeated(m *message, delayed bool, now int64) *message {
	if m.ID == "" {
		return nil
	}
	if first := l.repeats(m.ID, now); first != nil {
		return first
	}
	if delayed {
		return l.findDelayed(m.Key, m.ID)
	}
	return nil
}

// add stores a new message.
func (l *log) add(m *message, delayed bool, now int64) {
	l.counters.Published++
	l.bytes += m.size()

	// A delayed message counts for the window too, so that its repeat is found (C12.57).
	l.see(m, now)
	if delayed {
		l.delay(m)
		return
	}
	l.enter(m, now)
}
