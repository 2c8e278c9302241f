package schedules

import (
	"cmp"
	"context"
	"errors"
	"time"
	_ "time/tzdata" // embeds the time zones, because schedules must not depend on the host's zones

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// DueSchedules implements contract.Firer.
func (e *Schedules) DueSchedules(ctx context.Context, ref duly.QueueRef, shard int, cursor string) (
	due contract.DueSchedules, err error,
) {
	from, err := readPlace(cursor)
	if err := e.admit(ctx, cmp.Or(contract.ValidateSchedules(ref, &duly.PageParams{}), err)); err != nil {
		return due, err
	}
	from.shard = shard
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		due = contract.DueSchedules{TTL: duly.None}
		if shard < 0 || q.Shard(shard) == nil {
			// The shard no longer exists, so its timer must not fire again.
			e.passes.noteNext(catalog.ShardRef{Ref: ref.Normal(), Index: shard}, 0, store.Reading{})
			now, err := e.Now(ctx)
			due.Now = now.UnixMilli()
			return err
		}

		asked := e.Local().Mono()
		l, err := e.list(ctx, q, from, true, contract.MaxDue)
		if err != nil {
			return err
		}
		due.Now, due.TTL, due.Schedules = l.us/1000, q.Config.Defaults.TTL, l.records
		if len(l.records)+len(l.unreadable) == contract.MaxDue {
			due.Next = l.end.String()
		}
		e.passes.noteNext(catalog.ShardRef{Ref: q.Ref, Index: shard}, l.next, e.reading(l.us, asked))
		return e.setAside(ctx, q, shard, l.unreadable)
	})
	return due, err
}

// reading returns the clock that an answer gave.
func (e *Schedules) reading(us int64, asked time.Duration) store.Reading {
	return store.Reading{Now: us, Sent: asked, Received: e.Local().Mono()}
}

// setAside moves schedules aside whose records cannot be read. They would stay due, and keep the
// schedules after them from being read. setAside also removes an entry without a schedule.
func (e *Schedules) setAside(ctx context.Context, q *catalog.Queue, shard int, unreadable [][2]string) error {
	for _, entry := range unreadable {
		name, text := entry[0], entry[1]
		wanted := ""
		if text == "" {
			// No schedule has this version, so one that was put meanwhile stays.
			wanted = codec.ScheduleVersion(0)
		}
		r, err := e.Call(ctx, q, q.Shards[shard], store.ScriptScheduleDrop, name, wanted, "", text)
		if err != nil {
			return err
		}
		// If another process has moved the schedule aside first, only that process logs it.
		if r.Word == "ok" && text != "" {
			e.Settings.Logger.Error("the record of a schedule cannot be read and was moved aside in its hash; put the schedule again",
				"queue", q.Ref.String(), "shard", shard, "schedule", name)
		}
	}
	return nil
}

// Fire implements contract.Firer. Each shard has one script call, so the items of a schedule take
// effect in order. If the server has no memory left, every item of the call is FireFull.
func (e *Schedules) Fire(ctx context.Context, ref duly.QueueRef, items []contract.FireItem) ([]contract.FireResult, error) {
	if err := contract.ValidateSchedules(ref, &duly.PageParams{}); err != nil {
		return nil, err
	}
	size := 0
	for i := range items {
		if items[i].Job != nil {
			size += len(items[i].Job.Body)
		}
	}
	if err := e.admit(ctx, contract.CheckBatch(len(items), size)); err != nil {
		return nil, err
	}

	f := &fireCall{e: e, ref: ref, items: items, results: make([]contract.FireResult, len(items))}
	for i := range items {
		// An invalid item must not fail the others.
		f.results[i].Err = items[i].Validate()
	}
	if err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error { return f.queue(ctx, q) }); err != nil {
		return nil, err
	}
	return f.results, nil
}

// fireCall is one Fire in progress.
type fireCall struct {
	e       *Schedules
	ref     duly.QueueRef
	items   []contract.FireItem
	results []contract.FireResult
}

// unanswered reports whether an item is still to be fired.
func (f *fireCall) unanswered(i int) bool { return f.results[i].Status == 0 && f.results[i].Err == nil }

