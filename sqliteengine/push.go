package sqliteengine

import (
	"bytes"
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// Push implements duly.Engine. The jobs are judged here, beside the writer;
// what depends on other jobs is decided by the writer.
func (e *Engine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	size := duly.BodyBytes(jobs)
	if err := duly.CheckBatch(len(jobs), size); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return []duly.PushResult{}, e.alive(ctx)
	}
	p := &pushes{items: make([]push, len(jobs)), results: make([]duly.PushResult, len(jobs)), now: e.cfg.Clock.Now(), maxBody: e.cfg.MaxBody}
	p.judge(e, jobs)
	if leaves(ctx) {
		p.keepBodies(size)
	}
	if err := e.write(ctx, &op{Call: batch.Call{Items: len(jobs), Bytes: size}, run: p.run, joins: joinsPushes, needs: needsRoom}); err != nil {
		return nil, err
	}
	return p.results, nil
}

// pushes is one call of Push.
type pushes struct {
	items   []push
	results []duly.PushResult
	now     time.Time
	maxBody int
}

// push is one job of a call, judged.
type push struct {
	duly.Planned
	ref duly.QueueRef
	// number is the one that it takes unless a job of its batch before it has a
	// greater one, or another job has it; given is the one that it has got.
	number, given duly.Number
	err           error
	// fresh is the job as it was pushed, if its queue was not there yet.
	fresh *duly.Job
	// named: the number is the ID.
	named bool
	// simple: no alias, no keys, a small body. Such jobs are stored many in one
	// statement.
	simple bool
	rules  []byte // of a simple one, packed
}

// judge plans every job for its queue and gives it a number.
func (p *pushes) judge(e *Engine, jobs []duly.Job) {
	var ref duly.QueueRef
	var cfg duly.QueueConfig
	var there bool
	last := map[duly.QueueRef]duly.Number{}

	for i := range jobs {
		j, item := &jobs[i], &p.items[i]
		if r := (duly.QueueRef{Namespace: duly.NamespaceOr(j.Namespace), Name: j.Queue}); i == 0 || r != ref {
			ref = r
			cfg, there = e.hub.config(r)
		}
		item.ref = ref
		p.results[i].ID = j.ID
		if !there {
			j = item.takeFresh(j)
			cfg = duly.DefaultQueueConfig().ForNew(j)
		}
		item.Planned, item.err = j.Plan(&cfg, p.now, p.maxBody)
		item.identify(j, last[ref])
		last[ref] = item.number
		if item.err != nil {
			p.results[i].Err = item.err
			continue
		}
		p.results[i].ID = item.ID
	}
}

// takeFresh keeps a job whose queue is not there. Whether a job before it makes that,
// and how, is known in the transaction.
func (p *push) takeFresh(j *duly.Job) *duly.Job {
	fresh := *j
	if fresh.ID == "" {
		fresh.ID, fresh.Made = duly.MakeID(&fresh), true
	}
	p.fresh = &fresh
	return p.fresh
}

// plan plans a job again whose queue was not there.
func (p *push) plan(t *tx, now time.Time, maxBody int) {
	cfg := duly.DefaultQueueConfig().ForNew(p.fresh)
	if q := t.peek(p.ref); q != nil && q.kind == kindQueue {
		cfg = q.cfg
	}
	p.Planned, p.err = p.fresh.Plan(&cfg, now, maxBody)
	p.pack()
}

// identify looks for the job's number: the ID itself where the client made it
// just now and it is above the number of the job before it in its queue, else a
// fresh one. So the numbers of a batch rise in its order.
func (p *push) identify(j *duly.Job, last duly.Number) {
	if p.err == nil && j.ID == "" {
		p.ID, p.Made = duly.MakeID(&p.Job), true
		j = &p.Job
	}
	n, ok := duly.ParseNumber(j.ID)
	if !ok || !j.Made || !above(n, last) {
		p.number = duly.NewNumber()
		return
	}
	p.number, p.named = n, true
	p.pack()
}

// pack packs the rules of a simple job.
func (p *push) pack() {
	if p.simple = p.named && p.err == nil && len(p.Body) <= inlineBody && p.OrderKey == "" && p.MergeKey == ""; p.simple {
		p.rules = packRules(&p.Planned, "")
	}
}

// run pushes the jobs in their order. It may run more than once.
func (p *pushes) run(t *tx) error {
	for i := range p.items {
		item, result := &p.items[i], &p.results[i]
		if item.fresh != nil {
			item.plan(t, p.now, p.maxBody)
			*result = duly.PushResult{ID: item.fresh.ID, Err: item.err}
		}
		if item.err != nil {
			continue
		}
		q, err := t.makeQueue(item.ref, duly.DefaultQueueConfig().ForNew(&item.Job))
		if err == nil {
			err = item.CheckDelivery(&q.cfg) // the queue may have been made, or changed, meanwhile
		}
		if err != nil {
			if !refusal(err) {
				return err
			}
			*result = duly.PushResult{ID: item.ID, Err: err}
			continue
		}
		item.given = item.number
		if item.simple && item.given == item.number && !q.aliased && q.cfg.MaxJobs == duly.None {
			if err := t.addSimple(simplePush{q, item, result}); err != nil {
				return err
			}
			continue
		}
		if err := t.flushPushes(); err != nil {
			return err
		}
		if *result, err = t.push(q, item); err != nil {
			return err
		}
	}

	return nil
}

func above(a, b duly.Number) bool { return bytes.Compare(a[:], b[:]) > 0 }

// push pushes one job, in the contract's order: exists, merged, full.
func (t *tx) push(q *queue, p *push) (duly.PushResult, error) {
	old, err := t.find(q, p.ID)
	if err != nil {
		return duly.PushResult{}, err
	}
	if old != nil {
		state, err := t.stateNow(old)
		return duly.PushResult{ID: p.ID, Outcome: duly.Exists, State: state}, err
	}

	j := &job{Planned: p.Planned, q: q, number: p.given, hasBody: true}
	holder, err := t.merger(j)
	if err != nil {
		return duly.PushResult{}, err
	}
	if holder != nil {
		return duly.PushResult{ID: holder.ID, Outcome: duly.Merged}, t.mergeInto(holder, j)
	}

	if q.cfg.MaxJobs != duly.None && q.held() >= int64(q.cfg.MaxJobs) {
		return duly.PushResult{ID: p.ID, Err: duly.QueueFull(q.ref, q.cfg.MaxJobs)}, nil
	}

	if taken, err := t.byNumber(q, j.number); err != nil {
		return duly.PushResult{}, err
	} else if taken != nil { // by a job that goes by another ID
		j.number = duly.NewNumber()
		p.given = j.number
	}

	q.counters.Pushed++
	return duly.PushResult{ID: p.ID, Outcome: duly.Created}, t.enter(j)
}

// mergeInto lets a push change the job that holds its merge key.
func (t *tx) mergeInto(holder, next *job) error {
	c := &holder.q.counters
	c.Pushed++
	c.Merged++
	switch {
	case next.Merge.Mode == duly.MergeKeep:
		holder.Keep(&next.Planned)
		return t.put(holder)
	case holder.state == duly.StateLeased: // the running one works on its old data
		return nil
	}

	holder.Replace(&next.Planned)
	holder.failures, holder.stalls, holder.lastError = 0, 0, ""
	if err := t.putBody(holder); err != nil {
		return err
	}
	if err := t.replan(holder, true); err != nil {
		return err
	}

	return t.overtake(holder)
}
