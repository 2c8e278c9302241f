package redisengine

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
	"github.com/dulymq/duly/redisengine/lua"
)

// Quiet blocks until nothing is on its way between the engine's waiters and
// the server: every marker that was set has been taken and heeded. It is for
// tests that own the clock.
func (e *Engine) Quiet() {
	for !settled(e.hub) {
		Pause()
	}
}

// Recheck is how often a process looks at what it waits for.
const Recheck = store.Recheck

// WithoutLook switches the look of every two seconds off, for an engine on which
// nobody waits yet: a wake-up that is lost is then missed for good.
func (e *Engine) WithoutLook() {
	e.hub.Probe().DisableRecheck()
}

// Skewed is the configuration of a process whose own clock is another one than
// the servers'.
func Skewed(cfg Config, wall duly.Clock) Config {
	cfg.wall = wall
	return cfg
}

// Sending is the configuration of an engine that sends other scripts than its
// own: what as makes of each name and source.
func Sending(cfg Config, as func(name, source string) string) Config {
	var mu sync.Mutex
	made := map[*link.Script]*link.Script{}
	cfg.sent = func(s *link.Script) *link.Script {
		mu.Lock()
		defer mu.Unlock()
		if made[s] == nil {
			made[s] = link.NewScript(s.Name, as(s.Name, s.Source), s.ReadOnly)
			made[s].Takes = s.Takes
		}
		return made[s]
	}
	return cfg
}

// OtherVersion is the configuration of another version of duly, whose libraries
// and functions have other names.
func OtherVersion(cfg Config) Config {
	rename := func(l *link.Library, text string) string {
		_, hash, _ := strings.Cut(strings.TrimPrefix(l.Name, lua.NamePrefix), "_")
		return strings.ReplaceAll(text, hash, "0123abcdef")
	}
	renamed := map[*link.Library]*link.Library{}
	for _, l := range store.FunctionLibraries {
		renamed[l] = &link.Library{Name: rename(l, l.Name), Source: rename(l, l.Source)}
	}
	cfg.sent = func(s *link.Script) *link.Script {
		if s.Library == nil {
			return s
		}
		other := *s
		other.Library, other.Function = renamed[s.Library], rename(s.Library, s.Function)
		return &other
	}
	return cfg
}

// Pause lets the server and its connections have the processor.
func Pause() { _ = clock.Sleep(context.Background(), clock.System(), time.Millisecond) }

// settled lets every blocking call that is on its way end, and reports whether none
// of them brought anything and no marker is left.
func settled(h *wait.Hub) bool {
	p := h.Probe()
	began, turns := p.Idle(), p.Turns()
	for group, turn := range turns {
		for i := 0; p.Turns()[group] == turn; i++ {
			if i%16 == 0 { // it may not have been on its way
				h.Store.Link.Unblock(group)
			}
			Pause()
		}
	}

	p.Idle()
	for _, marker := range p.Markers() {
		n, err := h.Store.Link.Do(context.Background(), h.Store.Link.B().Zcard().Key(marker).Build())
		if err != nil || codec.Integer(&n) != 0 {
			return false
		}
	}
	for group, turn := range p.Turns() { // each call that was ended has begun another
		began += turn - turns[group]
	}
	return p.Idle() == began
}

// ShardKeys are the names of a shard's keys.
var ShardKeys = store.ShardKeys[:]

// LateTell is a call that tells every shard of a queue the configuration that
// the queue has now, whenever it is made.
func (e *Engine) LateTell(ref duly.QueueRef) func(context.Context) error {
	q := e.catalog.Cache.Get(ref.Normal())
	return func(ctx context.Context) error { return e.catalog.Propagate(ctx, q, q.Shards...) }
}

// GiveMarkerBack gives the marker of a queue's first shard back, as a process does that
// has no use for it.
func (e *Engine) GiveMarkerBack(ref duly.QueueRef) {
	s := e.catalog.Cache.Get(ref.Normal()).Shards[0]
	e.hub.PutMarker(s, "now", 1)
	e.hub.PutMarker(s, "later", clock.Milli(e.store.Local().Now()))
}

// Waiters is how many callers wait.
func (e *Engine) Waiters() int { return e.hub.Probe().Waiters(false) }

// DeleteTogether is as many Deletes of a queue of one shard as there are IDs, in
// one script call.
func (e *Engine) DeleteTogether(ctx context.Context, ref duly.QueueRef, ids []string) error {
	var calls []*jobs.Batched
	for _, id := range ids {
		calls = append(calls, &jobs.Batched{Call: batch.Call{Items: 1}, CallArgs: codec.CallArgs{Args: []string{codec.Alias(id)}}, Apply: func(jobs.BatchReply) {}})
	}
	q := e.catalog.Cache.Get(ref.Normal())
	return e.calls.Batchers(q, q.Shards[0]).Remove.Send(ctx, began(ctx, calls))
}

// began are calls that are sent without a queue.
func began(ctx context.Context, calls []*jobs.Batched) []*jobs.Batched {
	for _, c := range calls {
		c.Begin(ctx)
		c.Send()
	}
	return calls
}
