package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// Summary is what has to be said of a queue to ask about its shards. It is much
// less than what those who use a queue remember, for whoever sweeps or surveys
// asks about all that there are.
type Summary struct {
	Version string
	Limits  []string // of each shard
	// Throttle is that of the configuration with this version.
	Throttle duly.Throttle
	Swept    uint64 // the sweep that has met it last; the sweep's own
}

// Summaries remembers queues.
type Summaries struct {
	mu    sync.Mutex
	known map[string]map[string]*Summary // by namespace and name
}

// newSummary is a queue's. Most queues of a store are bounded alike, so it shares
// what is said of the bounds with another queue's, if there is one.
func newSummary(q *Queue, other *Summary) *Summary {
	limits := make([]string, len(q.Shards))
	for i, s := range q.Shards {
		limits[i] = s.Limits
	}
	if other != nil && slices.Equal(limits, other.Limits) {
		limits = other.Limits
	}
	return &Summary{Version: strings.Clone(q.Version), Limits: limits, Throttle: q.Config.Throttle()} // not with all of the configuration behind it
}

func (b *Summaries) put(ref duly.QueueRef, known *Summary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]map[string]*Summary{}
	}
	if b.known[ref.Namespace] == nil {
		b.known[ref.Namespace] = map[string]*Summary{}
	}
	b.known[ref.Namespace][ref.Name] = known
}

// Forget drops a queue that turned out to be another one.
func (b *Summaries) Forget(ref duly.QueueRef, known *Summary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[ref.Namespace][ref.Name] == known {
		delete(b.known[ref.Namespace], ref.Name)
	}
}

// DropOlder drops those that a sweep of everything has not met.
func (b *Summaries) DropOlder(sweep uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace, queues := range b.known {
		maps.DeleteFunc(queues, func(_ string, known *Summary) bool { return known.Swept != sweep })
		if len(queues) == 0 {
			delete(b.known, namespace)
		}
	}
}

// Summarize is what is to be said of queues of a namespace, in their order; what is
// not remembered is read from the namespace's list. It is nil for one that is not
// there any more, and for one of which odd is told: q is to be destroyed, or err
// says why it can't be read.
func (e *Catalog) Summarize(ctx context.Context, namespace string, names []string, odd func(q *Queue, err error)) ([]*Summary, error) {
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
			continue // destroyed meanwhile
		}
		ref := duly.QueueRef{Namespace: namespace, Name: fields[k]}
		q, err := e.ReadQueue(ref, codec.Text(&value))
		if err != nil || q.Tomb {
			odd(q, err)
			continue
		}
		last = newSummary(q, last)
		all[unknown[k]] = last
		e.Summaries.put(ref, last)
	}
	return all, nil
}
