package model

import (
	"fmt"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
)

// queue is a queue: its shards, and the state that they share.
type queue struct {
	ref    duly.QueueRef
	cfg    duly.QueueConfig
	shards []*shard

	group *group // nil unless the queue is a group

	woken     int   // number of waiters that were woken and whose jobs nobody has reserved yet
	recheckAt int64 // time at which other waiters are woken instead; 0 means never
}

func newQueue(ref duly.QueueRef, cfg duly.QueueConfig, moves map[Move]int) *queue {
	q := &queue{ref: ref}
	for i := range cfg.Shards {
		q.shards = append(q.shards, newShard(ref, i, moves))
	}
	q.configure(cfg)
	return q
}

// configure gives every shard its part.
func (q *queue) configure(cfg duly.QueueConfig) {
	q.cfg = cfg
	for i, s := range q.shards {
		s.cfg = contract.ConfigOfShard(cfg, i)
		s.limiter = s.limiter.Configured(s.cfg)
		if s.reader != nil {
			s.applyConfig()
		}
	}
}

// isEmpty reports whether the queue holds no job in any state.
func (q *queue) isEmpty() bool {
	return !slices.ContainsFunc(q.shards, func(s *shard) bool { return len(s.byID) > 0 })
}

// serves reports whether the queue has jobs for that kind of caller at all.
func (q *queue) serves(dispatcher bool) bool {
	return dispatcher == (q.cfg.Delivery == duly.DeliverPush)
}

// of returns the shard of a job with this ID.
func (q *queue) of(id string) *shard { return q.shards[contract.ShardOf(id, len(q.shards))] }

// shard has all state of one shard. It does not depend on the other shards.
type shard struct {
	ref      duly.QueueRef
	index    int
	cfg      duly.QueueConfig // the shard's part of the limits
	bucket   contract.Bucket
	counters duly.Counters
	moves    map[Move]int

	byID     map[string]*job
	byNumber map[duly.Number]*job
	sets     map[duly.State]*set
	ending   *set              // jobs that have an end, sorted by the end
	heads    map[string]*job   // jobs that hold an order key, by the key
	merges   map[mergeKey]*job // jobs that hold a merge key, by the key

	schedules scheduleSet
	closing   contract.Closing
	limiter   adaptive.State // used while the limits adapt

	reader *reader // nil unless the queue is a group
}

// mergeKey counts within its order key.
type mergeKey struct{ order, merge string }

func newShard(ref duly.QueueRef, index int, moves map[Move]int) *shard {
	return &shard{
		ref: ref, index: index, moves: moves,
		byID: map[string]*job{}, byNumber: map[duly.Number]*job{},
		sets: map[duly.State]*set{
			duly.StateDelayed: {compare: byDue}, duly.StateReady: {compare: byRank}, duly.StateBlocked: {compare: byKey},
			duly.StateLeased: {compare: byLeaseEnd}, duly.StateDead: {compare: byFinished}, duly.StateDone: {compare: byFinished},
		},
		ending: &set{compare: byEnd}, heads: map[string]*job{}, merges: map[mergeKey]*job{},
		schedules: scheduleSet{byName: map[string]*stored{}},
	}
}

func (s *shard) size(state duly.State) int { return s.sets[state].size }

// held returns the number of jobs that max jobs counts.
func (s *shard) held() int {
	return s.size(duly.StateDelayed) + s.size(duly.StateReady) + s.size(duly.StateBlocked) + s.size(duly.StateLeased)
}

// count counts a transition. It panics if the contract's table does not have the transition.
func (s *shard) count(e contract.Event, from, to duly.State) {
	if !slices.Contains(contract.Next(from, e).To, to) {
		panic(fmt.Sprintf("model: %s led from %s to %s, which the state table does not have", e, from, to))
	}
	s.moves[Move{e, from, to}]++
}

// move removes a job from its set, calls change, which may set fields that are sort keys, and adds
// the job to the set of its new state. With StateNone the job is removed.
func (s *shard) move(j *job, e contract.Event, to duly.State, change func()) {
	s.count(e, j.state, to)
	s.place(j, to, change)
}

