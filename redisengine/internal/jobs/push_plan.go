package jobs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// queuePush is the push of some jobs into one queue.
type queuePush struct {
	e       *Jobs
	q       *catalog.Queue
	cfg     *duly.QueueConfig
	jobs    []duly.Job
	results []duly.PushResult
	items   []pushItem
	// refused: the jobs below this index are invalid and already have their errors.
	refused int
	only    [1]pushItem // memory for the item of a call with one job, the most frequent case
	// left has the jobs whose numbers belong to other jobs.
	left []pushItem
	mu   sync.Mutex // guards left: the parts of a call are answered concurrently
}

// newQueuePush returns a push into q, or into a queue that does not exist yet.
func newQueuePush(e *Jobs, q *catalog.Queue, jobs []duly.Job, results []duly.PushResult) *queuePush {
	p := &queuePush{e: e, q: q, jobs: jobs, results: results}
	if q != nil {
		p.cfg = &q.Config
	} else {
		cfg := e.QueueConfig()
		p.cfg = &cfg
	}
	return p
}

// pushItem is one planned job.
type pushItem struct {
	codec.PushJob
	place int   // index of the job in the call
	err   error // the error of an invalid job, else nil
	// waited: an earlier call has waited for its durability in vain.
	waited bool
}

// plan plans the jobs at these indexes with their queue's defaults; nil means all jobs.
func (p *queuePush) plan(places []int) {
	n := len(places)
	if places == nil {
		n = len(p.jobs)
	}
	if p.items = p.only[:0]; n > 1 {
		p.items = make([]pushItem, 0, n)
	}
	for k := range n {
		if places == nil {
			p.planOne(k)
		} else {
			p.planOne(places[k])
		}
	}
	p.assignIDs()
}

func (p *queuePush) planOne(place int) {
	n := len(p.items)
	p.items = append(p.items, pushItem{PushJob: codec.PushJob{Job: &p.jobs[place], ID: p.jobs[place].ID}, place: place})
	item := &p.items[n]
	// Only an ID that the client created for this push can also be the job's number.
	if item.Job.Made {
		item.Number, item.Named = duly.ParseNumber(item.ID)
	}
	// An invalid job keeps its first error. It is still an item, because its number counts for the
	// job after it.
	if place < p.refused {
		item.err = p.results[place].Err
		return
	}
	item.err = p.fill(item)
}

// isPlain reports whether a job is certainly valid and bare. Such a job sets only its body, its
// due time, and an ID that the client created.
func (p *queuePush) isPlain(i *pushItem) bool {
	j := i.Job
	return p.q != nil && p.q.PlainDefaults && (i.Named || j.ID == "") &&
		len(j.Body) <= min(codec.BigBody, p.e.Settings.MaxBody) &&
		j.Delay >= 0 && (j.Due.IsZero() || j.Delay == 0 && !j.Due.After(duly.MaxTime)) &&
		j.Headers == nil && j.Priority == 0 && j.Tries == 0 && j.MaxStalls == 0 && j.Backoff == "" && j.TTL == 0 &&
		j.Lease == 0 &&
		j.Retain == 0 && j.OrderKey == "" && !j.Merge.Set() && j.Callback == "" && j.OnDone == "" && j.OnDead == ""
}

// fill plans the item, unless it is plain, and sets when it is due.
func (p *queuePush) fill(i *pushItem) error {
	// Planning is the costly part of a push, and most jobs need none.
	if !p.isPlain(i) {
		planned, err := p.planJob(i.Job)
		if err != nil {
			return err
		}
		i.Planned = &planned
	}
	i.When = codec.Micros(i.Job.Delay)
	if !i.Job.Due.IsZero() {
		// Times before 1970 count as past, too; 0 would mean a delay.
		i.When = -max(1, clock.CeilMilli(i.Job.Due))
	}
	return nil
}

// planJob plans a job, except for what depends on the server's clock. The script compares an
// absolute due time with it.
func (p *queuePush) planJob(job *duly.Job) (contract.Planned, error) {
	now, cfg := p.e.Local().Now(), p.cfg
	if p.q == nil {
		fresh := contract.ConfigForNew(*cfg, job)
		cfg = &fresh
	}
	// A key determines the shard, so the shard of the key must be the shard of the ID.
	keyed := cfg.Shards > 1 && (job.OrderKey != "" || job.Merge.Set())
	if job.Due.IsZero() && !keyed {
		return contract.PlanJob(*job, cfg, now, p.e.Settings.MaxBody)
	}
	if err := contract.ValidateJob(job, p.e.Settings.MaxBody); err != nil {
		return contract.Planned{}, err
	}
	if err := contract.CheckShard(job, cfg.Shards); err != nil {
		return contract.Planned{}, err
	}

	j := *job
	// Planning would compare the due time with this process's clock.
	j.Due = time.Time{}
	planned, err := contract.PlanJob(j, cfg, now, p.e.Settings.MaxBody)
	planned.Due = job.Due
	return planned, err
}

