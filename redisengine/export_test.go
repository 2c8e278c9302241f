package redisengine

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/lua"
)

// Quiet blocks until nothing is on its way between the engine's waiters and
// the server: every marker that was set has been taken and heeded. It is for
// tests that own the clock.
func (e *Engine) Quiet() {
	for !e.hub.settled() {
		Pause()
	}
}

// Recheck is how often a process looks at what it waits for.
const Recheck = recheck

// WithoutLook switches the look of every two seconds off, for an engine on which
// nobody waits yet: a wake-up that is lost is then missed for good.
func (e *Engine) WithoutLook() {
	e.hub.recheck = time.Hour
}

// Skewed is the configuration of a process whose own clock is another one than
// the servers'.
func Skewed(cfg Config, wall clock.Clock) Config {
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
	for _, l := range functionLibraries {
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

// settled lets every blocking call that is on its way end, and tells whether
// none of them brought anything and no marker is left.
func (h *hub) settled() bool {
	h.busy.wait()
	began := h.busy.began()
	turns := h.turns()
	for group, turn := range turns {
		for i := 0; h.turns()[group] == turn; i++ {
			if i%16 == 0 { // it may not have been on its way
				h.e.link.Unblock(group)
			}
			Pause()
		}
	}
	h.busy.wait()
	for _, marker := range h.markers() {
		n, err := h.e.link.Do(context.Background(), h.e.link.B().Zcard().Key(marker).Build())
		if err != nil || integer(&n) != 0 {
			return false
		}
	}
	h.busy.wait()
	return h.busy.began() == began+h.unblocked(turns)
}

// turns counts the blocking calls of each watch.
func (h *hub) turns() map[string]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	turns := map[string]uint64{}
	for group, w := range h.watches {
		turns[group] = w.turns
	}
	return turns
}

// unblocked is how many calls have begun since.
func (h *hub) unblocked(before map[string]uint64) (n uint64) {
	for group, turn := range h.turns() {
		n += turn - before[group]
	}
	return n
}

func (h *hub) markers() (markers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watches {
		for marker := range w.shards {
			markers = append(markers, marker)
		}
	}
	return markers
}

func (a *activity) wait() {
	a.mu.Lock()
	if a.n == 0 {
		a.mu.Unlock()
		return
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	<-idle
}

func (a *activity) began() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// forget lets go of the moment that is kept of a shard.
func (h *hub) forget(s *shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.moments[s.name("marker")]; m != nil {
		m.timer.Stop()
		delete(h.moments, s.name("marker"))
	}
}

// ShardKeys are the names of a shard's keys.
var ShardKeys = shardKeys[:]

// LateTell is a call that tells every shard of a queue the configuration that
// the queue has now, whenever it is made.
func (e *Engine) LateTell(ref duly.QueueRef) func(context.Context) error {
	q := e.queues.get(ref.Normal())
	return func(ctx context.Context) error { return e.tell(ctx, q, q.shards...) }
}

// GiveMarkerBack gives the marker of a queue's first shard back, as a process does that
// has no use for it.
func (e *Engine) GiveMarkerBack(ref duly.QueueRef) {
	s := e.queues.get(ref.Normal()).shards[0]
	e.hub.mark(s, "now", 1)
	e.hub.mark(s, "later", clock.Milli(e.cfg.Clock.Now()))
}

// Waiters is how many callers wait.
func (e *Engine) Waiters() (n int) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	for ref := range e.hub.waiters.Keys() {
		n += e.hub.waiters.Waiting(ref)
	}
	return n
}

// DeleteTogether is as many Deletes of a queue of one shard as there are IDs, in
// one script call.
func (e *Engine) DeleteTogether(ctx context.Context, ref duly.QueueRef, ids []string) error {
	var calls []*batched
	for _, id := range ids {
		calls = append(calls, &batched{Call: batch.Call{Items: 1}, args: []string{alias(id)}, answered: func(batchReply) {}})
	}
	q := e.queues.get(ref.Normal())
	return e.gear(q, q.shards[0]).remove.Send(ctx, began(ctx, calls))
}

// began are calls that are sent without a queue.
func began(ctx context.Context, calls []*batched) []*batched {
	for _, c := range calls {
		c.Begin(ctx)
		c.Send()
	}
	return calls
}
