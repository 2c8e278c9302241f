package redisengine

import (
	"context"
	"maps"
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
	// throttle is that of the configuration with this version.
	throttle duly.Throttle
	swept    uint64 // the sweep that has met it last; the sweep's own
}

// briefs remembers queues.
type briefs struct {
	mu    sync.Mutex
	known map[string]map[string]*brief // by namespace and name
}

// newBrief is a queue's. Most queues of a store are bounded alike, so it shares
// what is said of the bounds with another queue's, if there is one.
func newBrief(q *queue, other *brief) *brief {
	limits := make([]string, len(q.shards))
	for i, s := range q.shards {
		limits[i] = s.limits
	}
	if other != nil && slices.Equal(limits, other.limits) {
		limits = other.limits
	}
	return &brief{version: strings.Clone(q.version), limits: limits, throttle: q.cfg.Throttle()} // not with all of the configuration behind it
}

func (b *briefs) put(ref duly.QueueRef, known *brief) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]map[string]*brief{}
	}
	if b.known[ref.Namespace] == nil {
		b.known[ref.Namespace] = map[string]*brief{}
	}
	b.known[ref.Namespace][ref.Name] = known
}

// forget drops a queue that turned out to be another one.
func (b *briefs) forget(ref duly.QueueRef, known *brief) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[ref.Namespace][ref.Name] == known {
		delete(b.known[ref.Namespace], ref.Name)
	}
}

// drop drops those that a sweep of everything has not met.
func (b *briefs) drop(sweep uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace, queues := range b.known {
		maps.DeleteFunc(queues, func(_ string, known *brief) bool { return known.swept != sweep })
		if len(queues) == 0 {
			delete(b.known, namespace)
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
	known := e.briefs.known[namespace]
	for i, name := range names {
		if all[i] = known[name]; all[i] == nil {
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
	var last *brief
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
		last = newBrief(q, last)
		all[unknown[k]] = last
		e.briefs.put(ref, last)
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
		c := link.Call{Script: b.about.Script, Once: b.gentle}
		if group == "" && b.most > 1 { // one node: most calls get as many shards as they may
			c.Keys, c.Args = make([]string, 0, b.most*len(b.keys)), make([]string, 0, len(b.first)+b.most*len(args))
		}
		c.Args = append(c.Args, b.first...)
		b.calls, b.spots = append(b.calls, c), append(b.spots, nil)
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
