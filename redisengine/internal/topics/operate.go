package topics

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// DeleteMessage deletes a message that a group holds, or a dead copy.
func (e *Topics) DeleteMessage(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return err
	}

	ref = ref.Normal()
	word := "none"
	err := e.WithGroup(ctx, ref, func(q *catalog.Queue) error {
		shard, p, err := e.place(ref, id)
		s := q.Shard(shard)
		if err != nil || s == nil {
			return err
		}
		r, err := e.CallGroup(ctx, q, s, store.ScriptGroupDelete, p.String())
		if err == nil {
			word = codec.Text(&r.Rest[0])
		}
		return err
	})

	switch {
	case err != nil:
		return err
	case word == "beyond":
		return contract.NotBeyondCursor(ref, id)
	case word == "none":
		return contract.NoMessage(ref, id)
	}

	// A worker may be running the message.
	e.cancels.Report(ref, id)
	return nil
}

// PurgeMessages deletes up to n messages of one state; n = 0 means all of them.
func (e *Topics) PurgeMessages(ctx context.Context, ref duly.QueueRef, state duly.State, n int) (removed int,
	err error) {
	if err := contract.ValidatePurge(state, n); err != nil {
		return 0, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return 0, err
	}

	ref = ref.Normal()
	var w catalog.Walk
	err = e.WithGroup(ctx, ref, func(q *catalog.Queue) error {
		return w.Each(q, 0, func(s *catalog.Shard) error {
			// It ends after as many messages as the first call counted, because new messages may
			// arrive.
			for left := -1; left != 0 && (n == 0 || removed < n); {
				most := duly.MaxBatch
				if n > 0 {
					most = min(most, n-removed)
				}
				r, err := e.CallGroup(ctx, q, s, store.ScriptGroupPurge, state.String(), strconv.Itoa(most))
				if err != nil {
					return err
				}
				gone := int(codec.Integer(&r.Rest[0]))
				if left < 0 {
					left = int(codec.Integer(&r.Rest[1]))
				}
				removed += gone
				// A call that deletes nothing ends the loop, even if its messages were counted before.
				if left = max(0, left-gone); gone == 0 {
					left = 0
				}
			}
			return nil
		})
	})

	// Workers may be running the deleted messages.
	if removed > 0 && state == duly.StateLeased {
		e.cancels.Report(ref)
	}
	return removed, err
}

// RequeueMessages requeues dead copies: the group holds them again.
func (e *Topics) RequeueMessages(ctx context.Context, ref duly.QueueRef,
	p duly.RequeueParams) (results []duly.RequeueResult, err error) {
	if err := contract.ValidateRequeueFor(&p, ref); err != nil {
		return nil, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return nil, err
	}
	r := &requeue{e: e, ref: ref.Normal(), results: make([]duly.RequeueResult, len(p.IDs)),
		done: make([]bool, len(p.IDs))}
	err = e.WithGroup(ctx, r.ref, func(q *catalog.Queue) error {
		if p.N > 0 {
			return r.oldest(ctx, q, p.N)
		}
		return r.byID(ctx, q, p.IDs)
	})
	if err != nil {
		return nil, err
	}
	return r.results, nil
}

// requeue is the state of one Requeue.
type requeue struct {
	e       *Topics
	ref     duly.QueueRef
	results []duly.RequeueResult
	done    []bool // whether each requested ID has its answer
}

func (r *requeue) byID(ctx context.Context, q *catalog.Queue, ids []string) error {
	byShard := make([][]int, len(q.Shards))
	places := make([]messages.Place, len(ids))
	for i, id := range ids {
		shard, p, err := r.e.place(r.ref, id)
		if err == nil && shard >= len(q.Shards) {
			err = contract.NoMessage(r.ref, id)
		}
		if bad := contract.ValidateID(id); bad != nil {
			err = bad
		}
		if places[i] = p; err != nil {
			r.results[i] = duly.RequeueResult{ID: id, Err: err}
			// A retry skips the IDs that an earlier attempt has answered.
		} else if !r.done[i] {
			byShard[shard] = append(byShard[shard], i)
		}
	}

	for shard, all := range byShard {
		if len(all) == 0 {
			continue
		}
		args := []string{"0"}
		for _, i := range all {
			args = append(args, places[i].String())
		}
		reply, err := r.e.CallGroup(ctx, q, q.Shards[shard], store.ScriptGroupRequeue, args...)
		if err != nil {
			return err
		}
		for k, i := range all {
			r.results[i], r.done[i] = r.result(q, shard, ids[i], reply, k), true
		}
	}
	return nil
}

// result reads one answer. If id is empty, it derives the ID from the place in the answer.
func (r *requeue) result(q *catalog.Queue, shard int, id string, reply catalog.Reply, k int) duly.RequeueResult {
	answer := codec.Elements(&reply.Rest[k])
	if id == "" {
		p, _ := messages.ReadPlace(codec.Text(&answer[1]))
		topic, _, _ := r.ref.Group()
		id = messages.ShardOf(topic, shard).Position(p).String()
	}
	switch word := codec.Text(&answer[0]); word {
	case "none":
		return duly.RequeueResult{ID: id, Err: contract.NoMessage(r.ref, id)}
	case "beyond":
		return duly.RequeueResult{ID: id, Err: contract.NotBeyondCursor(r.ref, id)}
	case "conflict":
		state := codec.State(&answer[2])
		return duly.RequeueResult{ID: id, Err: contract.Conflict(state, "message %s is %s, not dead", id, state)}
	}
	return duly.RequeueResult{ID: id, State: codec.State(&answer[0])}
}

