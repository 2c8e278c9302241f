package operations

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/operations/pace"
	"github.com/dulymq/duly/server/operations/record"
	"github.com/dulymq/duly/server/route"
)

const (
	// The pauses between repeats of a call.
	firstPause, maxPause = 250 * time.Millisecond, 30 * time.Second
	// fewest is the number of requeued jobs from which on the automatic stop may act.
	fewest = 10
	// judgeEvery is the pause between two looks at the requeued jobs.
	judgeEvery = 2 * time.Second
	// fresh is the age up to which a listed job counts as unchanged before its call.
	fresh = time.Second
)

// worker works on one operation, in one goroutine.
type worker struct {
	m     *Manager
	e     *entry
	queue duly.QueueRef
	pace  *pace.Pace

	// page are the jobs of the current page that no step had, next is the cursor after it. It was read at listed.
	page   []string
	next   string
	paged  bool // whether a page was read
	listed time.Duration
	// restarted is set after the list began again because its cursor was refused.
	restarted bool
	// repeated is set if a call for the pending jobs may have happened.
	repeated bool
	judged   time.Duration
}

func (m *Manager) newWorker(e *entry) *worker {
	o := &e.rec.Operation
	now := m.cfg.Clock.Mono()
	return &worker{
		m: m, e: e, queue: duly.QueueRef{Namespace: o.Namespace, Name: o.Queue}, judged: now,
		pace: pace.New(m.cfg.Clock, o.Rate),
	}
}

// locked calls do with the record. Only this worker changes its counts and places.
func (w *worker) locked(do func(r *record.Record, o *contract.Operation)) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	do(w.e.rec, &w.e.rec.Operation)
}

// run takes jobs until none is left, the canary is complete, or ctx ends. It returns the state after that.
func (w *worker) run(ctx context.Context) (contract.OperationState, string) {
	r, o := w.e.rec, &w.e.rec.Operation
	w.locked(func(*record.Record, *contract.Operation) { w.e.rate = pace.Meter{} })
	err := w.count(ctx)
	if err == nil && len(r.Pending) > 0 {
		w.repeated = true
		err = w.step(ctx)
	}

	for err == nil {
		if r.Phase == record.Canary && o.Done >= int64(o.Canary.Jobs) {
			w.locked(func(r *record.Record, _ *contract.Operation) { r.Phase = record.Judging })
			return contract.OperationWaiting, w.m.waitText(w.e)
		}
		var more bool
		if more, err = w.take(ctx); err != nil {
			break
		}
		if !more {
			return contract.OperationDone, ""
		}
		if err = w.step(ctx); err == nil {
			if reason := w.stops(ctx); reason != "" {
				return contract.OperationStopped, "automatic stop: " + reason
			}
		}
	}
	if ctx.Err() != nil {
		return contract.OperationInterrupted, interruptedText
	}
	return contract.OperationFailed, w.text(err)
}

// count finds out how many jobs there are. Without a group, it is the size of the state.
func (w *worker) count(ctx context.Context) error {
	o := &w.e.rec.Operation
	if !o.Counted {
		found := int64(0)
		err := w.retry(ctx, func() error {
			if o.Group == "" {
				stats, err := w.m.cfg.Engine.Stats(ctx, w.queue)
				found = *stats.Sizes.Of(o.JobState)
				return err
			}
			found = 0
			return w.countGroup(ctx, &found)
		})
		if err != nil {
			return err
		}
		w.locked(func(_ *record.Record, o *contract.Operation) { o.Found, o.Counted = max(found, o.Taken), true })
	}

	// A canary is at most a tenth of the jobs.
	w.locked(func(r *record.Record, o *contract.Operation) {
		if r.Phase == record.Canary {
			o.Canary.Jobs = min(o.Canary.Jobs, max(1, int(o.Found/10)))
		}
		w.m.signal()
	})
	return nil
}

