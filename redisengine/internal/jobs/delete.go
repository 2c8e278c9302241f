package jobs

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Delete implements contract.Operator. Concurrent deletes share a script call.
func (e *Jobs) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return err
	}

	there := false
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		j := newBatched(1)
		j.Args = append(j.Args, codec.Alias(id))
		j.Apply = func(r BatchReply) { there = len(r.Lost) == 0 }
		return join(ctx, &e.Batchers(q, q.Shards[contract.ShardOf(id, len(q.Shards))]).Remove, j)
	})

	switch {
	case err != nil:
		return err
	case !there:
		return contract.NotFound(ref, id)
	}

	// A worker may be running the job, and should stop.
	e.cancels.Report(ref.Normal(), id)
	return nil
}

// DeleteJobs implements contract.Operator. The IDs of a shard share a script call, also with
// concurrent deletes. A failed shard is reported at its own IDs if another shard has answered.
func (e *Jobs) DeleteJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if err := contract.ValidateDeleteJobs(ids, state); err != nil {
		return nil, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return nil, err
	}

	d := &deletion{Jobs: e, ref: ref.Normal(), ids: ids, state: state, results: make([]error, len(ids))}
	asked := catalog.NewIDs(d.ref, ids, func(i int, err error) { d.results[i] = err })
	err := asked.Finish(e.With(ctx, d.ref, func(q *catalog.Queue) error {
		return asked.EachShard(q, true, func(s *catalog.Shard, indexes []int) error {
			return d.inShard(ctx, q, s, indexes, asked.Aliases(indexes))
		})
	}))
	if err != nil {
		return nil, err
	}

	// Workers may be running the deleted jobs, and should stop.
	if deleted := d.deleted(); len(deleted) > 0 && contract.MayRun(state) {
		e.cancels.Report(d.ref, deleted...)
	}
	return d.results, nil
}

// deletion is one DeleteJobs in progress.
type deletion struct {
	*Jobs
	ref     duly.QueueRef
	ids     []string
	state   duly.State
	results []error
}

// inShard deletes the jobs with the IDs at these indexes.
func (d *deletion) inShard(
	ctx context.Context, q *catalog.Queue, s *catalog.Shard, indexes []int, aliases []string,
) error {
	// A call that continues without its caller still writes to this slice.
	errs := make([]error, len(indexes))
	j := newBatched(len(indexes))
	j.Args, j.state = append(j.Args, aliases...), d.state
	j.Apply = func(r BatchReply) {
		for k, at := range r.Lost {
			id := d.ids[indexes[at]]
			if errs[at] = contract.NotFound(d.ref, id); r.states[k] != duly.StateNone {
				errs[at] = contract.WrongState(id, r.states[k], d.state)
			}
		}
	}
	if err := join(ctx, &d.Batchers(q, s).Remove, j); err != nil {
		return err
	}

	for k, i := range indexes {
		d.results[i] = errs[k]
	}
	return nil
}

// deleted returns the IDs of the deleted jobs.
func (d *deletion) deleted() (ids []string) {
	for i, id := range d.ids {
		if d.results[i] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// sendDelete returns the sender of batched deletes.
func (e *Jobs) sendDelete(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		args := append(make([]string, 0, 2+len(calls)), s.Limits, codec.StateText(calls[0].state))
		for _, c := range calls {
			args = append(args, c.Args...)
		}

		r, err := e.Call(ctx, q, s, store.ScriptDelete, args...)
		if err != nil {
			return err
		}
		readKept(calls, r.Rest)
		return nil
	}
}

// readKept gives each caller the indexes of its IDs that were not deleted, and the states of their
// jobs. The script's answer has pairs, in the order of the IDs.
func readKept(calls []*Batched, pairs []rueidis.RedisMessage) {
	all := BatchReply{Lost: make([]int, len(pairs)/2), states: make([]duly.State, len(pairs)/2)}
	for k := range all.Lost {
		all.Lost[k] = int(codec.Integer(&pairs[2*k])) - 1
		all.states[k] = codec.State(&pairs[2*k+1])
	}
	shareLost(calls, all)
}