// oldest requeues the copies that died first.
func (r *requeue) oldest(ctx context.Context, q *catalog.Queue, n int) error {
	if len(q.Shards) > 1 {
		ids, err := r.oldestIDs(ctx, q, n)
		if err != nil || len(ids) == 0 {
			return err
		}
		r.results, r.done = make([]duly.RequeueResult, len(ids)), make([]bool, len(ids))
		if err := r.byID(ctx, q, ids); err != nil {
			return err
		}
		// A copy that another call has requeued since is not an error.
		r.results = slices.DeleteFunc(r.results,
			func(x duly.RequeueResult) bool { return duly.CodeOf(x.Err) == duly.CodeNotFound })
		return nil
	}

	reply, err := r.e.CallGroup(ctx, q, q.Shards[0], store.ScriptGroupRequeue, strconv.Itoa(n))
	if err != nil {
		return err
	}

	for k := range reply.Rest {
		if x := r.result(q, 0, "", reply, k); duly.CodeOf(x.Err) != duly.CodeNotFound {
			r.results = append(r.results, x)
		}
	}
	return nil
}

// oldestIDs finds the copies that died first, in all shards.
func (r *requeue) oldestIDs(ctx context.Context, q *catalog.Queue, n int) (ids []string, err error) {
	var all []duly.JobInfo
	for i := range q.Shards {
		some, _, err := r.e.listShard(ctx, q, &cursor{State: duly.StateDead.String(), Shard: i}, duly.ListParams{}, n,
			duly.MaxBatchBytes)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b duly.JobInfo) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, info := range all[:min(n, len(all))] {
		ids = append(ids, info.ID)
	}
	return ids, nil
}

// Step makes one step in a topic with its groups, or in one group.
func (e *Topics) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	ref = ref.Normal()
	if !ref.IsGroup() {
		return e.stepTopic(ctx, ref)
	}
	return e.stepGroup(ctx, ref)
}

func (e *Topics) stepGroup(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	var w catalog.Walk
	err = e.With(ctx, ref, func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		return w.Each(q, 0, func(s *catalog.Shard) error {
			again, _, _, err := e.StepGroup(ctx, q, s, true)
			more = more || again
			return err
		})
	})
	return more, err
}

// maxSteps bounds how many shards, of the topic and of its groups, one Step covers.
const maxSteps = 1000

// rounds has the unfinished rounds of topics with more than maxSteps shards. Each Step continues
// where the one before it ended.
type rounds struct {
	mu    sync.Mutex
	begun map[duly.QueueRef]round
}

// round is the next shard of a topic's round, and whether an earlier Step of the round left work.
type round struct {
	next int
	more bool
}

// take removes and returns the round of a topic.
func (r *rounds) take(topic duly.QueueRef) round {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.begun[topic]
	delete(r.begun, topic)
	return found
}

func (r *rounds) put(topic duly.QueueRef, next round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == nil {
		r.begun = map[duly.QueueRef]round{}
	}
	r.begun[topic] = next
}

// stepTopic steps each shard of a topic, and then those of its groups, up to maxSteps. more is
// false at the end of a round in which no shard had more work.
func (e *Topics) stepTopic(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	var names []string
	var shards int
	err = e.WithTopic(ctx, ref, func(q *catalog.Queue) error {
		names, shards = q.Topic.Names(), len(q.Shards)
		return nil
	})
	if err != nil {
		return false, err
	}

	at, all := e.rounds.take(ref), shards*(1+len(names))
	// Groups may have been removed since.
	if at.next >= all {
		at = round{}
	}
	for end := min(at.next+maxSteps, all); at.next < end; at.next++ {
		of := ref
		if group := at.next/shards - 1; group >= 0 {
			of.Name = duly.GroupName(ref.Name, names[group])
		}
		// After an error the round is lost, and the next Step begins with the first shard.
		again, err := e.stepShard(ctx, of, at.next%shards)
		if err != nil {
			return false, err
		}
		at.more = at.more || again
	}
	if at.next == all {
		return at.more, nil
	}
	// The caller steps again, which continues the round.
	e.rounds.put(ref, at)
	return true, nil
}

// stepShard steps one shard of a topic or a group. A group's step does not trim the log.
func (e *Topics) stepShard(ctx context.Context, ref duly.QueueRef, shard int) (more bool, err error) {
	step := func(q *catalog.Queue) (err error) {
		if s := q.Shard(shard); s != nil && ref.IsGroup() {
			more, _, _, err = e.StepGroup(ctx, q, s, false)
		} else if s != nil {
			more, err = e.StepTopic(ctx, q, s)
		}
		return err
	}
	if ref.IsGroup() {
		err = e.With(ctx, ref, step)
	} else {
		err = e.WithTopic(ctx, ref, step)
	}
	return more, err
}
