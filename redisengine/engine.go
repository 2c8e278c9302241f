package redisengine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// Engine is an engine on Redis. It implements duly.Contract, duly.Maintainer,
// duly.Registry and duly.CancelWatcher, and is safe for concurrent use. Any number of them, in
// any number of processes, may share the servers.
type Engine struct {
	cfg     Config
	prefix  string
	link    *link.Link
	queues  queues
	hub     *hub
	briefs  briefs
	sweeps  sweeps
	healing healing
	births  births
	// libraries are those of Redis Functions that this and other processes use.
	libraries libraryCare

	cancels   cancels.Hub
	announcer announcer

	closing atomic.Bool
	once    sync.Once
	ctx     context.Context // ends with the engine
	end     context.CancelFunc
	work    work // calls that outlive their callers
}

var (
	_ duly.Contract   = (*Engine)(nil)
	_ duly.Maintainer = (*Engine)(nil)
	_ duly.Resetter   = (*Engine)(nil)
)

// Open connects, and checks that the servers are fit to hold a queue.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	options, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg.withDefaults(), prefix: options.Prefix, sweeps: sweeps{turn: make(chan struct{}, 1)},
		queues: queues{known: map[duly.QueueRef]*queue{}, used: map[duly.QueueRef]*queue{}},
	}
	options.Observe, options.Sent = cfg.Observe, cfg.sent
	if e.link, err = link.Open(ctx, options, e.cfg.Logger); err != nil {
		return nil, err
	}
	e.link.Knows(kindOf)
	e.libraries.e = e
	if err := e.prepare(ctx); err != nil {
		e.link.Close()
		return nil, err
	}
	e.ctx, e.end = context.WithCancel(context.Background())
	e.hub = newHub(e)
	e.cancels.Source = e.hearCancels
	return e, nil
}

// closeLimit is how long Close waits for what is under way: a server that stands
// still holds it up no longer.
const closeLimit = 2 * recheck

// Close implements duly.Engine. Calls that are under way are still answered; by a
// server that does not answer in time, as closed.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.closing.Store(true)
		cut := clock.System().AfterFunc(closeLimit, e.link.Close)
		e.hub.close()
		e.cancels.Close()
		e.work.end()
		cut.Stop()
		e.end()
		e.link.Close()
	})
	return nil
}

// alive refuses calls of an engine that is closed, or of a caller that has
// gone.
func (e *Engine) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// stale is a shard's answer to a call that was computed with another
// configuration: the one that it has, "" for none.
type stale struct {
	shard *shard
	value string
	met   int64 // what the shard's met was before the call
}

// lost tells whether the shard has lost what this process knew it to have;
// true to one of those who find out.
func (s *stale) lost() bool { return s.met > 0 && s.shard.met.CompareAndSwap(s.met, -s.met) }

// Error implements error. No caller of the engine ever sees it.
func (s *stale) Error() string { return "redisengine: the shard has another configuration" }

// reply is what a script answered, behind its first word.
type reply struct {
	word string
	rest []rueidis.RedisMessage
}

// call runs a script on one shard. Clock and version come first.
func (e *Engine) call(ctx context.Context, q *queue, s *shard, sc *script, args ...string) (reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args})
}

// callOnce is call for a caller that has other shards to ask while this one is
// not reached.
func (e *Engine) callOnce(ctx context.Context, q *queue, s *shard, sc *script, args ...string) (reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Once: true})
}

func (e *Engine) run(ctx context.Context, q *queue, s *shard, c link.Call) (reply, error) {
	all := make([]string, 0, len(c.Args)+2)
	c.Args = append(append(all, e.clock(), q.version), c.Args...)
	met := s.met.Load()
	msg, err := e.link.Run(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return e.readReply(c.Script.Name, s, met, &msg)
}

// readReply reads the answer to a script's call before which the shard's met was
// that.
func (e *Engine) readReply(name string, s *shard, met int64, msg *rueidis.RedisMessage) (reply, error) {
	items, err := msg.ToArray()
	if err != nil || len(items) == 0 {
		return reply{}, e.strange(name)
	}
	r := reply{word: text(&items[0]), rest: items[1:]}
	if r.word == "config" {
		return r, &stale{shard: s, value: text(&r.rest[0]), met: met}
	}
	s.meet()
	return r, nil
}

// strange is the error for a call that was answered as no Redis answers it; the
// log has it, too.
func (e *Engine) strange(call string) error {
	e.cfg.Logger.Error("redis answered what was not asked", "call", call)
	return duly.Errorf(duly.CodeInternal, "the call %q was answered by something that it never returns; look whether the URL leads to Redis itself, or to a proxy", call)
}

// meet notes that the shard has its configuration.
func (s *shard) meet() {
	if n := s.met.Load(); n <= 0 {
		s.met.CompareAndSwap(n, 1-n)
	}
}

// text is a message's text, "" for none.
func text(m *rueidis.RedisMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}

// integer is a message's number, also where it is one with a fraction or a
// text.
func integer(m *rueidis.RedisMessage) int64 {
	if n, err := m.AsInt64(); err == nil {
		return n
	}
	f, _ := m.AsFloat64()
	return int64(f)
}

// elements is a message's items, nil for none.
func elements(m *rueidis.RedisMessage) []rueidis.RedisMessage {
	items, _ := m.ToArray()
	return items
}

// sideBySide does something with every part, and answers the first error. That
// a shard has another configuration is told only if nothing else went wrong:
// the call is then repeated.
func sideBySide[T any](parts []T, f func(T) error) error {
	if len(parts) == 1 {
		return f(parts[0])
	}
	errs := make(chan error, len(parts))
	for _, part := range parts {
		go func() { errs <- f(part) }()
	}
	var err error
	for range parts {
		other := <-errs
		if _, again := err.(*stale); err == nil || again && other != nil {
			err = other
		}
	}
	return err
}
