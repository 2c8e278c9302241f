package catalog

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Reply is a script's answer: its first word and the rest.
type Reply struct {
	Word string
	Rest []rueidis.RedisMessage
	// ClosedByLimiter reports whether an outcome has made the limiter close the shard.
	ClosedByLimiter bool
}

// Call runs a script on one shard. Clock and version are its first arguments.
func (e *Catalog) Call(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args})
}

// CallOnce is like Call but without retries, for a caller that can ask other shards while this one is
// unreachable.
func (e *Catalog) CallOnce(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Once: true})
}

func (e *Catalog) run(ctx context.Context, q *Queue, s *Shard, c link.Call) (Reply, error) {
	all := make([]string, 0, len(c.Args)+2)
	c.Args = append(append(all, e.Clock(), q.Version), c.Args...)
	// Read before the call: a shard that loses its data later must not count as lost now.
	met := s.met.Load()
	msg, err := e.Link.Run(ctx, c)
	if err != nil {
		return Reply{}, err
	}
	return e.readReply(c.Script.Name, q, s, met, &msg)
}

// readReply reads a script's answer. met is the shard's counter from before the call.
func (e *Catalog) readReply(name string, q *Queue, s *Shard, met int64, msg *rueidis.RedisMessage) (Reply, error) {
	items, err := msg.ToArray()
	if err != nil || len(items) == 0 {
		return Reply{}, e.UnexpectedReply(name)
	}

	items, closed := e.noteLimits(q, items)
	r := Reply{Word: codec.Text(&items[0]), Rest: items[1:], ClosedByLimiter: closed}
	// The shard has another configuration, so the script changed nothing.
	if r.Word == "config" {
		return r, &Stale{Shard: s, Value: codec.Text(&r.Rest[0]), met: met}
	}
	if r.Word == "damaged" {
		return r, damaged(codec.Text(&r.Rest[0]), codec.Text(&r.Rest[1]))
	}
	s.meet()
	return r, nil
}

// damaged returns the error of a script that can't read a field of a hash. The script has changed
// nothing.
func damaged(key, field string) error {
	return contract.Errorf(
		duly.CodeCorrupt, "the field %q of the key %q can't be read: another program has written there, and nothing was "+
			"done; run duly check --repair", field, key,
	)
}

// Parallel calls f concurrently for every part and returns the first error. It returns Stale only
// if no call failed otherwise, because Stale makes the caller retry.
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

// CallByID runs a script on the shard of a job. The reply is "none" for an unknown queue.
func (e *Catalog) CallByID(
	ctx context.Context, ref duly.QueueRef, id string, sc *store.Script, bounded bool, args ...string,
) (Reply, error) {
	return e.onShardOf(ctx, ref, id, func(q *Queue, s *Shard) (Reply, error) {
		// A script with limits reads them as its first argument.
		all := []string{codec.Alias(id)}
		if bounded {
			all = []string{s.Limits, codec.Alias(id)}
		}
		return e.Call(ctx, q, s, sc, append(all, args...)...)
	})
}

// ReadByID reads the job with an ID and its body. The reply is "none" if the job does not exist.
func (e *Catalog) ReadByID(ctx context.Context, ref duly.QueueRef, id string) (Reply, error) {
	return e.onShardOf(ctx, ref, id, func(q *Queue, s *Shard) (Reply, error) {
		return e.ReadJob(ctx, q, s, codec.Alias(id))
	})
}

// ReadJob is like ReadByID for an alias of lua/include/find.lua in one shard.
func (e *Catalog) ReadJob(ctx context.Context, q *Queue, s *Shard, alias string) (Reply, error) {
	r, err := e.Call(ctx, q, s, store.ScriptGet, "1", strconv.Itoa(duly.MaxBatchBytes), alias)
	if err == nil && len(codec.Elements(&r.Rest[1])) == 0 {
		r.Word = "none"
	}
	return r, err
}

// onShardOf calls f with the shard of a job. The reply is "none" for an unknown queue.
func (e *Catalog) onShardOf(
	ctx context.Context, ref duly.QueueRef, id string, f func(q *Queue, s *Shard) (Reply, error),
) (r Reply, err error) {
	if err := contract.ValidateID(id); err != nil {
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
		r, err = f(q, q.Shards[contract.ShardOf(id, len(q.Shards))])
		return err
	})

	return r, err
}

// CallWhenStepped calls a script that answers "behind" while too many due jobs wait for a step.
// It then makes a step and repeats the call.
func (e *Catalog) CallWhenStepped(ctx context.Context, q *Queue, s *Shard, sc *store.Script, args ...string) (Reply,
	error) {
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

// Write runs a script whose answer promises durability. durable is the error if the servers did
// not confirm it. The arguments begin with clock and version. waited has the same meaning as in link.Call.
func (e *Catalog) Write(
	ctx context.Context, q *Queue, s *Shard, sc *store.Script, args []string, waited bool,
) (r Reply, durable, err error) {
	return e.write(ctx, q, s, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Waited: waited})
}

func (e *Catalog) write(ctx context.Context, q *Queue, s *Shard, c link.Call) (r Reply, durable, err error) {
	met := s.met.Load()
	msg, durable, err := e.Link.RunDurable(ctx, c)
	if err != nil {
		return Reply{}, nil, err
	}
	r, err = e.readReply(c.Script.Name, q, s, met, &msg)
	return r, durable, err
}

// ErrRetry makes With start again, because another process created the queue since it was read.
var ErrRetry = errors.New("redisengine: again")

// With calls f with a queue or a group from the cache. It retries while a shard answers with
// another configuration. f gets nil for an unknown queue.
func (e *Catalog) With(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	return e.with(ctx, ref, func(q *Queue) error {
		if q != nil && q.Topic != nil {
			return contract.IsTopic(ref)
		}
		return f(q)
	})
}

func (e *Catalog) with(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Find(ctx, ref)
		if err != nil {
			return err
		}

		switch err = f(q); err {
		case nil:
			return nil
		// Find reads the cache again, which now has the new queue.
		case ErrRetry:
			continue
		}

		var other *Stale
		if !errors.As(err, &other) {
			return err
		}
		// Sync brings both sides to the list's configuration before the next attempt.
		if err := e.Sync(ctx, q, other); err != nil {
			return err
		}
	}

	return c.Failed("the configuration of queue %s keeps changing", ref)
}

// WithShard calls f with a shard, and reports whether the shard exists.
func (e *Catalog) WithShard(ctx context.Context, at ShardRef, f func(q *Queue, s *Shard) error) (there bool,
	err error) {
	err = e.With(ctx, at.Ref, func(q *Queue) error {
		s := q.Shard(at.Index)
		// The queue may have been destroyed, or created again with fewer shards.
		if there = s != nil; !there {
			return nil
		}
		return f(q, s)
	})
	return there, err
}
