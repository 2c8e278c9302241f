package redisengine

import (
	"context"
	"errors"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// errAgain lets with begin again: the queue was made.
var errAgain = errors.New("redisengine: again")

// with does something with a queue as this process knows it, and again as
// often as a shard says that the queue is another one by now. f is given nil
// for an unknown queue.
func (e *Engine) with(ctx context.Context, ref duly.QueueRef, f func(q *queue) error) error {
	c := overtaken{e: e, ctx: ctx}
	for c.next() {
		q, err := e.find(ctx, ref)
		if err != nil {
			return err
		}
		switch err = f(q); err {
		case nil:
			return nil
		case errAgain:
			continue
		}
		var other *stale
		if !errors.As(err, &other) {
			return err
		}
		if err := e.agree(ctx, q, other); err != nil {
			return err
		}
	}
	return c.over("the configuration of queue %s keeps changing", ref)
}

// untold stands for the configuration of a shard of which a look has told: that
// it has another one, not which.
const untold = "?"

// agree brings this process and a shard to the configuration that the
// namespace's list has. Whoever changed it may have died before it told every
// shard.
func (e *Engine) agree(ctx context.Context, q *queue, other *stale) error {
	now, err := e.reread(ctx, q.ref)
	switch {
	case err != nil:
		return err
	case now == nil: // destroyed, or lost
		held, err := e.held(q.ref, other.value)
		if err != nil || held == nil {
			return err
		}
		return e.enterAgain(ctx, held)
	case now.gone:
		return e.remove(ctx, now)
	case len(other.value) >= versionSize && other.value[:versionSize] == now.version:
		return nil // only this process was behind
	case other.shard == nil || other.value == untold:
		return e.tell(ctx, now, now.shards...)
	case other.value == "" && now.version == q.version && other.lost():
		e.lost(q.ref, "store reset: a shard has lost what it held; a server came back empty, or was flushed", "shard", other.shard.index)
	case other.value != "" && numberOf(other.value) == 0: // says nothing, not even which is newer
		e.cfg.Logger.Error("a shard's configuration is cut short or damaged: something else has written there; the shard is given it again",
			"queue", q.ref.String(), "shard", other.shard.index)
	case numberOf(other.value) > numberOf(now.version): // the list has lost a change, or the queue was destroyed by a clock that is ahead
		if now, err = e.change(ctx, now, packConfig(e.nextVersion(now.version, other.value), now.cfg, false)); err != nil || now == nil {
			return err
		}
	}
	return e.tell(ctx, now, now.shards[other.shard.index%len(now.shards)])
}

// held is the queue that a shard's configuration tells of: nil if it is none, or
// the tomb of a queue that was destroyed, or if nobody can read it.
func (e *Engine) held(ref duly.QueueRef, value string) (*queue, error) {
	if numberOf(value) == 0 {
		return nil, nil
	}
	q, err := e.readQueue(ref, value)
	switch {
	case duly.CodeOf(err) == duly.CodeCorrupt:
		e.cfg.Logger.Error("a shard's configuration can't be read: something else has written there; it counts as none", "queue", ref.String())
		return nil, nil
	case err != nil || q.gone:
		return nil, err
	}
	return q, nil
}

// heldBy reads what a queue's first shard has for its configuration, and the
// queue that this tells of.
func (e *Engine) heldBy(ctx context.Context, ref duly.QueueRef) (left string, held *queue, err error) {
	msg, err := e.link.Do(ctx, e.link.B().Get().Key(shardTag(e.prefix, ref, 0)+"config").Build())
	if err != nil {
		return "", nil, err
	}
	left = text(&msg)
	held, err = e.held(ref, left)
	return left, held, err
}

// enterAgain enters a queue into its namespace's list that only its shards know
// of: the list was lost, with its node of a cluster.
func (e *Engine) enterAgain(ctx context.Context, held *queue) error {
	ref := held.ref
	if err := e.bear(ctx, ref.Namespace); err != nil {
		return err
	}
	now, err := e.enter(ctx, scriptQueueSet, ref, "", packConfig(e.nextVersion(held.version), held.cfg, false))
	if err != nil || now == nil { // nil: it has been made, or entered, meanwhile
		return err
	}
	e.lost(now.ref, "store reset: a namespace's list has lost a queue that its shards still hold; it has been entered again")
	return e.tell(ctx, now, now.shards...)
}

// tell gives shards the configuration of their queue. One that has a newer one
// keeps it.
func (e *Engine) tell(ctx context.Context, q *queue, shards ...*shard) error {
	calls := make([]link.Call, len(shards))
	for i, s := range shards {
		calls[i] = link.Call{Script: scriptConfigure.Script, Keys: s.of(scriptConfigure), Args: []string{e.clock(), q.value, s.limits}}
	}
	for i, r := range e.link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
		shards[i].meet()
	}
	return nil
}

