package maintain

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Step implements contract.Maintainer. It also fires due ticks, one round for each shard.
func (e *Maintainer) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	if err := e.Admit(ctx, ref); err != nil {
		return false, err
	}
	var w catalog.Walk
	var due []catalog.ShardRef // shards with a due tick
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		return w.Each(q, 0, func(s *catalog.Shard) error {
			r, err := e.Call(ctx, q, s, store.ScriptStep, s.Limits)
			if err != nil {
				return err
			}
			more = more || codec.Integer(&r.Rest[0]) == 1
			if tick := codec.Integer(&r.Rest[3]); tick != 0 && tick <= codec.Integer(&r.Rest[1]) {
				due = append(due, catalog.ShardRef{Ref: q.Ref, Index: s.Index})
			}
			return nil
		})
	})

	// A pass reads the configuration by itself, so it runs outside the walk.
	for _, at := range due {
		again, failed := e.Ticks.Round(ctx, at)
		more, err = more || again, cmp.Or(err, failed)
	}
	return more, err
}

// maxHolding bounds the shards of one call of the holding script, maxOverdue those of one call of
// the overdue script.
const (
	maxHolding = 250
	maxOverdue = 100
)

// These are the keys of one shard that the two scripts read.
var (
	holdingKeys = []string{"config", "records", "ticks"}
	overdueKeys = []string{"config", "delayed", "leased", "expiry", "dead", "done", "ticks"}
)

// sweeps lets one sweep run at a time, and counts them.
type sweeps struct {
	Turn chan struct{} // holds one value while a sweep runs
	n    uint64
}

// Maintainer sweeps and checks the store.
type Maintainer struct {
	*catalog.Catalog
	Repairer  *Repairer
	Sweeps    sweeps
	Libraries LibraryCleaner
	Logs      TopicMaintainer
}

// New returns the maintainer of a catalog.
func New(c *catalog.Catalog) *Maintainer {
	e := &Maintainer{Catalog: c, Repairer: &Repairer{Catalog: c}, Sweeps: sweeps{Turn: make(chan struct{}, 1)}}
	e.Libraries.e = c
	return e
}

// Sweep implements contract.Maintainer. One call per some hundred shards returns which of them
// have jobs. A second call returns which of those have overdue work, and these are stepped. An
// error in one shard does not stop the sweep of the others. Sweep also detects that the store was
// reset while no calls came, and removes libraries that no process uses.
func (e *Maintainer) Sweep(ctx context.Context) error {
	if err := e.Alive(ctx); err != nil {
		return err
	}

	// Two sweeps at a time would only do the same work twice.
	select {
	case e.Sweeps.Turn <- struct{}{}:
		defer func() { <-e.Sweeps.Turn }()
	case <-ctx.Done():
		return ctx.Err()
	}

	e.Sweeps.n++
	e.Cache.DropIdle()
	hasty, cancel := link.Hasty(ctx)
	defer cancel()
	s := &sweep{e: e, n: e.Sweeps.n, hasty: hasty}
	err := s.run(ctx)
	// The cleanup needs rights that many users lack, so its errors don't fail the sweep.
	if e.Libraries.isDue() {
		e.Libraries.clean(s.pace(ctx))
	}

	return err
}

// sweep is one Sweep in progress.
type sweep struct {
	e       *Maintainer
	n       uint64
	seen    []string // names of the visited namespaces
	partial bool     // whether some queues were not visited
	failed  error    // first error of the sweep
	// hasty is the context for calls after a node was unreachable: they are not retried. Otherwise
	// each namespace on a node that is down would delay the rest.
	hasty context.Context
	hurry bool
}

// pace returns the context for the next calls.
func (s *sweep) pace(ctx context.Context) context.Context {
	if s.hurry {
		return s.hasty
	}
	return ctx
}

