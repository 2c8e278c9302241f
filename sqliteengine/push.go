package sqliteengine

import (
	"bytes"
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
)

// Push implements duly.Engine. It validates and plans the jobs outside the writer; the
// writer decides what depends on other jobs.
func (e jobAPI) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	size := contract.BodyBytes(jobs)
	if err := contract.CheckBatch(len(jobs), size); err != nil {
		return nil, err
	}
	// An empty call must not wait for a transaction.
	if len(jobs) == 0 {
		return []duly.PushResult{}, e.checkOpen(ctx)
	}

	p := &pushCall{items: make([]pushItem, len(jobs)), results: make([]duly.PushResult, len(jobs)),
		now: e.cfg.Clock.Now(), maxBody: e.cfg.MaxBody}
	p.plan(e.store, jobs)
	// Planning has read the jobs. The writer reads the bodies later.
	if mayReturnEarly(ctx) {
		p.copyBodies(size)
	}
	if err := e.write(ctx, &op{Call: batch.Call{Items: len(jobs), Bytes: size}, run: p.run, kind: opPush,
		space: spaceLarge}); err != nil {
		return nil, err
	}

	return p.results, nil
}

// pushCall is one call to Push.
type pushCall struct {
	items   []pushItem
	results []duly.PushResult
	now     time.Time
	maxBody int
}

// pushItem is one job of a Push call.
type pushItem struct {
	contract.Planned
	ref duly.QueueRef
	// number is the job's number, unless another job of the queue already has it.
	number duly.Number
	err    error
	// original is the job as pushed, if its queue did not exist at planning time.
	original *duly.Job
	// numbered: the ID is the number.
	numbered bool
	// simple: the job has no alias, no keys and a small body. Simple jobs share
	// statements.
	simple bool
	rules  []byte // rules of a simple job, packed
}

// plan plans each job for its queue and assigns its number.
func (p *pushCall) plan(e *store, jobs []duly.Job) {
	var ref duly.QueueRef
	var cfg duly.QueueConfig
	var there bool
	// Numbers must rise within a queue, but a batch may mix queues.
	last := map[duly.QueueRef]duly.Number{}

	for i := range jobs {
		j, item := &jobs[i], &p.items[i]
		// Most batches are for one queue, so its configuration is read once for consecutive jobs.
		if r := (duly.QueueRef{Namespace: contract.NamespaceOr(j.Namespace), Name: j.Queue}); i == 0 || r != ref {
			ref = r
			cfg, there = e.notifier.config(r)
		}
		item.ref = ref
		p.results[i].ID = j.ID
		if !there {
			j = item.keepOriginal(j)
			cfg = contract.ConfigForNew(contract.DefaultQueueConfig(), j)
		}
		item.Planned, item.err = contract.PlanJob(*j, &cfg, p.now, p.maxBody)
		item.assignNumber(j, last[ref])
		last[ref] = item.number
		if item.err != nil {
			p.results[i].Err = item.err
			continue
		}
		p.results[i].ID = item.ID
	}
}

// keepOriginal keeps a job whose queue does not exist yet. The transaction plans it again,
// because an earlier job may create the queue.
func (p *pushItem) keepOriginal(j *duly.Job) *duly.Job {
	fresh := *j
	// Both plans must have the same ID, because the caller gets it.
	if fresh.ID == "" {
		fresh.ID, fresh.Made = duly.MakeID(&fresh), true
	}
	p.original = &fresh
	return p.original
}

// planAgain plans a job whose queue did not exist before the transaction.
func (p *pushItem) planAgain(t *tx, now time.Time, maxBody int) {
	cfg := contract.ConfigForNew(contract.DefaultQueueConfig(), p.original)
	if q := t.peek(p.ref); q != nil && q.kind == kindQueue {
		cfg = q.cfg
	}
	p.Planned, p.err = contract.PlanJob(*p.original, &cfg, now, maxBody)
	p.pack()
}

