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

// Quiet blocks until no call between the engine's waiters and the server is in flight: the engine
// has taken and handled every marker. It is for tests that control the clock.
func (e *Engine) Quiet() {
	for !settled(e.hub) {
		Pause()
	}
}

// Recheck is the interval at which a process polls the queues that its waiters wait for.
const Recheck = store.Recheck

// WithoutLook switches off the poll every two seconds, for an engine without waiters. A lost
// wake-up is then never repaired.
func (e *Engine) WithoutLook() {
	e.hub.Probe().DisableRecheck()
}

// Skewed returns the configuration of a process whose clock differs from the servers' clocks.
func Skewed(cfg Config, wall duly.Clock) Config {
	cfg.wall = wall
	return cfg
}

// Sending returns the configuration of an engine that sends modified scripts. as returns the source
// to send for a script's name and source.
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

// OtherVersion returns the configuration of another version of duly, whose libraries and
// functions have other names.
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

// Pause yields the processor to the server and its connections.
func Pause() { _ = clock.Sleep(context.Background(), clock.System(), time.Millisecond) }

// settled ends every blocking call in flight. It reports whether none of these calls returned a
// marker and none is in flight any more.
func settled(h *wait.Hub) bool {
	p := h.Probe()
	began, turns := p.Idle(), p.Turns()
	for group, turn := range turns {
		for i := 0; p.Turns()[group] == turn; i++ {
			// The call may not have been in flight yet when it was ended, so it is ended again.
			if i%16 == 0 {
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
	for group, turn := range p.Turns() { // each ended call was followed by a new one
		began += turn - turns[group]
	}
	return p.Idle() == began
}

// ShardKeys are the names of a shard's keys.
var ShardKeys = store.ShardKeys[:]

// LateConfigure returns a call that sends the queue's present configuration to every shard. A test
// makes the call later, after the configuration has changed.
func (e *Engine) LateConfigure(ref duly.QueueRef) func(context.Context) error {
	q := e.catalog.Cache.Get(ref.Normal())
	return func(ctx context.Context) error { return e.catalog.Propagate(ctx, q, q.Shards...) }
}

// GiveMarkerBack puts the marker of a queue's first shard back into Redis, as a process does that
// took the marker and has no waiters.
func (e *Engine) GiveMarkerBack(ref duly.QueueRef) {
	s := e.catalog.Cache.Get(ref.Normal()).Shards[0]
	e.hub.PutMarker(s, "now", 1)
	e.hub.PutMarker(s, "later", clock.Milli(e.store.Local().Now()))
}

// Waiters returns how many callers wait.
func (e *Engine) Waiters() int { return e.hub.Probe().Waiters(false) }

// DeleteTogether makes one Delete per ID in a queue of one shard, in one script call.
func (e *Engine) DeleteTogether(ctx context.Context, ref duly.QueueRef, ids []string) error {
	var calls []*jobs.Batched
	for _, id := range ids {
		calls = append(calls, &jobs.Batched{Call: batch.Call{Items: 1},
			CallArgs: codec.CallArgs{Args: []string{codec.Alias(id)}}, Apply: func(jobs.BatchReply) {}})
	}
	q := e.catalog.Cache.Get(ref.Normal())
	return e.calls.Batchers(q, q.Shards[0]).Remove.Send(ctx, began(ctx, calls))
}

// began returns calls that are sent at once, without a batcher.
func began(ctx context.Context, calls []*jobs.Batched) []*jobs.Batched {
	for _, c := range calls {
		c.Begin(ctx)
		c.Send()
	}
	return calls
}
