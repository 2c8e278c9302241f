package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/inspect"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Requeue implements contract.Operator. A retry after a change of the configuration does not undo
// what the first attempt has requeued.
func (e *Operator) Requeue(ctx context.Context, ref duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if err := contract.ValidateRequeue(&p); err != nil {
		return nil, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return nil, err
	}
	r := &requeueCall{e: e, ref: ref, p: p, results: make([]duly.RequeueResult, len(p.IDs)),
		answered: make([]bool, len(p.IDs))}
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if p.N > 0 {
			return r.oldest(ctx, q)
		}
		return r.byID(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	return r.results, nil
}

// requeueCall is one Requeue in progress.
type requeueCall struct {
	e        *Operator
	ref      duly.QueueRef
	p        duly.RequeueParams
	results  []duly.RequeueResult
	answered []bool // whether each requested ID has its answer
}

// shard requeues jobs of one shard: those with the given IDs, or else the n oldest.
func (r *requeueCall) shard(ctx context.Context, q *catalog.Queue, s *catalog.Shard, n int,
	ids []string) ([]duly.RequeueResult, error) {
	ttl, packed := int64(duly.None), ""
	if r.p.TTL > 0 {
		ttl, packed = codec.Micros(r.p.TTL), codec.PackTTL(r.p.TTL)
	}

	args := []string{s.Limits, strconv.Itoa(r.p.Tries), strconv.FormatInt(ttl, 10), packed, strconv.Itoa(n)}
	for _, id := range ids {
		args = append(args, codec.Alias(id))
	}

	reply, err := r.e.Call(ctx, q, s, store.ScriptRequeue, args...)
	if err != nil {
		return nil, err
	}

	results := make([]duly.RequeueResult, len(reply.Rest))
	for i := range reply.Rest {
		id := ""
		if n == 0 {
			id = ids[i]
		}
		results[i] = requeued(r.ref, id, codec.Elements(&reply.Rest[i]))
	}

	return results, nil
}

func (r *requeueCall) byID(ctx context.Context, q *catalog.Queue) error {
	places := map[int][]int{} // indexes of the IDs by shard
	for i, id := range r.p.IDs {
		err := contract.ValidateID(id)
		if err == nil && q == nil {
			err = contract.NotFound(r.ref, id)
		}
		if err != nil {
			r.results[i] = duly.RequeueResult{ID: id, Err: err}
			// A retry skips the IDs that an earlier attempt has answered.
		} else if !r.answered[i] {
			shard := contract.ShardOf(id, len(q.Shards))
			places[shard] = append(places[shard], i)
		}
	}

	// Sorting makes the order of the shards repeatable.
	for _, shard := range slices.Sorted(maps.Keys(places)) {
		ids := make([]string, len(places[shard]))
		for k, i := range places[shard] {
			ids[k] = r.p.IDs[i]
		}
		results, err := r.shard(ctx, q, q.Shards[shard], 0, ids)
		if err != nil {
			return err
		}
		for k, i := range places[shard] {
			r.results[i], r.answered[i] = results[k], true
		}
	}

	return nil
}

// oldest requeues the jobs that died first. With several shards it reads their IDs first. If one of
// these jobs is no longer dead, it takes the next one.
func (r *requeueCall) oldest(ctx context.Context, q *catalog.Queue) error {
	if q == nil {
		return nil
	}

	if len(q.Shards) == 1 {
		results, err := r.shard(ctx, q, q.Shards[0], r.p.N, nil)
		r.results = append(r.results, results...)
		return err
	}

	// The loop ends when a round requeues nothing, because then no dead jobs are left.
	for before := -1; len(r.results) > before && len(r.results) < r.p.N; {
		before = len(r.results)
		ids, err := r.e.oldestDead(ctx, q, r.p.N-before)
		if err != nil {
			return err
		}
		some := requeueCall{e: r.e, ref: r.ref, p: r.p, results: make([]duly.RequeueResult, len(ids)),
			answered: make([]bool, len(ids))}
		some.p.IDs = ids
		err = some.byID(ctx, q)
		// These jobs count even if a later shard has failed, because a retry goes on after them.
		for i, result := range some.results {
			if some.answered[i] && result.Err == nil {
				r.results = append(r.results, result)
			}
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// oldestDead returns the IDs of the n jobs that died first, over all shards.
func (e *Operator) oldestDead(ctx context.Context, q *catalog.Queue, n int) (ids []string, err error) {
	walks := make([]deadCursor, len(q.Shards))
	for i := range walks {
		walks[i].at = inspect.Cursor{State: duly.StateDead, Shard: i}
	}

	for len(ids) < n {
		var first *deadCursor
		for i := range walks {
			// A merge of the shards' lists, each read page by page.
			w := &walks[i]
			// Twice an even share means that most shards need only one page.
			if err := w.fill(ctx, e, q, max(8, 2*n/len(walks))); err != nil {
				return nil, err
			}
			if len(w.jobs) > 0 && (first == nil || w.older(first)) {
				first = w
			}
		}
		if first == nil {
			return ids, nil
		}
		ids, first.jobs = append(ids, first.jobs[0].Job.ID), first.jobs[1:]
	}

	return ids, nil
}

// deadCursor is a position in the dead jobs of one shard.
type deadCursor struct {
	at    inspect.Cursor
	jobs  []codec.Listed // jobs that were read but not yet requeued
	ended bool           // whether the shard has no more dead jobs
}

func (w *deadCursor) fill(ctx context.Context, e *Operator, q *catalog.Queue, page int) error {
	for len(w.jobs) == 0 && !w.ended {
		jobs, more, err := inspect.ListShard(ctx, e.Catalog, q, &w.at, duly.ListParams{State: duly.StateDead}, page,
			duly.MaxBatchBytes)
		if err != nil {
			return err
		}
		w.jobs, w.ended = jobs, !more
	}
	return nil
}

func (w *deadCursor) older(o *deadCursor) bool {
	a, b := &w.jobs[0], &o.jobs[0]
	return cmp.Or(cmp.Compare(a.Score, b.Score), slices.Compare(a.Job.Number[:], b.Job.Number[:])) < 0
}

// requeued reads the answer for one job. id is "" if the script chose the job.
func requeued(ref duly.QueueRef, id string, r []rueidis.RedisMessage) duly.RequeueResult {
	result := duly.RequeueResult{ID: id}
	switch word := codec.Text(&r[0]); word {
	case "none":
		result.Err = contract.NotFound(ref, id)
	case "conflict":
		s := codec.State(&r[1])
		result.Err = contract.Conflict(s, "job %q is %s, not dead", id, s)
	case "merged":
		result.ID, result.Merged = codec.JobID(&r[1], &r[2]), codec.JobID(&r[3], &r[4])
	default:
		result.ID, result.State = codec.JobID(&r[1], &r[2]), codec.State(&r[0])
	}
	return result
}