// patchForNew returns the settings of a queue that the first of the jobs creates.
func (p *queuePush) patchForNew() (patch duly.QueueConfig) {
	if p.items[0].Job.Callback != "" {
		patch.Delivery = duly.DeliverPush
	}
	return patch
}

// checkTTL removes jobs that the script would reject, because a queue is not created for jobs
// that are all invalid.
func (p *queuePush) checkTTL(ctx context.Context) error {
	ends := func(i *pushItem) bool {
		return i.Planned != nil && !i.Planned.Due.IsZero() && i.Planned.TTL != duly.None
	}

	if !slices.ContainsFunc(p.items, func(i pushItem) bool { return ends(&i) }) {
		return nil
	}

	// The server's clock decides, as it does in the script.
	now, err := p.e.Now(ctx)
	if err != nil {
		return err
	}

	p.items = slices.DeleteFunc(p.items, func(i pushItem) bool {
		late := ends(&i) && i.Planned.Due.After(now) &&
			clock.CeilMilli(i.Planned.Due) > clock.CeilMilli(now.Add(i.Planned.TTL))
		if late {
			p.results[i.place].Err = contract.EndsTooSoon(i.Planned.TTL, i.Job.TTL == 0)
		}
		return late
	})

	return nil
}

// assignIDs gives each job its ID and its number. The number is the ID if the client created it
// for this push and the call's numbers still rise. Otherwise it is a new number. Jobs of one call
// that are due together are therefore delivered in the order of the call.
func (p *queuePush) assignIDs() {
	var last duly.Number
	for k := range p.items {
		i := &p.items[k]
		switch {
		case i.ID == "" && i.err == nil:
			p.assignID(i)
		case !i.Named:
			i.Number = duly.NewNumber()
		}
		// Delivery is ordered by number, so the numbers of a call must rise.
		if slices.Compare(i.Number[:], last[:]) <= 0 {
			p.renumber(i)
		}
		last = i.Number
		p.results[i.place] = duly.PushResult{ID: i.ID, Err: i.err}
	}
	p.items = slices.DeleteFunc(p.items, func(i pushItem) bool { return i.err != nil })
}

// renumber gives a job a new number that is not its ID.
func (p *queuePush) renumber(i *pushItem) {
	i.Number, i.Named = duly.NewNumber(), false
	// A job with an alias is not bare, so it needs a plan.
	if i.Planned == nil && i.err == nil {
		// isPlain has found the job valid.
		planned, _ := p.planJob(i.Job)
		i.Planned = &planned
	}
}

// assignID gives a job without an ID a new one.
func (p *queuePush) assignID(i *pushItem) {
	if i.Named = true; i.Planned != nil {
		i.ID = p.e.makeID(p.q, &i.Planned.Job)
		i.Number, _ = duly.ParseNumber(i.ID)
		return
	}
	i.Number = p.e.newNumber(p.q)
	i.ID = i.Number.String()
}

// MakeID implements contract.IDMaker.
func (e *Jobs) MakeID(j *duly.Job) string { return e.makeID(e.Cache.Get(refOf(j)), j) }

// makeID returns an ID for a job of a queue; q is nil for an unknown queue.
func (e *Jobs) makeID(q *catalog.Queue, j *duly.Job) string {
	if j.OrderKey != "" || j.Merge.Set() {
		return duly.MakeID(j)
	}
	return e.newNumber(q).String()
}

// newNumber returns a number for a job without keys. Jobs that are pushed together share a shard,
// but not in a queue with limits. Each shard enforces its part of a limit, so jobs in one shard
// would wait while others have room.
func (e *Jobs) newNumber(q *catalog.Queue) duly.Number {
	if q == nil || len(q.Shards) == 1 || q.Config.MaxJobs != duly.None || q.Config.MaxLeased != duly.None ||
		q.Config.Rate.Limited() {
		return duly.NewNumber()
	}
	return duly.NewNumberIn(e.pushes.next())
}

func refOf(j *duly.Job) duly.QueueRef {
	return duly.QueueRef{Namespace: contract.NamespaceOr(j.Namespace), Name: j.Queue}
}