// queue fires the items that no shard has answered yet.
func (f *fireCall) queue(ctx context.Context, q *catalog.Queue) error {
	parts := map[int]*firePart{}
	var list []*firePart
	for i := range f.items {
		if !f.unanswered(i) {
			continue
		}
		if q == nil {
			f.results[i].Status = contract.FireNotFound
			continue
		}
		index := contract.ScheduleShard(f.items[i].Name, len(q.Shards))
		if parts[index] == nil {
			parts[index] = &firePart{shard: q.Shards[index]}
			list = append(list, parts[index])
		}
		parts[index].places = append(parts[index].places, i)
	}
	if len(list) == 0 {
		return nil
	}
	return catalog.Parallel(list, func(p *firePart) error { return f.shard(ctx, q, p) })
}

// firePart has the items of one shard, by their indexes in the call.
type firePart struct {
	shard  *catalog.Shard
	places []int
}

func (f *fireCall) shard(ctx context.Context, q *catalog.Queue, p *firePart) error {
	args, errs := []string{p.shard.Limits}, make([]error, len(p.places))
	for k, i := range p.places {
		item := &f.items[i]
		missed := item.Missed
		var run *contract.Planned
		if item.Job != nil {
			// A tick whose run is invalid passes without a run.
			if run, errs[k] = f.plan(q, p.shard, item); errs[k] != nil {
				missed = min(missed+1, contract.MaxMissed)
			}
		}
		args = codec.FireArgs(args, item, missed, run, duly.NewNumber())
	}

	asked := f.e.Local().Mono()
	r, err := f.e.Call(ctx, q, p.shard, store.ScriptScheduleFire, args...)
	if errors.Is(err, duly.ErrFull) { // the server has no memory left for the run
		for _, i := range p.places {
			f.results[i] = contract.FireResult{Status: contract.FireFull, Err: err}
		}
		return nil
	}
	if err != nil {
		return err
	}

	at := catalog.ShardRef{Ref: q.Ref, Index: p.shard.Index}
	f.e.passes.noteNext(at, codec.Integer(&r.Rest[1]), f.e.reading(codec.Integer(&r.Rest[0]), asked))
	for k, i := range p.places {
		f.results[i] = f.result(q, &f.items[i], codec.Elements(&r.Rest[2+k]), errs[k])
	}
	return nil
}

// plan plans the run of an item. Whether its TTL ends before it is due depends on the engine's
// clock, so the script checks the TTL.
func (f *fireCall) plan(q *catalog.Queue, s *catalog.Shard, item *contract.FireItem) (*contract.Planned, error) {
	// The caller's item must not change, so the plan works on copies.
	run, job := *item, *item.Job
	job.Namespace, job.Queue = q.Ref.Namespace, q.Ref.Name
	run.Job = &job
	p, err := run.PlanRun(0, &q.Config, time.UnixMilli(item.Tick).UTC(), f.e.Settings.MaxBody)
	if err != nil {
		return nil, err
	}
	if err := contract.CheckShard(&job, len(q.Shards)); err != nil {
		return nil, err
	}
	if got := contract.ShardOf(job.ID, len(q.Shards)); got != s.Index {
		return nil, contract.Invalid("id", "belongs to shard %d, but the schedule is in shard %d; "+
			"leave the ID out, or use the ID of the schedule's run", got, s.Index)
	}
	return &p, nil
}

// fireStatuses are the statuses by their names in the script. If the number of a run belongs to
// another job, the next pass reads the schedule again.
var fireStatuses = map[string]contract.FireStatus{
	"not_found": contract.FireNotFound, "stale": contract.FireStale, "taken": contract.FireStale,
	"early": contract.FireEarly, "full": contract.FireFull, "fired": contract.FireFired,
}

// result reads the answer for an item. planned is why its run was not pushed.
func (f *fireCall) result(
	q *catalog.Queue, item *contract.FireItem, r []rueidis.RedisMessage, planned error,
) (result contract.FireResult) {
	result.Status = fireStatuses[codec.Text(&r[0])]
	switch {
	case result.Status == contract.FireFull:
		result.Err = contract.QueueFull(f.ref, q.Config.MaxJobs)
		return result
	case result.Status != contract.FireFired || item.Job == nil:
		return result
	}

	result.Run = duly.PushResult{ID: item.Job.ID, Err: planned}
	switch codec.Text(&r[1]) {
	case "created":
		result.Run.Status = duly.Created
	case "merged":
		result.Run.Status, result.Run.ID = duly.Merged, codec.JobID(&r[2], &r[3])
	case "exists":
		result.Run.Status, result.Run.State = duly.Exists, codec.State(&r[2])
	case "ttl":
		ttl := time.Duration(item.ExpiresAt-item.Tick) * time.Millisecond
		result.Run.Err = contract.EndsTooSoon(ttl, item.Job.TTL == 0)
	}
	return result
}
