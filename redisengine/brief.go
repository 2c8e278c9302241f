package redisengine

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// brief is what has to be said of a queue to ask about its shards. It is much
// less than what those who use a queue remember, for whoever sweeps or surveys
// asks about all that there are.
type brief struct {
	version string
	limits  []string // of each shard
	swept   uint64   // the sweep that has met it last; the sweep's own
}

// briefs remembers queues.
type briefs struct {
	mu    sync.Mutex
	known map[duly.QueueRef]*brief
}

func newBrief(q *queue) *brief {
	limits := make([]string, len(q.shards))
	for i, s := range q.shards {
		limits[i] = s.limits
	}
	return &brief{version: strings.Clone(q.version), limits: limits} // not with all of the configuration behind it
}

func (b *briefs) put(ref duly.QueueRef, known *brief) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[duly.QueueRef]*brief{}
	}
	b.known[ref] = known
}

// forget drops a queue that turned out to be another one.
func (b *briefs) forget(ref duly.QueueRef, known *brief) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[ref] == known {
		delete(b.known, ref)
	}
}

// drop drops those that a sweep of everything has not met.
func (b *briefs) drop(sweep uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref, known := range b.known {
		if known.swept != sweep {
			delete(b.known, ref)
		}
	}
}

// recall is what is to be said of queues of a namespace, in their order; what is
// not remembered is read from the namespace's list. It is nil for one that is not
// there any more, and for one of which odd is told: q is to be destroyed, or err
// says why it can't be read.
func (e *Engine) recall(ctx context.Context, namespace string, names []string, odd func(q *queue, err error)) ([]*brief, error) {
	all, unknown := make([]*brief, len(names)), []int(nil)
	e.briefs.mu.Lock()
	for i, name := range names {
		if all[i] = e.briefs.known[duly.QueueRef{Namespace: namespace, Name: name}]; all[i] == nil {
			unknown = append(unknown, i)
		}
	}
	e.briefs.mu.Unlock()
	if len(unknown) == 0 {
		return all, nil
	}
	fields := make([]string, len(unknown))
	for k, i := range unknown {
		fields[k] = names[i]
	}
	values, err := e.link.Do(ctx, e.link.B().Hmget().Key(e.configsKey(namespace)).Field(fields...).Build())
	if err != nil {
		return nil, err
	}
	for k, value := range elements(&values) {
		if value.IsNil() {
			continue // destroyed meanwhile
		}
		ref := duly.QueueRef{Namespace: namespace, Name: fields[k]}
		q, err := e.readQueue(ref, text(&value))
		if err != nil || q.gone {
			odd(q, err)
			continue
		}
		all[unknown[k]] = newBrief(q)
		e.briefs.put(ref, all[unknown[k]])
	}
	return all, nil
}

// spot is a shard that a script is asked about: whose, by the queue's place
// among those that are asked about, and which.
type spot struct {
	queue, shard int
	*brief
}

// mostAtOnce bounds the calls of a gentle bundle that are on their way together.
const mostAtOnce = 50

// bundle is one script's calls about many shards, each call about some on one
// node.
type bundle struct {
	e     *Engine
	refs  func(queue int) duly.QueueRef
	about *script
	keys  []string // of each shard
	most  int      // shards of one call
	first []string // the arguments before those of the shards
	// gentle: what others send meanwhile does not wait behind all of it, and no
	// shard waits for a node that another one is on.
	gentle bool

	calls []link.Call
	spots [][]spot // of each call
	group string   // of the last one
}

// add adds a shard, with the arguments that are its own.
func (b *bundle) add(at spot, args ...string) {
	tag := shardTag(b.e.prefix, b.refs(at.queue), at.shard)
	group := b.e.link.Group(tag)
	if n := len(b.calls); n == 0 || group != b.group || len(b.spots[n-1]) == b.most {
		b.calls = append(b.calls, link.Call{Script: b.about.Script, Args: slices.Clone(b.first), Once: b.gentle})
		b.spots = append(b.spots, nil)
		b.group = group
	}
	n := len(b.calls) - 1
	c := &b.calls[n]
	c.Keys = appendKeys(c.Keys, tag, b.keys)
	c.Args = append(c.Args, args...)
	b.spots[n] = append(b.spots[n], at)
}

// lone takes the shards out that have a call of their own.
func (b *bundle) lone() (alone []spot) {
	calls, spots := b.calls[:0], b.spots[:0]
	for i := range b.calls {
		if len(b.spots[i]) == 1 {
			alone = append(alone, b.spots[i][0])
		} else {
			calls, spots = append(calls, b.calls[i]), append(spots, b.spots[i])
		}
	}
	b.calls, b.spots = calls, spots
	return alone
}

// run makes the calls, and hands over what each has answered.
func (b *bundle) run(ctx context.Context, heed func(spots []spot, answer *rueidis.RedisMessage, err error) error) error {
	for len(b.calls) > 0 {
		n := len(b.calls)
		if b.gentle {
			n = min(n, mostAtOnce)
		}
		results := b.e.link.RunAll(ctx, b.calls[:n])
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range results {
			if err := heed(b.spots[i], &results[i].Msg, results[i].Err); err != nil {
				return err
			}
		}
		b.calls, b.spots = b.calls[n:], b.spots[n:]
	}
	return nil
}

// appendKeys appends keys of a shard, all of one text: whoever looks at every
// queue makes many.
func appendKeys(to []string, tag string, keys []string) []string {
	size := 0
	for _, key := range keys {
		size += len(tag) + len(key)
	}
	var b strings.Builder
	b.Grow(size)
	for _, key := range keys {
		b.WriteString(tag)
		b.WriteString(key)
	}
	rest := b.String()
	for _, key := range keys {
		n := len(tag) + len(key)
		to, rest = append(to, rest[:n]), rest[n:]
	}
	return to
}