// place is like move, for a job that may not be in any set yet.
func (s *shard) place(j *job, to duly.State, change func()) {
	// The sets are sorted by fields that change may set, so the job is removed from its set first.
	if j.state != duly.StateNone {
		s.sets[j.state].remove(j)
	}
	s.ending.remove(j)
	if change != nil {
		change()
	}

	// A dead copy has an index of its own, so a change of kind starts with no index.
	if to == duly.StateNone || s.isCopy(j.state) != s.isCopy(to) {
		s.forget(j)
	}

	// The mark overtaken ends with the delivery.
	j.state, j.overtaken = to, j.overtaken && to == duly.StateLeased
	if to == duly.StateNone {
		return
	}
	s.remember(j)
	s.sets[to].add(j)
	if j.end() != 0 {
		s.ending.add(j)
	}
}

// isCopy reports whether a job in the given state is a dead copy of a message. After a Seek back,
// the group may hold the message itself as well.
func (s *shard) isCopy(state duly.State) bool { return s.reader != nil && state == duly.StateDead }

// remember adds a job to the indexes by ID and number.
func (s *shard) remember(j *job) {
	if s.isCopy(j.state) {
		s.reader.copies[j.ID] = j
		return
	}
	s.byID[j.ID], s.byNumber[j.number] = j, j
	if s.reader != nil && !j.requeued {
		s.reader.held.remove(j) // held may have the message in an older state
		s.reader.held.add(j)
	}
}

func (s *shard) forget(j *job) {
	if s.isCopy(j.state) {
		delete(s.reader.copies, j.ID)
		return
	}
	delete(s.byID, j.ID)
	delete(s.byNumber, j.number)
	if s.reader != nil {
		s.reader.held.remove(j)
	}
}

// keyOf returns the order key by which jobs wait for each other. In a group without an order it
// returns "".
func (s *shard) keyOf(j *job) string {
	if s.reader != nil && s.cfg.Group.Order != duly.OrderKeys {
		return ""
	}
	return j.OrderKey
}

// gone removes a job and gives up its keys.
func (s *shard) gone(j *job, e contract.Event, now int64) {
	s.move(j, e, duly.StateNone, nil)
	s.freeMerge(j)
	s.freeKey(j, now)
}

// drop removes a job whose time is over.
func (s *shard) drop(j *job, now int64) {
	if j.state == duly.StateDone {
		s.gone(j, contract.EventTrim, now)
		return
	}

	// A done job that Retain ends was counted as acked already.
	s.counters.Expired++
	s.gone(j, contract.EventExpire, now)
}

// alive returns the job, or nil if its time is over. It drops such a job at once, and not at the
// next step, because the job holds neither its ID nor its keys any more.
func (s *shard) alive(j *job, now int64) *job {
	if j == nil || !j.over(now) {
		return j
	}

	// The caller is about to use the job's ID or keys, so the drop cannot wait for the next step.
	s.drop(j, now)
	return nil
}

// stateNow returns the job's state by the clock, without changing anything.
func (s *shard) stateNow(j *job, now int64) duly.State {
	switch {
	case j.over(now):
		return duly.StateNone
	case j.state == duly.StateDelayed && j.DueAt <= now:
		if h := s.heads[j.OrderKey]; h != nil && h != j && !h.over(now) {
			return duly.StateBlocked
		}
		return duly.StateReady
	}
	return j.state
}

// dueState returns the state of a job that an operation makes due outside a step. If due jobs
// still wait for their step, a job with an order key stays delayed like them, because these jobs
// may have the same key and were due before. By the clock such a job counts as ready or blocked.
func (s *shard) dueState(j *job, now int64) duly.State {
	if !j.isMessage && j.OrderKey != "" && s.heads[j.OrderKey] != j { // a delayed message may hold its key
		for other := range s.dueJobs(now) {
			if other != j {
				return duly.StateDelayed
			}
		}
	}
	return s.readyOrBlocked(j, now)
}

// become makes a job due. It counts the state that the job has by the clock.
func (s *shard) become(j *job, e contract.Event, now int64, change func()) {
	from := j.state
	s.place(j, s.dueState(j, now), change)

	// The table has states by the clock, so a job that waits for its step counts as due.
	s.count(e, from, s.stateNow(j, now))
}

