package catalog

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Stale is a shard's answer to a call that was computed with another
// configuration: the one that it has, "" for none.
type Stale struct {
	Shard *Shard
	Value string
	met   int64 // what the shard's met was before the call
}

// lost tells whether the shard has lost what this process knew it to have;
// true to one of those who find out.
func (s *Stale) lost() bool { return s.met > 0 && s.Shard.met.CompareAndSwap(s.met, -s.met) }

// Error implements error. No caller of the engine ever sees it.
func (s *Stale) Error() string { return "redisengine: the shard has another configuration" }

// Reply is what a script answered, behind its first word.
type Reply struct {
	Word string
	Rest []rueidis.RedisMessage
}

// Call runs a script on one shard. Clock and version come first.
func (e *Catalog) Call(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args})
}

// CallOnce is call for a caller that has other shards to ask while this one is
// not reached.
func (e *Catalog) CallOnce(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Once: true})
}

func (e *Catalog) run(ctx context.Context, q *Queue, s *Shard, c link.Call) (Reply, error) {
	all := make([]string, 0, len(c.Args)+2)
	c.Args = append(append(all, e.Clock(), q.Version), c.Args...)
	met := s.met.Load()
	msg, err := e.Link.Run(ctx, c)
	if err != nil {
		return Reply{}, err
	}
	return e.readReply(c.Script.Name, s, met, &msg)
}

// readReply reads the answer to a script's call before which the shard's met was
// that.
func (e *Catalog) readReply(name string, s *Shard, met int64, msg *rueidis.RedisMessage) (Reply, error) {
	items, err := msg.ToArray()
	if err != nil || len(items) == 0 {
		return Reply{}, e.UnexpectedReply(name)
	}
	r := Reply{Word: codec.Text(&items[0]), Rest: items[1:]}
	if r.Word == "config" {
		return r, &Stale{Shard: s, Value: codec.Text(&r.Rest[0]), met: met}
	}
	s.meet()
	return r, nil
}

// Parallel does something with every part, and answers the first error. That
// a shard has another configuration is told only if nothing else went wrong:
// the call is then repeated.
func Parallel[T any](parts []T, f func(T) error) error {
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
		if _, again := err.(*Stale); err == nil || again && other != nil {
			err = other
		}
	}
	return err
}

// CallByID runs a script on the shard of a job; the reply is "none" for an
// unknown queue.
func (e *Catalog) CallByID(ctx context.Context, ref duly.QueueRef, id string, sc *store.Script, bounded bool, args ...string) (r Reply, err error) {
	if err := duly.ValidateID(id); err != nil {
		return r, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return r, err
	}
	err = e.With(ctx, ref.Normal(), func(q *Queue) (err error) {
		if q == nil {
			r = Reply{Word: "none"}
			return nil
		}
		s := q.Shards[duly.ShardOf(id, len(q.Shards))]
		all := []string{codec.Alias(id)}
		if bounded {
			all = []string{s.Limits, codec.Alias(id)}
		}
		r, err = e.Call(ctx, q, s, sc, append(all, args...)...)
		return err
	})
	return r, err
}

// CallWhenStepped calls a script that can't tell what holds by the clock while too
// many due jobs wait for their step, and makes those steps.
func (e *Catalog) CallWhenStepped(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply, error) {
	for {
		r, err := e.Call(ctx, q, s, sc, args...)
		if err != nil || r.Word != "behind" {
			return r, err
		}
		if _, err := e.Call(ctx, q, s, store.ScriptStep, s.Limits); err != nil {
			return r, err
		}
	}
}

// Write runs a script whose answer promises durability: durable says if that is
// not confirmed. The arguments begin with clock and version. waited is
// link.Call's.
func (e *Catalog) Write(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args []string, waited bool) (r Reply, durable, err error) {
	met := s.met.Load()
	msg, durable, err := e.Link.RunDurable(ctx, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Waited: waited})
	if err != nil {
		return Reply{}, nil, err
	}
	r, err = e.readReply(sc.Name, s, met, &msg)
	return r, durable, err
}