func (w *worker) countGroup(ctx context.Context, found *int64) error {
	for cursor := ""; ; {
		ids, next, err := w.list(ctx, cursor)
		if err != nil {
			return err
		}
		*found += int64(len(ids))
		w.locked(func(_ *record.Record, o *contract.Operation) { o.Found = max(o.Found, *found); w.m.signal() })
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// list returns the jobs of a page that belong to the operation.
func (w *worker) list(ctx context.Context, cursor string) (ids []string, next string, err error) {
	page, err := w.m.cfg.Engine.List(ctx, w.queue, duly.ListParams{
		State: w.e.rec.Operation.JobState, PageParams: duly.PageParams{Cursor: cursor, Limit: duly.MaxBatch},
	})
	if err != nil {
		return nil, "", err
	}
	for i := range page.Jobs {
		if j := &page.Jobs[i]; w.e.rec.Selects(j) {
			ids = append(ids, j.ID)
		}
	}
	return ids, page.Next, nil
}

// take makes the next jobs the pending ones, when the rate permits. more is false at the end.
func (w *worker) take(ctx context.Context) (more bool, err error) {
	r, o := w.e.rec, &w.e.rec.Operation
	n := w.pace.Step()
	if r.Phase == record.Canary {
		n = min(n, o.Canary.Jobs-int(o.Done))
	}

	from := r.Chosen[r.Next:]
	if len(r.Chosen) == 0 {
		if err := w.retry(ctx, func() error { return w.fill(ctx) }); err != nil {
			return false, err
		}
		from = w.page
	}
	if n = min(n, len(from)); n == 0 {
		return false, nil
	}
	if err := w.pace.Wait(ctx, n); err != nil {
		return false, err
	}

	w.repeated = false
	w.locked(func(r *record.Record, _ *contract.Operation) {
		if r.Pending = slices.Clone(from[:n]); len(r.Chosen) > 0 {
			r.Next += n
		} else {
			w.page = w.page[n:]
		}
	})
	return true, nil
}

// fill reads pages until one has jobs that were not taken, or the list ends.
func (w *worker) fill(ctx context.Context) error {
	r := w.e.rec
	for len(w.page) == 0 {
		if w.paged {
			if w.next == "" {
				return nil
			}
			w.locked(func(r *record.Record, _ *contract.Operation) { r.Cursor, r.Stay = w.next, nil })
		}

		ids, next, err := w.list(ctx, r.Cursor)
		if duly.CodeOf(err) == duly.CodeInvalid && r.Cursor != "" && !w.restarted {
			// The queue may be in another engine now. Jobs that were taken are not listed again.
			w.restarted = true
			w.locked(func(r *record.Record, _ *contract.Operation) { r.Cursor = "" })
			continue
		}
		if err != nil {
			return err
		}
		w.page = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(r.Stay, id) })
		w.next, w.paged, w.listed = next, true, w.m.cfg.Clock.Mono()
	}
	return nil
}

// step changes the pending jobs and counts the results. It stores them before the first call.
func (w *worker) step(ctx context.Context) error {
	err := w.retry(ctx, func() error {
		if err := w.m.save(w.e); err != nil {
			return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
				Message: "the record of the operation can't be written; free space on the server's disk, or look at its log"}
		}
		err := w.check(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && len(w.e.rec.Pending) > 0 {
			err = w.act(ctx)
		}
		if err == nil {
			w.progress()
		}
		return err
	})

	// Nothing has happened to jobs without a call, so they are not taken.
	if err != nil && !w.repeated {
		w.locked(func(r *record.Record, _ *contract.Operation) {
			if len(r.Chosen) > 0 {
				r.Chosen, r.Next = slices.Concat(r.Pending, r.Chosen[r.Next:]), 0
			}
			r.Pending = nil
		})
	}
	return err
}

// check counts pending jobs that are no longer as they were selected, where that may be.
func (w *worker) check(ctx context.Context) error {
	r := w.e.rec
	stale := !w.paged || w.m.cfg.Clock.Mono()-w.listed > fresh
	if !r.Dated() || !w.repeated && !stale {
		return nil
	}
	results, err := w.m.cfg.Engine.GetJobs(ctx, w.queue, r.Pending, false)
	if err != nil {
		return err
	}

	var rest []string
	w.locked(func(r *record.Record, o *contract.Operation) {
		for i, id := range r.Pending {
			j := &results[i]
			switch code := duly.CodeOf(j.Err); {
			case j.Err == nil && j.Info.State == o.JobState && r.Selects(&j.Info), code != "" && code != duly.CodeNotFound:
				rest = append(rest, id)
			default:
				w.changed(id, j.Err != nil, "it has changed since the start")
			}
		}
		r.Pending = rest
	})
	return nil
}

// changed counts a job that is not as it was selected. gone is set if it does not exist. The caller holds the mutex.
func (w *worker) changed(id string, gone bool, problem string) {
	kind := w.e.rec.Operation.Kind
	deletes := kind == contract.OperationDelete || kind == contract.OperationPurge

	// The first try of the step has most likely changed the job.
	if w.repeated && (gone || !deletes) {
		w.result(id, done, "")
		return
	}
	w.result(id, skipped, problem)
}

// result counts a job. One that may still be in the list is noted. The caller holds the mutex.
func (w *worker) result(id, outcome, problem string) {
	r := w.e.rec
	if w.m.count(w.e, id, outcome, problem); len(r.Chosen) == 0 && outcome != done {
		r.Stay = append(r.Stay, id)
	}
	if outcome == done && r.Operation.Kind == contract.OperationRequeue {
		r.Sample.Add(id)
	}
}

// errMerged is the result of a requeued job that a waiting one has taken over.
var errMerged = errors.New("merged")

// act changes the pending jobs and counts their results. An answer that comes soon after the end of ctx counts too.
func (w *worker) act(ctx context.Context) error {
	call, end := w.m.graced(ctx)
	defer end()
	pending := w.e.rec.Pending
	errs, err := w.call(call, pending)
	if err == nil {
		err = w.tally(pending, errs)
	}
	w.repeated = err != nil
	return err
}

