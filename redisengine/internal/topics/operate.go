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
	errs, err := e.DeleteMessages(ctx, ref, []string{id}, duly.StateNone)
	if err != nil {
		return err
	}
	return errs[0]
}

// DeleteMessages deletes messages that a group holds, or dead copies. StateNone means any state.
func (e *Topics) DeleteMessages(
	ctx context.Context, ref duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if err := contract.ValidateDeleteJobs(ids, state); err != nil {
		return nil, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return nil, err
	}

	d := &deletion{ids: newIDs(e, ref, ids), state: state, results: make([]error, len(ids))}
	err := e.WithGroup(ctx, d.ids.ref, func(q *catalog.Queue) error { return d.run(ctx, q) })

	// Workers may be running the messages.
	if len(d.deleted) > 0 && contract.MayRun(state) {
		e.cancels.Report(d.ids.ref, d.deleted...)
	}
	if err != nil {
		return nil, err
	}
	return d.results, nil
}

// deletion is the state of one DeleteMessages.
type deletion struct {
	ids     idList
	state   duly.State
	results []error
	deleted []string
}

func (d *deletion) run(ctx context.Context, q *catalog.Queue) error {
	wanted := codec.StateText(d.state)
	return d.ids.eachShard(q, func(i int, err error) { d.results[i] = err }, func(shard int, all []int) error {
		args := append([]string{wanted}, d.ids.placesAt(all)...)
		reply, err := d.ids.e.CallGroup(ctx, q, q.Shards[shard], store.ScriptGroupDelete, args...)
		if err != nil {
			return err
		}
		for k, i := range all {
			id, ref := d.ids.list[i], d.ids.ref
			switch word := codec.Text(&reply.Rest[k]); word {
			case "ok":
				d.deleted = append(d.deleted, id)
			case "beyond":
				d.results[i] = contract.NotBeyondCursor(ref, id)
			case "none":
				d.results[i] = contract.NoMessage(ref, id)
			default:
				d.results[i] = contract.WrongState(id, codec.State(&reply.Rest[k]), d.state)
			}
		}
		return nil
	})
}

// idList has the IDs of a call on messages of a group.
type idList struct {
	e      *Topics
	ref    duly.QueueRef
	list   []string
	places []messages.Place
	done   []bool // whether each ID has its answer
}

func newIDs(e *Topics, ref duly.QueueRef, ids []string) idList {
	return idList{e: e, ref: ref.Normal(), list: ids, places: make([]messages.Place, len(ids)),
		done: make([]bool, len(ids))}
}

// eachShard calls do for each shard, with the indexes of its IDs. It calls refuse for each bad ID. A
// retry skips the IDs that an earlier attempt has answered.
func (l *idList) eachShard(
	q *catalog.Queue, refuse func(i int, err error), do func(shard int, all []int) error,
) error {
	byShard := make([][]int, len(q.Shards))
	for i, id := range l.list {
		shard, p, err := l.e.place(l.ref, id)
		if err == nil && shard >= len(q.Shards) {
			err = contract.NoMessage(l.ref, id)
		}
		if bad := contract.ValidateID(id); bad != nil {
			err = bad
		}
		if l.places[i] = p; err != nil {
			refuse(i, err)
		} else if !l.done[i] {
			byShard[shard] = append(byShard[shard], i)
		}
	}

	for shard, all := range byShard {
		if len(all) == 0 {
			continue
		}
		if err := do(shard, all); err != nil {
			return err
		}
		for _, i := range all {
			l.done[i] = true
		}
	}
	return nil
}

// placesAt returns the places of some IDs as arguments of a script.
func (l *idList) placesAt(indexes []int) []string {
	args := make([]string, len(indexes))
	for k, i := range indexes {
		args[k] = l.places[i].String()
	}
	return args
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
	r := &requeue{e: e, ref: ref.Normal(), ids: newIDs(e, ref, p.IDs), results: make([]duly.RequeueResult, len(p.IDs))}
	err = e.WithGroup(ctx, r.ref, func(q *catalog.Queue) error {
		if p.N > 0 {
			return r.oldest(ctx, q, p.N)
		}
		return r.byID(ctx, q)
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
	ids     idList
	results []duly.RequeueResult
}

func (r *requeue) byID(ctx context.Context, q *catalog.Queue) error {
	refuse := func(i int, err error) { r.results[i] = duly.RequeueResult{ID: r.ids.list[i], Err: err} }
	return r.ids.eachShard(q, refuse, func(shard int, all []int) error {
		args := append([]string{"0"}, r.ids.placesAt(all)...)
		reply, err := r.e.CallGroup(ctx, q, q.Shards[shard], store.ScriptGroupRequeue, args...)
		if err != nil {
			return err
		}
		for k, i := range all {
			r.results[i] = r.result(q, shard, r.ids.list[i], reply, k)
		}
		return nil
	})
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
		r.ids, r.results = newIDs(r.e, r.ref, ids), make([]duly.RequeueResult, len(ids))
		if err := r.byID(ctx, q); err != nil {
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