// assignNumber assigns the job's number. If the client made the ID for this push, and the ID is
// higher than the previous number in the same queue, the number is the ID. Otherwise it is a new
// number. So numbers rise within a batch.
func (p *pushItem) assignNumber(j *duly.Job, last duly.Number) {
	if p.err == nil && j.ID == "" {
		p.ID, p.Made = duly.MakeID(&p.Job), true
		j = &p.Job
	}
	n, ok := duly.ParseNumber(j.ID)
	if !ok || !j.Made || !above(n, last) {
		p.number = duly.NewNumber()
		return
	}
	p.number, p.numbered = n, true
	p.pack()
}

// pack packs the rules of a simple job.
func (p *pushItem) pack() {
	if p.simple = p.numbered && p.err == nil && len(p.Body) <= inlineBody && p.OrderKey == "" &&
		p.MergeKey == ""; p.simple {
		p.rules = rules.Pack(&p.Planned, "")
	}
}

// run pushes the jobs in order. It may run more than once.
func (p *pushCall) run(t *tx) error {
	for i := range p.items {
		item, result := &p.items[i], &p.results[i]
		if item.original != nil {
			item.planAgain(t, p.now, p.maxBody)
			*result = duly.PushResult{ID: item.original.ID, Err: item.err}
		}
		if item.err != nil {
			continue
		}
		q, err := t.makeQueue(item.ref, contract.ConfigForNew(contract.DefaultQueueConfig(), &item.Job))
		if err == nil {
			// The queue may have been created or changed since planning.
			err = contract.CheckDelivery(&item.Planned.Job, &q.cfg)
		}
		if err != nil {
			// A refusal is the result of this job only. Any other error ends the transaction.
			if !isRefusal(err) {
				return err
			}
			*result = duly.PushResult{ID: item.ID, Err: err}
			continue
		}
		// Aliases and limits require reading other jobs, so such jobs are stored one by one.
		if item.simple && !q.aliased && q.cfg.MaxJobs == duly.None {
			if err := t.pushes.add(t, simplePush{q, item, result}); err != nil {
				return err
			}
			continue
		}
		// The jobs of the batch are stored first, because this job may depend on them.
		if err := t.pushes.flush(t); err != nil {
			return err
		}
		if *result, err = item.push(t, q); err != nil {
			return err
		}
	}

	return nil
}

// above reports whether a is greater than b.
func above(a, b duly.Number) bool { return bytes.Compare(a[:], b[:]) > 0 }

// push stores one job. It checks in the order of the contract: exists, merged, full.
func (p *pushItem) push(t *tx, q *queue) (duly.PushResult, error) {
	old, err := q.findJob(t, p.ID)
	if err != nil {
		return duly.PushResult{}, err
	}
	if old != nil {
		// The stored state may be outdated, because no step has run.
		state, err := old.currentState(t)
		return duly.PushResult{ID: p.ID, Status: duly.Exists, State: state}, err
	}

	j := &job{Planned: p.Planned, q: q, number: p.number, hasBody: true}
	holder, err := j.mergeHolder(t)
	if err != nil {
		return duly.PushResult{}, err
	}
	if holder != nil {
		return duly.PushResult{ID: holder.ID, Status: duly.Merged}, holder.mergeInto(t, j)
	}

	// Repeats and merges pass even if the queue is full.
	if q.cfg.MaxJobs != duly.None && q.held() >= int64(q.cfg.MaxJobs) {
		return duly.PushResult{ID: p.ID, Err: contract.QueueFull(q.ref, q.cfg.MaxJobs)}, nil
	}

	if taken, err := q.byNumber(t, j.number); err != nil {
		return duly.PushResult{}, err
	} else if taken != nil { // The number belongs to a job with another ID.
		j.number = duly.NewNumber()
	}

	q.counters.Pushed++
	return duly.PushResult{ID: p.ID, Status: duly.Created}, j.enter(t)
}

// Accepts implements contract.Accepter.
func (e jobAPI) Accepts(ctx context.Context) error {
	// After the disk was full, only an attempt to write shows whether there is room again.
	if !e.diskFull.Load() {
		return e.checkOpen(ctx)
	}
	return e.write(ctx, &op{Call: items(1), space: spaceLarge, run: func(*tx) error { return nil }})
}
