package lmstfyimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// maxPushes is how often a push with an unknown result is repeated.
const maxPushes = 3

// store pushes a batch and adds it to the journal.
func (im *Importer) store(ctx context.Context, q duly.QueueRef, jobs []importJob) error {
	if len(jobs) == 0 {
		return nil
	}
	if im.DryRun {
		for _, j := range jobs {
			im.count(j.kind)
		}
		return nil
	}

	engine, err := im.Target(ctx, q.Namespace)
	if err != nil {
		return err
	}
	// The queue must exist with its settings before its first job.
	if err := keepDead(ctx, engine, q); err != nil {
		return err
	}

	var dead, live []importJob
	for _, j := range jobs {
		if j.kind == duly.StateDead {
			dead = append(dead, j)
		} else {
			live = append(live, j)
		}
	}

	// Dead jobs are buried first, so that a reserve for them gets no live jobs.
	if err := im.bury(ctx, engine, q, dead); err != nil {
		return err
	}
	_, err = im.push(ctx, engine, q, live)
	return err
}

func (im *Importer) count(kind duly.State) {
	switch kind {
	case duly.StateDead:
		im.report.Dead++
	case duly.StateDelayed:
		im.report.Delayed++
	default:
		im.report.Ready++
	}
}

// keepDead creates a new queue without a limit on dead letters, as the lmstfy API does.
func keepDead(ctx context.Context, engine contract.Engine, q duly.QueueRef) error {
	stats, err := engine.Stats(ctx, q)
	// The settings of a queue that is in use are not changed.
	if err != nil || stats.Counters.Pushed > 0 {
		return err
	}
	config, err := engine.Config(ctx, q)
	if err != nil || config != contract.DefaultQueueConfig() {
		return err
	}
	return engine.Configure(ctx, q, duly.QueueConfig{DeadAge: duly.None, DeadCount: duly.None})
}

// push pushes jobs and adds those that exist then to the journal, even if others fail. It returns
// their states. The state of a new job is ready.
func (im *Importer) push(
	ctx context.Context, engine contract.Engine, q duly.QueueRef, jobs []importJob,
) (states map[string]duly.State, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	plain := make([]duly.Job, len(jobs))
	for i := range jobs {
		plain[i] = jobs[i].Job
	}

	var results []duly.PushResult
	for try := 1; ; try++ {
		results, err = engine.Push(ctx, plain)
		// All jobs have IDs, so a repeated push creates no second job.
		if err == nil || try == maxPushes || !errors.Is(err, duly.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		return nil, err
	}

	states = map[string]duly.State{}
	var imported []string
	for i, r := range results {
		if code := duly.CodeOf(r.Err); r.Err != nil && code != duly.CodeInvalid && code != duly.CodeTooLarge {
			if err == nil {
				err = r.Err
			}
			continue
		}
		if r.Err != nil {
			im.report.skip(whyRefused+reason(r.Err), fmt.Sprintf("job %.40q of queue %s", jobs[i].ID, q))
			continue
		}

		existed := r.Status == duly.Exists
		if states[jobs[i].ID] = duly.StateReady; existed {
			states[jobs[i].ID] = r.State
		}
		switch kind := jobs[i].kind; {
		case kind == duly.StateDead: // the journal gets the job after the bury
			continue
		case existed:
			im.report.Known++
		default:
			im.count(kind)
		}
		imported = append(imported, jobs[i].ID)
	}

	return states, errors.Join(err, im.Journal.add(q, imported))
}

// buryLease is the lease of a dead job until it is buried.
const buryLease = time.Minute

// deadReason is the reason of a buried job.
const deadReason = "was dead in lmstfy"

// bury pushes dead jobs, reserves them and buries them. They get a higher priority if the queue has
// ready jobs.
func (im *Importer) bury(ctx context.Context, engine contract.Engine, q duly.QueueRef, jobs []importJob) error {
	if len(jobs) == 0 {
		return nil
	}
	stats, err := engine.Stats(ctx, q)
	if err != nil {
		return err
	}

	for i := range jobs {
		if jobs[i].Tries = 1; stats.Sizes.Ready > 0 {
			jobs[i].Priority = duly.MaxPriority
		}
	}

	states, err := im.push(ctx, engine, q, jobs)
	if err != nil {
		return err
	}

	var imported []string
	open := map[string]error{}
	for id, state := range states {
		switch state {
		case duly.StateDead, duly.StateDone, duly.StateNone:
			im.report.Known++
			imported = append(imported, id)
		default: // even a leased job, because its lease may have run out since
			open[id] = nil
		}
	}

	buried, err := im.buryAll(ctx, engine, q, open)
	im.report.Dead += int64(len(buried))
	imported = append(imported, buried...)

	for id, refused := range open {
		if err != nil { // the state of the job is unknown
			break
		}
		var done bool
		if done, err = im.reportUnburied(ctx, engine, q, id, states[id], refused); done {
			imported = append(imported, id)
		}
	}

	return errors.Join(err, im.Journal.add(q, imported))
}

// reportUnburied reports a ready or leased job that was not buried. done reports whether nothing
// more can be done about the job.
func (im *Importer) reportUnburied(
	ctx context.Context, engine contract.Engine, q duly.QueueRef, id string, was duly.State, refused error,
) (done bool, err error) {
	job, err := engine.Get(ctx, q, id) // the state is 0 if the job does not exist
	if err != nil && !errors.Is(err, duly.ErrNotFound) {
		return false, err
	}

	why := whyLeased // leased by an interrupted run, or by a consumer
	switch {
	case job.State == duly.StateDead: // the lease of its only try has run out
		im.report.Known++
		return true, nil
	case refused != nil:
		why = whyRefused + reason(refused)
	case job.State == duly.StateReady:
		why = whyReady
	case was == duly.StateReady || job.State == duly.StateNone:
		why = whyTried
	}
	im.report.skip(why, fmt.Sprintf("dead job %.40q of queue %s", id, q))
	return why == whyTried, nil
}

// buryAll reserves ready jobs until all jobs in open are buried, and releases the others. It ends when
// a Reserve returns none of them. A job that is left in open has the error of its bury, if there was
// one.
func (im *Importer) buryAll(
	ctx context.Context, engine contract.Engine, q duly.QueueRef, open map[string]error,
) (buried []string, err error) {
	for len(open) > 0 {
		got, err := engine.Reserve(ctx, duly.ReserveParams{
			// A larger batch would lease more jobs of other callers.
			Namespace: q.Namespace, Queues: []string{q.Name}, Max: max(len(open), 2), Lease: buryLease,
		})
		if err != nil || len(got) == 0 {
			return buried, err
		}

		outcomes := make([]duly.SettleRequest, len(got))
		for i, d := range got {
			// Jobs that must not be buried are released at once.
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
			if _, ours := open[d.ID]; ours {
				outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Bury, Error: deadReason}
			}
		}
		errs, err := engine.Settle(ctx, q.Namespace, outcomes)
		if err != nil {
			return buried, err
		}

		before := len(buried)
		for i, d := range got {
			switch {
			case outcomes[i].As != duly.Bury:
			case errs[i] != nil:
				open[d.ID] = errs[i]
			default:
				delete(open, d.ID)
				buried = append(buried, d.ID)
			}
		}
		// Without progress, the remaining jobs are leased, or hidden by jobs with a higher
		// priority.
		if len(buried) == before {
			return buried, nil
		}
	}

	return buried, nil
}