// call changes jobs. It returns the result of each.
func (w *worker) call(ctx context.Context, ids []string) ([]error, error) {
	e, o := w.m.cfg.Engine, &w.e.rec.Operation
	switch o.Kind {
	case contract.OperationPromote:
		return e.PromoteJobs(ctx, w.queue, ids)
	case contract.OperationDelete, contract.OperationPurge:
		return e.DeleteJobs(ctx, w.queue, ids, o.JobState)
	}

	results, err := e.Requeue(ctx, w.queue, duly.RequeueParams{IDs: ids, Tries: o.Tries, TTL: o.TTL})
	errs := make([]error, len(results))
	for i := range results {
		if errs[i] = results[i].Err; errs[i] == nil && results[i].State == duly.StateNone {
			errs[i] = errMerged
		}
	}
	return errs, err
}

// tally counts the results of a call. Jobs with a temporary error stay pending, and the error is returned.
func (w *worker) tally(ids []string, errs []error) (again error) {
	w.locked(func(r *record.Record, _ *contract.Operation) {
		var rest []string
		for i, id := range ids {
			err := errs[i]
			switch code := duly.CodeOf(err); {
			case err == nil:
				w.result(id, done, "")
			case err == errMerged:
				w.m.count(w.e, id, done, "") // it is no job of its own, so it is in no sample
			case code == duly.CodeNotFound || code == duly.CodeConflict:
				w.changed(id, code == duly.CodeNotFound, w.text(err))
			case temporary(code):
				rest, again = append(rest, id), err
			default:
				w.result(id, failed, w.text(err))
			}
		}
		r.Pending = rest
	})
	return again
}

// progress shows the counts after a step.
func (w *worker) progress() {
	w.locked(func(_ *record.Record, o *contract.Operation) {
		if rate, ok := w.e.rate.Note(w.m.cfg.Clock.Mono(), o.Taken); ok {
			o.CurrentRate = rate
		}
		w.m.signal()
	})
}

// temporary reports whether a repeat may succeed.
func temporary(code duly.Code) bool {
	switch code {
	case duly.CodeUnavailable, duly.CodeClosed, duly.CodeFull, duly.CodeLimited, duly.CodeNotDurable, duly.CodeInternal:
		return true
	}
	return false
}

// retry repeats a call until it succeeds, fails for good, or ctx ends. The pauses grow.
func (w *worker) retry(ctx context.Context, call func() error) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := call()
		switch {
		case err == nil:
			w.show("")
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !temporary(duly.CodeOf(err)):
			return err
		}

		if w.show(w.text(err)); pause == firstPause {
			w.m.cfg.Log.Warn("an operation repeats a call", "operation", w.e.rec.Operation.ID,
				"code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		if err := clock.Sleep(ctx, w.m.cfg.Clock, pause); err != nil {
			return err
		}
	}
}

// show sets the error that callers see.
func (w *worker) show(problem string) {
	w.locked(func(_ *record.Record, o *contract.Operation) {
		if o.Error != problem {
			o.Error = problem
			w.m.signal()
		}
	})
}

// text returns an error for callers. The details of an internal one are in the log only.
func (w *worker) text(err error) string {
	const most = 200
	var e *duly.Error
	if !errors.As(err, &e) || e.Code == duly.CodeInternal {
		return "internal: see the server's log"
	}
	text := route.Line(e.Error())
	if len(text) > most {
		text = text[:most]
	}
	return text
}

// stops returns why the operation must stop: too many of its jobs are dead again.
func (w *worker) stops(ctx context.Context) string {
	r, now := w.e.rec, w.m.cfg.Clock.Mono()
	enough := min(fewest, int(r.Operation.Found))
	if now-w.judged < judgeEvery || len(r.Sample.IDs) < max(1, enough) {
		return ""
	}
	w.judged = now
	// An error of this look only delays the decision.
	v, err := record.Judge(ctx, w.m.cfg.Engine, w.queue, r.Sample.IDs)
	if err != nil {
		return ""
	}
	return v.TooMany()
}

// watch looks at the canary until it decides, or ctx ends.
func (w *worker) watch(ctx context.Context) (contract.OperationState, string) {
	r := w.e.rec
	for {
		v, err := record.Judge(ctx, w.m.cfg.Engine, w.queue, r.Sample.IDs)
		if err == nil {
			w.locked(func(_ *record.Record, o *contract.Operation) {
				if c := o.Canary; c.Succeeded != v.Succeeded || c.Failed != v.Failed {
					c.Succeeded, c.Failed = v.Succeeded, v.Failed
					w.m.signal()
				}
			})
			reason, goOn := v.Canary(r.Operation.Canary.Then)
			if reason != "" {
				return contract.OperationStopped, reason
			}
			if goOn {
				w.locked(func(r *record.Record, _ *contract.Operation) { r.Phase = record.Rest })
				return contract.OperationQueued, ""
			}
		}
		if clock.Sleep(ctx, w.m.cfg.Clock, judgeEvery) != nil {
			return contract.OperationInterrupted, interruptedText
		}
	}
}