// change enters a configuration into the namespace's list in the place of the
// one that was read. It answers nil if that one is no longer there.
func (e *Engine) change(ctx context.Context, was *queue, value string) (*queue, error) {
	return e.enter(ctx, scriptQueueSet, was.ref, was.value, value)
}

// enter does so for a queue that may be new: by scriptQueuePut, which a full
// server refuses, or by scriptQueueSet.
func (e *Engine) enter(ctx context.Context, sc *script, ref duly.QueueRef, was, value string) (*queue, error) {
	known := e.queues.get(ref)
	msg, err := e.link.Run(ctx, link.Call{
		Script: sc.Script, Keys: []string{e.namesKey(ref.Namespace), e.configsKey(ref.Namespace)},
		Args: []string{ref.Name, was, value, strconv.Itoa(e.cfg.MaxQueues)},
	})
	if err != nil {
		return nil, err
	}
	switch word := text(&elements(&msg)[0]); {
	case word == "changed":
		e.queues.forget(known)
		return nil, nil
	case word == "full":
		return nil, duly.NamespaceFull(ref.Namespace, e.cfg.MaxQueues)
	case value == "":
		e.queues.forget(known)
		return nil, nil
	}
	q, err := e.readQueue(ref, value)
	if err != nil || q.gone {
		return q, err
	}
	return e.remember(q), nil
}

// make finds a queue or makes it: list first, then the shards' configurations,
// then jobs. The patch is what differs from the contract's defaults.
func (e *Engine) make(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) (*queue, error) {
	c := overtaken{e: e, ctx: ctx}
	for c.next() {
		q, err := e.reread(ctx, ref)
		switch {
		case err != nil:
			return nil, err
		case q != nil && q.gone:
			if err := e.remove(ctx, q); err != nil {
				return nil, err
			}
			continue
		case q != nil:
			return q, nil
		}
		left, held, err := e.heldBy(ctx, ref)
		if err != nil {
			return nil, err
		}
		if held != nil {
			if err := e.enterAgain(ctx, held); err != nil {
				return nil, err
			}
			continue
		}
		if err := e.bear(ctx, ref.Namespace); err != nil {
			return nil, err
		}
		cfg := e.queueConfig().With(patch)
		if q, err = e.enter(ctx, scriptQueuePut, ref, "", packConfig(e.nextVersion("", left), cfg, false)); err != nil {
			return nil, err
		}
		if q != nil {
			return q, e.tell(ctx, q, q.shards...)
		}
	}
	return nil, c.over("queue %s is made and destroyed all the time", ref)
}

// remove finishes the destruction of a queue that its list says is to go:
// every shard, then the list's entry.
func (e *Engine) remove(ctx context.Context, q *queue) error {
	calls := make([]link.Call, len(q.shards))
	for i, s := range q.shards {
		calls[i] = destroyCall(q, s)
	}
	for _, r := range e.link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
	}
	e.announce(q.ref)

	_, err := e.enter(ctx, scriptQueueSet, q.ref, q.value, "")
	return err
}

// destroyCall empties one shard of a queue that is to go.
func destroyCall(q *queue, s *shard) link.Call {
	return link.Call{Script: scriptDestroy.Script, Keys: s.of(scriptDestroy), Args: []string{q.value}}
}
