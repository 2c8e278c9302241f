package catalog

import (
	"context"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Create finds a queue or creates it: in the list first, then in the shards, then
// its jobs. The patch has what differs from the contract's defaults.
func (e *Catalog) Create(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) (*Queue, error) {
	q, err := e.create(ctx, ref, func(version string) string {
		return PackConfig(version, contract.PatchConfig(e.QueueConfig(), patch), false)
	})
	if err == nil && q.Topic != nil {
		return nil, contract.IsTopic(ref)
	}
	return q, err
}

// create finds a queue or a topic, or creates what pack returns.
func (e *Catalog) create(ctx context.Context, ref duly.QueueRef, pack func(version string) string) (*Queue, error) {
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Read(ctx, ref)
		switch {
		case err != nil:
			return nil, err
		case q != nil && q.Tomb:
			if err := e.FinishDestroy(ctx, q); err != nil {
				return nil, err
			}
			continue
		case q != nil:
			return q, nil
		}

		left, held, err := e.ShardConfig(ctx, ref)
		if err != nil {
			return nil, err
		}

		if held != nil {
			if err := e.restore(ctx, held); err != nil {
				return nil, err
			}
			continue
		}

		if err := e.markNamespace(ctx, ref.Namespace); err != nil {
			return nil, err
		}

		if q, err = e.Put(ctx, store.ScriptQueuePut, ref, "", pack(e.NextVersion("", left))); err != nil {
			return nil, err
		}
		if q != nil {
			return q, e.Propagate(ctx, q, q.Shards...)
		}
	}

	return nil, c.Failed("queue %s is made and destroyed all the time", ref)
}

// FinishDestroy finishes the destruction of a queue with a tomb in the list: every
// shard, then the list's entry.
func (e *Catalog) FinishDestroy(ctx context.Context, q *Queue) error {
	calls := make([]link.Call, len(q.Shards))
	for i, s := range q.Shards {
		calls[i] = DestroyCall(q, s)
	}
	for _, r := range e.Link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
	}
	if q.Topic == nil {
		e.cancels.Report(q.Ref)
	} else {
		for _, name := range q.Topic.Names() {
			e.cancels.Report(duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)})
		}
	}

	_, err := e.Put(ctx, store.ScriptQueueSet, q.Ref, q.Value, "")
	return err
}

// UnknownConfig is the configuration of a stale shard whose configuration is not
// known.
const UnknownConfig = "?"

// Sync brings this process and a shard to the configuration in the namespace's
// list. The process that changed it may have died before all shards had it.
func (e *Catalog) Sync(ctx context.Context, q *Queue, other *Stale) error {
	q = q.Base()
	now, err := e.Read(ctx, q.Ref)
	switch {
	case err != nil:
		return err
	case now == nil: // destroyed, or lost
		held, err := e.parse(q.Ref, other.Value)
		if err != nil || held == nil {
			return err
		}
		return e.restore(ctx, held)
	case now.Tomb:
		return e.FinishDestroy(ctx, now)
	case len(other.Value) >= VersionSize && other.Value[:VersionSize] == now.Version:
		return nil // only this process was behind
	case other.Shard == nil || other.Value == UnknownConfig:
		return e.Propagate(ctx, now, now.Shards...)
	case other.Value == "" && now.Version == q.Version && other.lost():
		e.lost(q.Ref, "store reset: a shard has lost what it held; a server came back empty, or was flushed", "shard", other.Shard.Index)
	case other.Value != "" && numberOf(other.Value) == 0: // says nothing, not even which is newer
		e.Settings.Logger.Error("a shard's configuration is cut short or damaged: something else has written there; the shard is given it again",
			"queue", q.Ref.String(), "shard", other.Shard.Index)
	case numberOf(other.Value) > numberOf(now.Version): // the list has lost a change, or the queue was destroyed by a clock that is ahead
		if now, err = e.Replace(ctx, now, now.pack(e.NextVersion(now.Version, other.Value), false)); err != nil || now == nil {
			return err
		}
	}

	return e.Propagate(ctx, now, now.Shards[other.Shard.Index%len(now.Shards)])
}

// parse returns the queue that a shard's configuration describes. It returns nil
// for no configuration, for the tomb of a destroyed queue, and for one that can't
// be read.
func (e *Catalog) parse(ref duly.QueueRef, value string) (*Queue, error) {
	if numberOf(value) == 0 {
		return nil, nil
	}
	q, err := e.ReadQueue(ref, value)
	switch {
	case duly.CodeOf(err) == duly.CodeCorrupt:
		e.Settings.Logger.Error(
			"a shard's configuration can't be read: something else has written there; it counts as none",
			"queue", ref.String())
		return nil, nil
	case err != nil || q.Tomb:
		return nil, err
	}
	return q, nil
}