// readyOrBlocked returns the state that a due job takes. If the order key is free, the job takes
// the key.
func (s *shard) readyOrBlocked(j *job, now int64) duly.State {
	if s.keyOf(j) == "" {
		return duly.StateReady
	}
	if h := s.heads[j.OrderKey]; h != nil && h != j && s.alive(h, now) != nil {
		return duly.StateBlocked
	}
	// Dropping a holder whose time is over may have made the next job ready.
	if h := s.heads[j.OrderKey]; h != nil && h != j {
		return duly.StateBlocked
	}
	s.heads[j.OrderKey] = j
	return duly.StateReady
}

// freeKey frees the job's order key, if the job holds the key. The first blocked job with the key
// becomes ready in the same step.
func (s *shard) freeKey(j *job, now int64) {
	if j.OrderKey == "" || s.heads[j.OrderKey] != j {
		return
	}
	delete(s.heads, j.OrderKey)

	// A blocked job may have expired before it gets the key, so the first live job gets it.
	for {
		next := s.firstBlocked(j.OrderKey)
		if next == nil {
			return
		}
		if next.over(now) {
			s.drop(next, now)
			continue
		}
		s.heads[next.OrderKey] = next
		s.move(next, contract.EventKeyFreed, duly.StateReady, nil)
		return
	}
}

func (s *shard) firstBlocked(key string) *job {
	// A position before every job with the key: it has the key and a priority higher than all.
	place := &job{Planned: contract.Planned{Job: duly.Job{OrderKey: key, Priority: duly.MaxPriority + 1}}}
	for j := range s.sets[duly.StateBlocked].behind(place) {
		if j.OrderKey == key {
			return j
		}
		break
	}
	return nil
}

func (j *job) mergeKey() mergeKey { return mergeKey{j.OrderKey, j.MergeKey} }

func (s *shard) freeMerge(j *job) {
	// A newer job may hold the key by now. In that case it keeps the key.
	if j.MergeKey != "" && s.merges[j.mergeKey()] == j {
		delete(s.merges, j.mergeKey())
	}
}

func (s *shard) holdMerge(j *job) {
	if j.MergeKey != "" {
		s.merges[j.mergeKey()] = j
	}
}

// overtake marks the running jobs that a push of j overtakes. Such a job is dropped when its
// delivery ends, whatever state j has at that time.
func (s *shard) overtake(j *job) {
	if j.Merge.Mode != duly.MergeReplace {
		return
	}

	// The mark is set at the push, because the newer job may no longer exist when the running one
	// comes back.
	for other := range s.sets[duly.StateLeased].all() {
		if other.Merge.Mode == duly.MergeReplace && other.mergeKey() == j.mergeKey() {
			other.overtaken = true
		}
	}
}

// merger returns another job that holds the merge key of j, or nil.
func (s *shard) merger(j *job, now int64) *job {
	if j.MergeKey == "" {
		return nil
	}
	if h := s.alive(s.merges[j.mergeKey()], now); h != nil && h != j {
		return h
	}
	return nil
}

// replan moves a waiting job to the state of its changed fields: due later is delayed, due now is
// ready or blocked. A ready job stays ready unless its due time changes.
func (s *shard) replan(j *job, e contract.Event, now int64, dueChanged bool, change func()) {
	from := j.state

	// The fields are changed first, because dueState reads the delayed set, which must be sorted by
	// the new fields.
	s.place(j, from, change)
	to := from
	if dueChanged {
		switch {
		case j.DueAt > now:
			to = duly.StateDelayed
		case from == duly.StateDelayed:
			to = s.dueState(j, now)
		}
	}
	s.move(j, e, to, nil)

	// A job that was never delivered holds no key while it is delayed (C6.10, C6.12).
	if from != duly.StateDelayed && to == duly.StateDelayed && j.ended == 0 {
		s.freeKey(j, now)
	}
}

// die makes a job a dead letter.
func (s *shard) die(j *job, e contract.Event, reason string, now int64) {
	// After a Seek back a message may die twice. Only the newer copy stays.
	s.dropCopy(j.ID)
	s.move(j, e, duly.StateDead, func() {
		j.finished, j.lastError = now, contract.CutError(reason)

		// A dead job has no TTL: only the bounds of the dead end it (C3.6).
		j.TTL, j.ExpiresAt = duly.None, 0
	})
	s.counters.Dead++
	s.freeMerge(j)
	s.freeKey(j, now)

	// For each job that enters, up to two are dropped. So the set shrinks to a lowered limit, and
	// each call stays cheap.
	s.trim(duly.StateDead, now, 2)
}
