package model

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Get implements contract.Inspector.
func (e *Engine) Get(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	if err := contract.ValidateID(id); err != nil {
		return duly.JobInfo{}, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.JobInfo{}, err
	}
	defer e.mu.Unlock()

	j, state, err := e.getIn(q, ref, id)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return j.info(state, true), nil
}

// getIn returns a job with its state by the clock.
func (e *Engine) getIn(q *queue, ref duly.QueueRef, id string) (*job, duly.State, error) {
	// A foreign ID in a group is a mistake of the caller, not a missing message.
	if err := q.checkID(id); err != nil {
		return nil, duly.StateNone, err
	}
	_, now := e.now()
	if s, j := q.lookUp(id); j != nil {
		// A job whose TTL is over is not found, although no step has dropped it (C2.24).
		if state := s.stateNow(j, now); state != duly.StateNone {
			return j, state, nil
		}
	}
	return nil, duly.StateNone, q.missing(ref, id)
}

// GetJobs implements contract.Inspector.
func (e *Engine) GetJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer e.mu.Unlock()

	var room contract.JobRoom
	results := make([]contract.JobResult, len(ids))
	for i, id := range ids {
		err := contract.ValidateID(id)
		if err != nil {
			results[i].Err = err
			continue
		}
		j, state, err := e.getIn(q, ref, id)
		switch {
		case err != nil:
			results[i].Err = err
		case bodies && !room.Take(len(j.Body)+len(j.result)):
			results[i].Err = contract.NoRoom(id)
		default:
			results[i].Info = j.info(state, bodies)
		}
	}
	return results, nil
}

// Find implements contract.Finder.
func (e *Engine) Find(ctx context.Context, namespace, id string) (found contract.Found, err error) {
	if err := contract.ValidateFind(namespace, id); err != nil {
		return found, err
	}
	if err := e.begin(ctx); err != nil {
		return found, err
	}
	defer e.mu.Unlock()

	var names []string
	for ref := range e.queues {
		if ref.Namespace == contract.NamespaceOr(namespace) && !ref.IsGroup() {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)

	_, now := e.now()
	for _, name := range names {
		q := e.queues[duly.QueueRef{Namespace: contract.NamespaceOr(namespace), Name: name}]
		s, j := q.lookUp(id)
		if j == nil {
			continue
		}
		// A job whose TTL is over is not found, as in Get.
		state := s.stateNow(j, now)
		if state != duly.StateNone && !found.Add(j.info(state, true)) {
			break
		}
	}
	return found.OrNotFound(namespace, id)
}

// GetByReceipt implements contract.Inspector.
func (e *Engine) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	if err := contract.ValidateReceipt(r); err != nil {
		return duly.JobInfo{}, err
	}
	p, _ := contract.ParseReceipt(r)
	ref := duly.QueueRef{Namespace: namespace, Name: p.Queue}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.JobInfo{}, err
	}
	defer e.mu.Unlock()
	_, now := e.now()

	// The shard comes from the receipt, which the caller may have made up.
	if q != nil && p.Shard < len(q.shards) {
		s := q.shards[p.Shard]
		j := s.byNumber[p.Number]

		// A message that died has left byNumber. Its copy is the job of that delivery.
		if j == nil && s.reader != nil {
			j = s.reader.copies[p.Number.String()]
		}
		if j != nil {
			if state := s.stateNow(j, now); state != duly.StateNone {
				return j.info(state, true), nil
			}
		}
	}

	return duly.JobInfo{}, q.missing(ref, p.Number.String())
}

// Peek implements contract.Inspector.
func (e *Engine) Peek(ctx context.Context, ref duly.QueueRef) (duly.JobInfo, error) {
	if ref.IsGroup() {
		return duly.JobInfo{}, notForGroup(ref, "peek")
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.JobInfo{}, err
	}
	defer e.mu.Unlock()
	var first *job
	if q != nil {
		_, now := e.now()
		for _, s := range q.shards {
			// Peek ignores pause and limits (C4.48), so it reads the sets and not open.
			for j := range s.readyJobs(now) {
				if first == nil || byRank(j, first) < 0 {
					first = j
				}
			}
		}
	}

	if first == nil {
		return duly.JobInfo{}, contract.Errorf(duly.CodeNotFound, "no job of queue %s is ready", ref)
	}
	return first.info(duly.StateReady, true), nil
}

// dueJobs yields the delayed jobs that are due and that no step has moved yet.
func (s *shard) dueJobs(now int64) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for j := range s.sets[duly.StateDelayed].all() {
			// The set is sorted by due time: no job after the first future one is due.
			if j.DueAt > now || !yield(j) {
				return
			}
		}
	}
}

// nextDue returns the first delayed job that is not due yet.
func (s *shard) nextDue(now int64) *job {
	place := &job{Planned: contract.Planned{DueAt: now + 1}} // sorts before any number
	for j := range s.sets[duly.StateDelayed].behind(place) {
		return j
	}
	return nil
}

