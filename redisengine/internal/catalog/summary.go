package catalog

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Target is a shard in a MultiCall. Queue is the index of its queue in the caller's list.
type Target struct {
	Queue, Shard int
	*Summary
}

// maxAtOnce bounds the concurrent calls of a paced MultiCall.
const maxAtOnce = 50

// MultiCall calls one script for many shards. Each call covers shards of one node.
type MultiCall struct {
	Catalog   *Catalog
	QueueOf   func(queue int) duly.QueueRef
	Script    *store.Script
	Keys      []string // the keys that the script needs of each shard
	MaxShards int      // maximum number of shards in one call
	FirstArgs []string // the arguments before those of the shards
	// Paced limits the concurrent calls to leave room for other callers. A paced call is not
	// retried, so an unreachable node does not delay the others.
	Paced bool

	calls   []link.Call
	targets [][]Target // shards of each call
	group   string     // node group of the last call
}

// Add adds a shard with its own arguments.
func (b *MultiCall) Add(at Target, args ...string) {
	tag := store.ShardTag(b.Catalog.Prefix, b.QueueOf(at.Queue), at.Shard)
	group := b.Catalog.Link.Group(tag)
	// Keys of one call must be on one node, so another node's shard begins a new call.
	if n := len(b.calls); n == 0 || group != b.group || len(b.targets[n-1]) == b.MaxShards {
		c := link.Call{Script: b.Script.Script, Once: b.Paced}
		// With one node, most calls are full, so their slices are allocated once.
		if group == "" && b.MaxShards > 1 {
			c.Keys, c.Args = make([]string, 0, b.MaxShards*len(b.Keys)),
				make([]string, 0, len(b.FirstArgs)+b.MaxShards*len(args))
		}
		c.Args = append(c.Args, b.FirstArgs...)
		b.calls, b.targets = append(b.calls, c), append(b.targets, nil)
		b.group = group
	}
	n := len(b.calls) - 1
	c := &b.calls[n]
	c.Keys = store.AppendKeys(c.Keys, tag, b.Keys)
	c.Args = append(c.Args, args...)
	b.targets[n] = append(b.targets[n], at)
}

// Singles removes and returns the shards that are alone in their call.
func (b *MultiCall) Singles() (alone []Target) {
	calls, targets := b.calls[:0], b.targets[:0]
	for i := range b.calls {
		if len(b.targets[i]) == 1 {
			alone = append(alone, b.targets[i][0])
		} else {
			calls, targets = append(calls, b.calls[i]), append(targets, b.targets[i])
		}
	}
	b.calls, b.targets = calls, targets
	return alone
}

// Run makes the calls and passes each answer to handle. It stops at handle's first error.
func (b *MultiCall) Run(ctx context.Context, handle func(targets []Target, answer *rueidis.RedisMessage,
	err error) error) error {
	for len(b.calls) > 0 {
		n := len(b.calls)
		if b.Paced {
			n = min(n, maxAtOnce)
		}
		results := b.Catalog.Link.RunAll(ctx, b.calls[:n])
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range results {
			if err := handle(b.targets[i], &results[i].Msg, results[i].Err); err != nil {
				return err
			}
		}
		b.calls, b.targets = b.calls[n:], b.targets[n:]
	}
	return nil
}

// Summarize returns the summaries of a namespace's queues, in the order of names. It reads
// missing ones from the namespace's list. A summary is nil if the queue is gone, or if odd was
// called for it. odd gets a queue that is being destroyed, or the error of a configuration that
// can't be read.
func (e *Catalog) Summarize(ctx context.Context, namespace string, names []string,
	odd func(q *Queue, err error)) ([]*Summary, error) {
	all, unknown := make([]*Summary, len(names)), []int(nil)
	e.Summaries.mu.Lock()
	known := e.Summaries.known[namespace]
	for i, name := range names {
		if all[i] = known[name]; all[i] == nil {
			unknown = append(unknown, i)
		}
	}

	e.Summaries.mu.Unlock()
	if len(unknown) == 0 {
		return all, nil
	}

	fields := make([]string, len(unknown))
	for k, i := range unknown {
		fields[k] = names[i]
	}

	values, err := e.Link.Do(ctx, e.Link.B().Hmget().Key(e.ConfigsKey(namespace)).Field(fields...).Build())
	if err != nil {
		return nil, err
	}

	var last *Summary
	for k, value := range codec.Elements(&values) {
		if value.IsNil() {
			// The queue was destroyed after its name was read.
			continue
		}
		ref := duly.QueueRef{Namespace: namespace, Name: fields[k]}
		q, err := e.ReadQueue(ref, codec.Text(&value))
		if err != nil || q.Tomb {
			odd(q, err)
			continue
		}
		// Queues next to each other usually have equal limits, which newSummary shares.
		last = newSummary(q, last)
		all[unknown[k]] = last
		e.Summaries.put(ref, last)
	}

	return all, nil
}
