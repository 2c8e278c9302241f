package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// maxIdle bounds the shards of one call of the idle script.
const maxIdle = 100

// idleKeys are the keys of one shard that the idle script reads.
var idleKeys = []string{"config", "records", "tally", "ticks"}

// Survey implements contract.Surveyor. It reads the counters of a hundred shards per call. They
// describe a shard without jobs completely. It calls Stats for each of the others. Stats also
// covers the shards for which one call is not enough: a shard has another configuration, needs
// steps first, uses very many priorities, or has damaged keys.
func (e *Inspector) Survey(ctx context.Context, namespace string, p duly.PageParams) (page contract.SurveyPage,
	err error) {
	names, err := e.surveyed(ctx, namespace, p)
	if err != nil {
		return page, err
	}

	s := &survey{e: e, namespace: contract.NamespaceOr(namespace), queues: make([]contract.QueueStats, len(names.Names))}
	for i, name := range names.Names {
		s.queues[i].Name, s.queues[i].Stats.Tokens = name, duly.None
	}

	queues, err := e.Summarize(ctx, s.namespace, names.Names, func(*catalog.Queue, error) {})
	if err != nil {
		return page, err
	}
	if err := s.ask(ctx, queues); err != nil {
		return page, err
	}
	if err := s.askAlone(ctx); err != nil {
		return page, err
	}
	if err := s.askGroups(ctx); err != nil {
		return page, err
	}

	for i := range s.queues {
		if s.queues[i].Err != nil {
			// Partial sums would look like a smaller queue.
			s.queues[i].Stats, s.queues[i].Throttle = duly.Stats{}, contract.Throttle{}
		}
	}

	return contract.SurveyPage{Queues: s.queues, Next: names.Next}, nil
}

// survey is the progress of one page.
type survey struct {
	e         *Inspector
	namespace string
	queues    []contract.QueueStats
	alone     []int // indexes of the queues that need Stats
}

func (s *survey) ref(i int) duly.QueueRef {
	return duly.QueueRef{Namespace: s.namespace, Name: s.queues[i].Name}
}

func (s *survey) ask(ctx context.Context, queues []*catalog.Summary) error {
	idle := &catalog.MultiCall{Catalog: s.e.Catalog, QueueOf: s.ref, Script: store.ScriptIdle, Keys: idleKeys,
		MaxShards: maxIdle, Paced: true}
	var limited []catalog.Target
	for i, q := range queues {
		if s.ref(i).IsGroup() {
			continue
		}
		if q == nil {
			s.askLater(i)
			continue
		}
		s.queues[i].Throttle, s.queues[i].Stats.Delivery = q.Throttle, q.Delivery
		for k := range q.Limits {
			// The limiter and the bucket of a shard have a state even without jobs.
			if q.Adapts || q.Throttle.Rate.Limited() {
				limited = append(limited, catalog.Target{Queue: i, Shard: k, Summary: q})
				continue
			}
			idle.Add(catalog.Target{Queue: i, Shard: k, Summary: q}, q.Version)
		}
	}

	busy := &catalog.MultiCall{
		Catalog: s.e.Catalog, QueueOf: s.ref, Script: store.ScriptStats, Keys: store.ShardKeys[:], MaxShards: 1,
		Paced: true,
	}
	add := func(at catalog.Target) { busy.Add(at, s.e.Clock(), at.Version, at.Limits[at.Shard], "") }
	// In a cluster each call covers one shard anyway, so the full stats are read at once.
	for _, at := range append(idle.Singles(), limited...) {
		add(at)
	}

	err := idle.Run(ctx, func(targets []catalog.Target, answer *rueidis.RedisMessage, err error) error {
		if err != nil {
			s.refused(targets, err)
			return nil
		}

		counted := codec.Elements(answer)
		for i, at := range targets {
			// nil means that the shard has jobs, so its counters are not all.
			if counted[i+1].IsNil() {
				add(at)
			} else {
				addCounters(&s.queues[at.Queue].Stats.Counters, codec.Elements(&counted[0]), codec.Elements(&counted[i+1]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return busy.Run(ctx, s.addAnswer)
}

// addAnswer adds the statistics of a busy shard to those of its queue.
func (s *survey) addAnswer(targets []catalog.Target, answer *rueidis.RedisMessage, err error) error {
	at := targets[0]
	items := codec.Elements(answer)
	switch {
	case err != nil:
		s.refused(targets, err)
	case len(items) > 1 && codec.Text(&items[0]) == "ok" && codec.Text(&items[6]) == "":
		addStats(&s.queues[at.Queue].Stats, items[1:])
	default:
		s.e.Summaries.Forget(s.ref(at.Queue), at.Summary)
		s.askLater(at.Queue)
	}
	return nil
}

// surveyed lists the queues and groups of one page. The cursor may be the name of a queue or of a
// group.
func (e *Inspector) surveyed(ctx context.Context, namespace string, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}
	if err := contract.ValidatePage(&p); err != nil {
		return page, err
	}
	if ref := (duly.QueueRef{Name: p.Cursor}); p.Cursor != "" && contract.ValidateQueue(ref) != nil {
		return page, contract.BadCursor()
	}

	namespace = contract.NamespaceOr(namespace)
	groups, err := e.Of.Behind(ctx, namespace, p.Cursor)
	if err != nil {
		return page, err
	}
	if page, err = e.NamesBehind(ctx, e.NamesKey(namespace), store.InvalidQueue, p); err != nil {
		return page, err
	}
	if len(groups) == 0 {
		// No names: the queues may be lost, which the mark shows.
		if len(page.Names) == 0 && p.Cursor == "" {
			_, err = e.AskMark(ctx, namespace, nil, nil)
		}
		return page, err
	}

	// Groups after the last queue of this page belong to a later page.
	if page.Next != "" {
		groups = slices.DeleteFunc(groups, func(name string) bool { return name > page.Next })
	}
	page.Names = slices.Sorted(slices.Values(append(page.Names, groups...)))
	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}
	return page, nil
}

// askGroups reads the stats of the groups.
func (s *survey) askGroups(ctx context.Context) error {
	for i := range s.queues {
		q := &s.queues[i]
		if ref := s.ref(i); ref.IsGroup() {
			if q.Stats, q.Throttle, q.Err = s.e.Of.Surveyed(ctx, ref); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// refused handles a failed call. A node that does not answer is not asked again, because Stats
// would wait for it once per queue.
func (s *survey) refused(targets []catalog.Target, err error) {
	for _, at := range targets {
		if errors.Is(err, duly.ErrUnavailable) {
			s.queues[at.Queue].Err = err
		} else {
			s.askLater(at.Queue)
		}
	}
}

func (s *survey) askLater(queue int) { s.alone = append(s.alone, queue) }

// askAlone reads the queues that need Stats.
func (s *survey) askAlone(ctx context.Context) error {
	slices.Sort(s.alone)
	for _, i := range slices.Compact(s.alone) {
		q := &s.queues[i]
		if q.Err != nil {
			continue
		}
		if q.Stats, q.Throttle, q.Err = s.e.stats(ctx, s.ref(i)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