// ShardConfig reads the configuration of a queue's first shard, and the queue that
// it describes.
func (e *Catalog) ShardConfig(ctx context.Context, ref duly.QueueRef) (left string, held *Queue, err error) {
	msg, err := e.Link.Do(ctx, e.Link.B().Get().Key(store.ShardTag(e.Prefix, ref, 0)+"config").Build())
	if err != nil {
		return "", nil, err
	}
	left = codec.Text(&msg)
	held, err = e.parse(ref, left)
	return left, held, err
}

// restore adds a queue to its namespace's list that only its shards know: the list
// was lost, with its node of a cluster.
func (e *Catalog) restore(ctx context.Context, held *Queue) error {
	ref := held.Ref
	if err := e.markNamespace(ctx, ref.Namespace); err != nil {
		return err
	}
	now, err := e.Put(ctx, store.ScriptQueueSet, ref, "", held.pack(e.NextVersion(held.Version), false))
	if err != nil || now == nil { // nil: it has been made, or entered, meanwhile
		return err
	}
	e.lost(now.Ref, "store reset: a namespace's list has lost a queue that its shards still hold; it has been entered again")
	return e.Propagate(ctx, now, now.Shards...)
}

// Propagate gives shards the configuration of their queue. A shard with a newer one
// keeps it.
func (e *Catalog) Propagate(ctx context.Context, q *Queue, shards ...*Shard) error {
	calls := make([]link.Call, len(shards))
	for i, s := range shards {
		calls[i] = e.configureCall(q, s)
	}
	for i, r := range e.Link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
		shards[i].meet()
	}
	return nil
}

// Replace stores a configuration in the namespace's list in place of the one that
// was read. It returns nil if that one is no longer there.
func (e *Catalog) Replace(ctx context.Context, was *Queue, value string) (*Queue, error) {
	return e.Put(ctx, store.ScriptQueueSet, was.Ref, was.Value, value)
}

// Put is Replace for a queue that may be new. The script is ScriptQueuePut, which a
// full namespace refuses, or ScriptQueueSet.
func (e *Catalog) Put(ctx context.Context, sc *store.Script, ref duly.QueueRef, was, value string) (*Queue, error) {
	before, after := isPush(was), isPush(value)
	if after { // first, so that no push queue is missing in the list of them
		if err := e.listPushQueue(ctx, ref, true); err != nil {
			return nil, err
		}
	}
	q, err := e.put(ctx, sc, ref, was, value)
	if changed := q == nil && value != ""; err == nil && !changed && (before || after) {
		err = e.listPushQueue(ctx, ref, after)
	}
	return q, err
}

// listPushQueue enters a queue into the list of push queues, or removes it, and
// announces that its configuration has changed.
func (e *Catalog) listPushQueue(ctx context.Context, ref duly.QueueRef, there bool) error {
	mark := ""
	if there {
		mark = "1"
	}
	_, err := e.Link.Run(ctx, link.Call{
		Script: scriptPushQueue, Keys: []string{e.TokenKey("pushed"), e.TokenKey("changes")}, Args: []string{ref.String(), mark},
	})
	return err
}

var scriptPushQueue, _ = store.LoadAny("push_queue")

func (e *Catalog) put(ctx context.Context, sc *store.Script, ref duly.QueueRef, was, value string) (*Queue, error) {
	known := e.Cache.Get(ref)
	msg, err := e.Link.Run(ctx, link.Call{
		Script: sc.Script, Keys: []string{e.ListKey(ref.Namespace, was, value), e.ConfigsKey(ref.Namespace)},
		Args: []string{ref.Name, was, value, strconv.Itoa(e.Settings.MaxQueues)},
	})

	if err != nil {
		return nil, err
	}

	switch word := codec.Text(&codec.Elements(&msg)[0]); {
	case word == "changed":
		e.Cache.Forget(known)
		return nil, nil
	case word == "full":
		return nil, contract.NamespaceFull(ref.Namespace, e.Settings.MaxQueues)
	case value == "":
		e.Cache.Forget(known)
		return nil, nil
	}

	q, err := e.ReadQueue(ref, value)
	if err != nil || q.Tomb {
		return q, err
	}

	return e.remember(q), nil
}