// readyJobs yields the jobs that are ready by the clock: first those that are stored as ready, in
// order, and then the due ones.
func (s *shard) readyJobs(now int64) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for _, jobs := range []iter.Seq[*job]{s.sets[duly.StateReady].all(), s.dueJobs(now)} {
			for j := range jobs {
				if s.stateNow(j, now) == duly.StateReady && !yield(j) {
					return
				}
			}
		}
	}
}

// Stats implements contract.Inspector.
func (e *Engine) Stats(ctx context.Context, ref duly.QueueRef) (duly.Stats, error) {
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.Stats{}, err
	}
	defer e.mu.Unlock()
	st := duly.Stats{Tokens: duly.None}
	if q == nil {
		return st, nil
	}
	_, now := e.now()

	// These fields belong to the queue. The loop below adds the fields of each shard.
	st.Delivery, st.Closing = q.cfg.Delivery, q.closing(now)
	for _, s := range q.shards {
		s.addStats(&st, now)
		s.addSchedules(&st)
		s.addLimiter(&st)
		s.addTokens(&st, now)
	}
	if q.group != nil {
		st.Group = q.groupStats(now)
	}
	return st, nil
}

// Survey implements contract.Surveyor.
func (e *Engine) Survey(ctx context.Context, namespace string, p duly.PageParams) (page contract.SurveyPage, err error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}
	names, err := e.surveyed(ctx, contract.NamespaceOr(namespace), p)
	if err != nil {
		return page, err
	}
	page.Next = names.Next
	for _, name := range names.Names {
		// Each queue is read in a separate call, so an error of one queue does not affect the
		// others (C4.94).
		page.Queues = append(page.Queues, contract.ReadQueueStats(ctx, e, duly.QueueRef{Namespace: namespace, Name: name}))
	}
	return page, nil
}

// addStats adds the shard's to the queue's.
func (s *shard) addStats(st *duly.Stats, now int64) {
	addCounters(&st.Counters, s.counters)
	for state, set := range s.sets {
		*st.Sizes.Of(state) += int64(set.size)
	}
	oldest := now
	for j := range s.sets[duly.StateReady].all() {
		oldest = min(oldest, j.DueAt)
	}

	// Sizes are by the clock (C4.56): a due job moves from delayed to ready or blocked.
	for j := range s.dueJobs(now) {
		st.Sizes.Delayed--
		if h := s.heads[j.OrderKey]; h != nil && h != j && !h.over(now) {
			st.Sizes.Blocked++
			continue
		}
		st.Sizes.Ready++
		oldest = min(oldest, j.dueIn(duly.StateReady, j.DueAt))
	}

	if next := s.nextDue(now); next != nil {
		if due := clock.FromMilli(next.DueAt); st.NextDue.IsZero() || due.Before(st.NextDue) {
			st.NextDue = due
		}
	}

	// The oldest is never later than now, so the age is not negative (C5.10).
	st.OldestReady = max(st.OldestReady, time.Duration(now-oldest)*time.Millisecond)
}

func addCounters(sum *duly.Counters, c duly.Counters) {
	sum.Pushed += c.Pushed
	sum.Merged += c.Merged
	sum.Delivered += c.Delivered
	sum.Acked += c.Acked
	sum.Failed += c.Failed
	sum.Stalled += c.Stalled
	sum.Released += c.Released
	sum.Slowed += c.Slowed
	sum.Dead += c.Dead
	sum.Requeued += c.Requeued
	sum.Expired += c.Expired
	sum.Deleted += c.Deleted
	sum.Dropped += c.Dropped
}

// Config implements contract.Inspector.
func (e *Engine) Config(ctx context.Context, ref duly.QueueRef) (duly.QueueConfig, error) {
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.QueueConfig{}, err
	}
	defer e.mu.Unlock()
	if q == nil {
		return e.usual(), nil
	}
	_, now := e.now()

	// cfg is a copy, so the closing never enters the stored configuration.
	cfg := q.cfg
	cfg.Closing = q.closing(now)
	return cfg, nil
}

// cursor is the position after which a list continues. It has the sort keys of all sets.
type cursor struct {
	State    duly.State
	Shard    int
	Key      string
	Priority int
	At       int64 // due time, lease end or finish time
	Number   string
}

