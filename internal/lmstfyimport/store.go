package lmstfyimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// pushes is how often a push is sent whose outcome is not known.
const pushes = 3

// store pushes a batch of one kind or several, and writes it down.
func (im *Importer) store(ctx context.Context, q duly.QueueRef, jobs []taken) error {
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
	if err := keepDead(ctx, engine, q); err != nil {
		return err
	}

	var dead, live []taken
	for _, j := range jobs {
		if j.kind == duly.StateDead {
			dead = append(dead, j)
		} else {
			live = append(live, j)
		}
	}

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

// keepDead makes a queue that is not there yet as lmstfy's publish makes it:
// with dead letters unbounded.
func keepDead(ctx context.Context, engine contract.Engine, q duly.QueueRef) error {
	stats, err := engine.Stats(ctx, q)
	if err != nil || stats.Counters.Pushed > 0 {
		return err
	}
	config, err := engine.Config(ctx, q)
	if err != nil || config != contract.DefaultQueueConfig() {
		return err
	}
	return engine.Configure(ctx, q, duly.QueueConfig{DeadAge: duly.None, DeadCount: duly.None})
}

// push pushes jobs and writes down those that are there then, also where others
// of them fail. It tells their states: ready or delayed for a new one.
func (im *Importer) push(ctx context.Context, engine contract.Engine, q duly.QueueRef, jobs []taken) (states map[string]duly.State, err error) {
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
		if err == nil || try == pushes || !errors.Is(err, duly.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		return nil, err
	}

	states = map[string]duly.State{}
	var there []string
	for i, r := range results {
		if code := duly.CodeOf(r.Err); r.Err != nil && code != duly.CodeInvalid && code != duly.CodeTooLarge {
			if err == nil {
				err = r.Err
			}
			continue
		}
		if r.Err != nil {
			im.report.leave(whyRefused+reason(r.Err), fmt.Sprintf("job %.40q of queue %s", jobs[i].ID, q))
			continue
		}
		existed := r.Status == duly.Exists
		if states[jobs[i].ID] = duly.StateReady; existed {
			states[jobs[i].ID] = r.State
		}
		switch kind := jobs[i].kind; {
		case kind == duly.StateDead: // it is there when it is buried
			continue
		case existed:
			im.report.Known++
		default:
			im.count(kind)
		}
		there = append(there, jobs[i].ID)
	}

	return states, errors.Join(err, im.Journal.add(q, there))
}

// buryLease is how long a dead job is held until it is buried.
const buryLease = time.Minute

// deadReason is what a buried job says of itself.
const deadReason = "was dead in lmstfy"

// bury pushes dead jobs, takes them and buries them. Where others are ready they
// get a priority over those.
func (im *Importer) bury(ctx context.Context, engine contract.Engine, q duly.QueueRef, jobs []taken) error {
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

	var there []string
	open := map[string]error{}
	for id, state := range states {
		switch state {
		case duly.StateDead, duly.StateDone, duly.StateNone:
			im.report.Known++
			there = append(there, id)
		default: // a leased one as well: that lease may be over
			open[id] = nil
		}
	}

	buried, err := im.buryAll(ctx, engine, q, open)
	im.report.Dead += int64(len(buried))
	there = append(there, buried...)
	for id, refused := range open {
		if err != nil { // it is not known what has become of it
			break
		}
		var done bool
		if done, err = im.unburied(ctx, engine, q, id, states[id], refused); done {
			there = append(there, id)
		}
	}

	return errors.Join(err, im.Journal.add(q, there))
}

// unburied tells of a job that was not buried although it was ready or leased;
// done means that there is nothing more to do about it.
func (im *Importer) unburied(ctx context.Context, engine contract.Engine, q duly.QueueRef, id string, was duly.State, refused error) (done bool, err error) {
	job, err := engine.Get(ctx, q, id) // State is 0 where it is gone
	if err != nil && !errors.Is(err, duly.ErrNotFound) {
		return false, err
	}
	why := whyLeased // by a run that ended before it was buried, or by a consumer
	switch {
	case job.State == duly.StateDead: // for its lease was over, and with it its only try
		im.report.Known++
		return true, nil
	case refused != nil:
		why = whyRefused + reason(refused)
	case job.State == duly.StateReady:
		why = whyWaits
	case was == duly.StateReady || job.State == duly.StateNone:
		why = whyTried
	}
	im.report.leave(why, fmt.Sprintf("dead job %.40q of queue %s", id, q))
	return why == whyTried, nil
}

// buryAll takes ready jobs until all that are open are buried; what else it
// gets it gives back. It ends where nothing more of them comes. What is left in
// open then has the error by which it was refused, if it was.
func (im *Importer) buryAll(ctx context.Context, engine contract.Engine, q duly.QueueRef, open map[string]error) (buried []string, err error) {
	for len(open) > 0 {
		got, err := engine.Reserve(ctx, duly.ReserveParams{Namespace: q.Namespace, Queues: []string{q.Name}, Max: max(len(open), 2), Lease: buryLease})
		if err != nil || len(got) == 0 {
			return buried, err
		}
		outcomes := make([]duly.SettleRequest, len(got))
		for i, d := range got {
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
		if len(buried) == before {
			return buried, nil
		}
	}

	return buried, nil
}