func (s *sweep) run(ctx context.Context) error {
	e := s.e
	err := e.EachPage(ctx, e.NamespacesKey(), func(namespaces []string) error {
		return s.namespaces(ctx, slices.DeleteFunc(namespaces, store.InvalidNamespace))
	})

	s.missed(err)
	if err := ctx.Err(); err != nil {
		return err
	}
	// A namespace whose mark has changed was lost, which no call may have noticed.
	if err := e.AskAllMarks(s.pace(ctx), slices.Clone(s.seen)); err != nil {
		s.fail(err)
	}
	// Missing namespaces are known only if the whole list was read.
	if err == nil {
		s.missed(s.unlisted(ctx))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.partial {
		// A partial sweep has not met all queues that exist.
		e.Summaries.DropOlder(s.n)
	}

	return s.failed
}

// namespaces sweeps some namespaces.
func (s *sweep) namespaces(ctx context.Context, namespaces []string) error {
	s.seen = append(s.seen, namespaces...)
	for _, namespace := range namespaces {
		s.missed(s.e.EachPage(s.pace(ctx), s.e.NamesKey(namespace),
			func(names []string) error { return s.page(s.pace(ctx), namespace, names) }))
		if err := s.e.Logs.SweepTopics(s.pace(ctx), namespace, s.n); err != nil {
			s.fail(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// unlisted adds namespaces to the list that this process knows and the list lacks. It sweeps them
// as well. In a cluster the list and the namespaces are on different nodes, so the list alone may
// be lost. A namespace whose mark is missing was lost itself, and is not added. If the list is
// complete, unlisted sends nothing.
func (s *sweep) unlisted(ctx context.Context) error {
	e := s.e
	for some := range slices.Chunk(e.Marks.Others(s.seen), duly.MaxBatch) {
		entered, err := e.AddNamespaces(s.pace(ctx), some...)
		if err != nil {
			return err
		}
		if entered > 0 {
			// Otherwise they were created while the list was read.
			e.Settings.Logger.Error("the list of namespaces has lost some that are in use; they were added again",
				"namespaces", entered)
		}
		if err := s.namespaces(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// missed records that some queues were not swept.
func (s *sweep) missed(err error) {
	if err != nil {
		s.partial = true
		s.fail(err)
	}
}

// page sweeps some queues of a namespace.
func (s *sweep) page(ctx context.Context, namespace string, names []string) error {
	// Check reports invalid names.
	names = slices.DeleteFunc(names, store.InvalidQueue)
	queues, err := s.e.Summarize(ctx, namespace, names, func(q *catalog.Queue, err error) {
		if err == nil {
			// The process that destroyed the queue has died before it finished.
			err = s.e.FinishDestroy(ctx, q)
		}
		if err != nil {
			s.fail(err)
		}
	})

	if err != nil {
		return err
	}

	ref := func(i int) duly.QueueRef { return duly.QueueRef{Namespace: namespace, Name: names[i]} }
	holding := &catalog.MultiCall{
		Catalog: s.e.Catalog, QueueOf: ref, Script: store.ScriptHolding, Keys: holdingKeys, MaxShards: maxHolding,
		Paced: s.hurry,
	}
	for i, q := range queues {
		if q == nil {
			continue
		}
		q.Swept = s.n
		for k := range q.Limits {
			holding.Add(catalog.Target{Queue: i, Shard: k, Summary: q}, q.Version)
		}
	}

	overdue := &catalog.MultiCall{
		Catalog: s.e.Catalog, QueueOf: ref, Script: store.ScriptOverdue, Keys: overdueKeys, MaxShards: maxOverdue,
		FirstArgs: []string{s.e.Clock()}, Paced: s.hurry,
	}
	// In a cluster each call covers one shard anyway, so the second call is made at once.
	for _, at := range holding.Singles() {
		overdue.Add(at, at.Version, at.Limits[at.Shard])
	}

	err = holding.Run(ctx, s.each(ctx, ref, func(targets []catalog.Target, answer *rueidis.RedisMessage) error {
		return eachPlace(targets, answer, func(at catalog.Target, _ bool) error {
			overdue.Add(at, at.Version, at.Limits[at.Shard])
			return nil
		})
	}))
	if err != nil {
		return err
	}
	return s.stepOverdue(ctx, overdue, ref)
}

// stepOverdue steps the shards with overdue work.
func (s *sweep) stepOverdue(ctx context.Context, overdue *catalog.MultiCall, ref func(int) duly.QueueRef) error {
	asked := s.e.Local().Mono()
	return overdue.Run(s.pace(ctx), s.each(ctx, ref, func(targets []catalog.Target, answer *rueidis.RedisMessage) error {
		parts := codec.Elements(answer)
		r := store.Reading{Now: codec.Integer(&parts[0]), Sent: asked, Received: s.e.Local().Mono()}
		s.ticks(ref, targets, codec.Elements(&parts[2]), r)
		return eachPlace(targets, &parts[1], func(at catalog.Target, other bool) error {
			if other {
				// The configuration has changed, so the next sweep must read it again.
				s.e.Summaries.Forget(ref(at.Queue), at.Summary)
			}
			return s.step(ctx, catalog.ShardRef{Ref: ref(at.Queue), Index: at.Shard})
		})
	}))
}

// ticks makes this process fire due ticks now and later ticks on time. firsts has the time of the
// first tick of each shard that has one.
func (s *sweep) ticks(ref func(int) duly.QueueRef, targets []catalog.Target, firsts []rueidis.RedisMessage,
	r store.Reading) {
	for i := 0; i+1 < len(firsts); i += 2 {
		at := targets[codec.Integer(&firsts[i])-1]
		shard, tick := catalog.ShardRef{Ref: ref(at.Queue).Normal(), Index: at.Shard}, codec.Integer(&firsts[i+1])
		s.e.Ticks.Keep(shard, tick, r)
		if tick <= r.Milli() {
			s.e.Ticks.Start(shard)
		}
	}
}

// each returns a handler that calls f with each answer. If a call failed because of damaged data
// in one of its shards, each shard is stepped alone.
func (s *sweep) each(
	ctx context.Context, ref func(int) duly.QueueRef, f func(targets []catalog.Target, answer *rueidis.RedisMessage) error,
) func([]catalog.Target, *rueidis.RedisMessage, error) error {
	return func(targets []catalog.Target, answer *rueidis.RedisMessage, err error) error {
		if err != nil && duly.CodeOf(err) != duly.CodeCorrupt {
			s.fail(err)
			return nil
		}

		if err != nil {
			for _, at := range targets {
				if err := s.step(ctx, catalog.ShardRef{Ref: ref(at.Queue), Index: at.Shard}); err != nil {
					return err
				}
			}
			return nil
		}

		return f(targets, answer)
	}
}

// eachPlace calls f for the shards whose indexes an answer has. other is set if a shard has another
// configuration.
func eachPlace(targets []catalog.Target, answer *rueidis.RedisMessage,
	f func(at catalog.Target, other bool) error) error {
	places := codec.Elements(answer)
	for i := range places {
		// A negative index means another configuration.
		place := codec.Integer(&places[i])
		if err := f(targets[max(place, -place)-1], place < 0); err != nil {
			return err
		}
	}
	return nil
}

// step steps a shard until no more work is due.
func (s *sweep) step(ctx context.Context, at catalog.ShardRef) error {
	for {
		more, err := s.e.stepShard(s.pace(ctx), at)
		if err != nil {
			s.fail(err)
			return ctx.Err()
		}
		if !more {
			return nil
		}
	}
}

func (s *sweep) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
	s.hurry = s.hurry || duly.CodeOf(err) == duly.CodeUnavailable
}

// stepShard makes one step in one shard.
func (e *Maintainer) stepShard(ctx context.Context, at catalog.ShardRef) (more bool, err error) {
	_, err = e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
		r, err := e.Call(ctx, q, s, store.ScriptStep, s.Limits)
		if err != nil {
			e.Repairer.Repair(at, err)
		}
		more = err == nil && codec.Integer(&r.Rest[0]) == 1
		return err
	})
	return more, err
}