func cursorOf(j *job, shard int) string {
	c := cursor{State: j.state, Shard: shard, Key: j.OrderKey, Priority: j.Priority, At: j.DueAt, Number: j.number.String()}
	switch j.state {
	case duly.StateLeased:
		c.At = j.leaseEnd
	case duly.StateDead, duly.StateDone:
		c.At = j.finished
	}
	text, _ := json.Marshal(c) // impossible to fail, because all fields are plain
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeOf returns a job that sorts where the cursor points, and its shard.
func placeOf(text string, state duly.State) (*job, int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor

	// A cursor of another state is invalid, because the sets have different orders.
	if err != nil || json.Unmarshal(raw, &c) != nil || c.State != state || c.Shard < 0 {
		return nil, 0, contract.BadCursor()
	}
	n, ok := duly.ParseNumber(c.Number)
	if !ok {
		return nil, 0, contract.BadCursor()
	}
	j := &job{number: n, leaseEnd: c.At, finished: c.At}
	j.OrderKey, j.Priority, j.DueAt = c.Key, c.Priority, c.At
	return j, c.Shard, nil
}

// List implements contract.Inspector.
func (e *Engine) List(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	if err := contract.ValidateList(&p); err != nil {
		return duly.ListPage{}, err
	}
	var after *job
	shard := 0
	if p.Cursor != "" {
		var err error
		if after, shard, err = placeOf(p.Cursor, p.State); err != nil {
			return duly.ListPage{}, err
		}
	}

	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return duly.ListPage{}, err
	}
	defer e.mu.Unlock()
	if q == nil {
		return duly.ListPage{}, nil
	}

	return page(q.walk(&p, after, shard), p), nil
}

// walk yields the jobs of a list after a position, shard by shard.
func (q *queue) walk(p *duly.ListParams, after *job, first int) iter.Seq2[int, *job] {
	var bound *job
	if at, ok := contract.ListBound(p); ok {
		bound = placeAt(at)
	}
	if p.Key != "" {
		bound = boundOfKey(p)
	}
	begin, end := contract.ListShards(p, len(q.shards))
	if first < begin {
		first, after = begin, nil
	}

	// A cursor with a shard beyond the last one yields an empty page.
	return func(yield func(int, *job) bool) {
		for shard := first; shard < end; shard++ {
			start := bound
			set := q.shards[shard].sets[p.State]
			if shard == first && after != nil {
				start = set.further(after, bound, p.Newest)
			}
			for j := range set.beyond(start, p.Newest) {
				if p.Key != "" && j.OrderKey != p.Key || !yield(shard, j) {
					return
				}
			}
		}
	}
}

// boundOfKey returns a job that sorts before the blocked jobs of a key, in the direction of the list.
func boundOfKey(p *duly.ListParams) *job {
	if p.Newest {
		return behindKey(p.Key)
	}
	return &job{Planned: contract.Planned{Job: duly.Job{OrderKey: p.Key, Priority: duly.MaxPriority + 1}}}
}

// placeAt returns a job that sorts before all jobs of a moment.
func placeAt(at int64) *job {
	return &job{Planned: contract.Planned{DueAt: at}, leaseEnd: at, finished: at}
}

func page(jobs iter.Seq2[int, *job], p duly.ListParams) (page duly.ListPage) {
	next := ""
	bytes := 0
	for shard, j := range jobs {
		if p.Bodies {
			bytes += len(j.Body) + len(j.result)
		}

		// The first job always fits: a larger body is a page of its own (C4.6).
		if n := len(page.Jobs); n == p.Limit || n > 0 && bytes > duly.MaxBatchBytes {
			// next is the last job of the page. The cursor is set only if another job follows.
			page.Next = next
			break
		}
		page.Jobs = append(page.Jobs, j.info(j.state, p.Bodies))
		next = cursorOf(j, shard)
	}
	return page
}

// Queues implements contract.Inspector.
func (e *Engine) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.names(ctx, p, func(found *nameSet) {
		for ref := range e.queues {
			if ref.Namespace == contract.NamespaceOr(namespace) && !ref.IsGroup() {
				found.add(ref.Name)
			}
		}
	})
}

// surveyed lists the queues and groups of a namespace, for a survey.
func (e *Engine) surveyed(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	cursor := p.Cursor
	p.Cursor = "" // the cursor of a survey may be the name of a group, but the method names refuses such a cursor
	return e.names(ctx, p, func(found *nameSet) {
		found.behind = cursor
		for ref := range e.queues {
			if ref.Namespace == namespace {
				found.add(ref.Name)
			}
		}
	})
}

// Namespaces implements contract.Registry.
func (e *Engine) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return e.names(ctx, p, func(found *nameSet) {
		for ref := range e.queues {
			found.add(ref.Namespace)
		}
		for ref := range e.topics {
			found.add(ref.Namespace)
		}
	})
}

// nameSet collects the names after a cursor, each once.
type nameSet struct {
	behind string
	names  map[string]bool
}

func (s *nameSet) add(name string) {
	if name > s.behind {
		s.names[name] = true
	}
}

// names returns a page of the names that gather finds.
func (e *Engine) names(ctx context.Context, p duly.PageParams, gather func(found *nameSet)) (duly.NamePage, error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return duly.NamePage{}, err
	}
	if err := e.begin(ctx); err != nil {
		return duly.NamePage{}, err
	}
	defer e.mu.Unlock()
	found := &nameSet{p.Cursor, map[string]bool{}}
	gather(found)
	names := slices.Sorted(maps.Keys(found.names))
	if len(names) <= p.Limit {
		return duly.NamePage{Names: names}, nil
	}
	return duly.NamePage{Names: names[:p.Limit], Next: names[p.Limit-1]}, nil
}
