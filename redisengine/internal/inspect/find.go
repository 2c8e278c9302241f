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

// errFull ends the walk over the queues when the result has no more room.
var errFull = errors.New("redisengine: found enough jobs")

// Find implements contract.Finder. The ID names the shard of each queue that may have the job. Find
// asks these shards for the job without its body, in pipelines. Then it gets the jobs that it has
// found and that fit into the result.
func (e *Inspector) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	if err := contract.ValidateFind(namespace, id); err != nil {
		return contract.Found{}, err
	}

	f := &finder{e: e, namespace: contract.NamespaceOr(namespace), id: id}
	known := false
	err := e.EachPage(ctx, e.NamesKey(f.namespace), func(names []string) error {
		known = known || len(names) > 0
		return f.search(ctx, slices.DeleteFunc(names, store.InvalidQueue))
	})
	// No names: the queues may be lost, which the mark shows.
	if err == nil && !known {
		_, err = e.AskMark(ctx, f.namespace, nil, nil)
	}
	if err != nil && err != errFull {
		return contract.Found{}, err
	}
	return f.found.OrNotFound(namespace, id)
}

// finder is the progress of a Find.
type finder struct {
	e         *Inspector
	namespace string
	id        string
	found     contract.Found
}

// candidate is a queue that has the job, or that did not answer.
type candidate struct {
	queue duly.QueueRef
	bytes int // size of the body, 0 for a queue that did not answer
}

// search adds the jobs of one page of queues. It returns errFull if the result has no more room.
func (f *finder) search(ctx context.Context, names []string) error {
	candidates, err := f.ask(ctx, names)
	if err != nil {
		return err
	}

	for len(candidates) > 0 {
		n := f.next(candidates)
		jobs, err := f.get(ctx, candidates[:n])
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if j != nil && !f.found.Add(*j) {
				return errFull
			}
		}
		candidates = candidates[n:]
	}
	return nil
}

// ask returns the queues that have the job, in the order of names.
func (f *finder) ask(ctx context.Context, names []string) ([]candidate, error) {
	refs := make([]duly.QueueRef, len(names))
	for i, name := range names {
		refs[i] = duly.QueueRef{Namespace: f.namespace, Name: name}
	}
	queues, err := f.e.Summarize(ctx, f.namespace, names, func(*catalog.Queue, error) {})
	if err != nil {
		return nil, err
	}

	calls := &catalog.MultiCall{
		Catalog: f.e.Catalog, QueueOf: func(i int) duly.QueueRef { return refs[i] }, Script: store.ScriptGet,
		Keys: store.ScriptGet.Keys, MaxShards: 1, Paced: true,
	}
	answers := make([]*candidate, len(names))
	for i, q := range queues {
		if q == nil {
			answers[i] = &candidate{queue: refs[i]}
			continue
		}
		at := catalog.Target{Queue: i, Shard: contract.ShardOf(f.id, len(q.Limits)), Summary: q}
		calls.Add(at, f.e.Clock(), q.Version, "0", "0", codec.Alias(f.id))
	}

	err = calls.Run(ctx, func(targets []catalog.Target, answer *rueidis.RedisMessage, err error) error {
		at := targets[0]
		answers[at.Queue] = f.read(refs[at.Queue], at.Summary, answer, err)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var candidates []candidate
	for _, c := range answers {
		if c != nil {
			candidates = append(candidates, *c)
		}
	}
	return candidates, nil
}

// read returns nil if the answer says that the shard does not have the job.
func (f *finder) read(q duly.QueueRef, known *catalog.Summary, answer *rueidis.RedisMessage, err error) *candidate {
	// Get repeats a failed call, or returns its error.
	if err != nil {
		return &candidate{queue: q}
	}

	items := codec.Elements(answer)
	if len(items) == 3 && codec.Text(&items[0]) == "ok" {
		job := codec.Elements(&items[2])
		if len(job) == 0 {
			return nil
		}
		if len(job) > 2 {
			return &candidate{queue: q, bytes: int(codec.Integer(&job[2]))}
		}
	}

	// The shard has another configuration, or can't be read.
	f.e.Summaries.Forget(q, known)
	return &candidate{queue: q}
}

// next returns the number of candidates whose jobs fit into the result, at least 1.
func (f *finder) next(candidates []candidate) int {
	n, bytes := 0, 0
	for n < len(candidates) && n < contract.MaxFound {
		if bytes += candidates[n].bytes; n > 0 && bytes > duly.MaxBatchBytes {
			break
		}
		n++
	}
	return n
}

// get returns the jobs of some queues, nil for a queue that does not have the job.
func (f *finder) get(ctx context.Context, candidates []candidate) ([]*duly.JobInfo, error) {
	jobs, indexes := make([]*duly.JobInfo, len(candidates)), make([]int, len(candidates))
	for i := range indexes {
		indexes[i] = i
	}
	// The concurrent calls share pipelines.
	err := catalog.Parallel(indexes, func(i int) error {
		j, err := f.e.Get(ctx, candidates[i].queue, f.id)
		if errors.Is(err, duly.ErrNotFound) {
			return nil
		}
		jobs[i] = &j
		return err
	})
	return jobs, err
}
