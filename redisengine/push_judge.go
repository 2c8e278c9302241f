package redisengine

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// pushItem is one job, judged.
type pushItem struct {
	job *duly.Job // as it was pushed
	// planned is the job with everything filled in; nil if it was seen at a
	// glance to be plain.
	planned *duly.Planned
	place   int // in the call
	id      string
	number  duly.Number
	when    int64 // a delay in µs, or minus an absolute moment in ms
	// named: the client made its ID for this push, and it is its number.
	named bool
	err   error // why the job is invalid
	// waited: a call before has waited for its durability, in vain.
	waited bool
}

// judge plans the jobs at these places with their queue's defaults; nil: all jobs.
func (p *pushing) judge(places []int) {
	n := len(places)
	if places == nil {
		n = len(p.jobs)
	}
	if p.items = p.only[:0]; n > 1 {
		p.items = make([]pushItem, 0, n)
	}
	for k := range n {
		if places == nil {
			p.judgeOne(k)
		} else {
			p.judgeOne(places[k])
		}
	}
	p.identify()
}

func (p *pushing) judgeOne(place int) {
	n := len(p.items)
	p.items = append(p.items, pushItem{job: &p.jobs[place], place: place, id: p.jobs[place].ID})
	item := &p.items[n]
	if item.job.Made {
		item.number, item.named = duly.ParseNumber(item.id)
	}
	item.err = p.fill(item)
}

// glance reports whether a job is certainly valid and bare: it leaves everything
// to the defaults, which are the contract's, except its body, its due moment,
// and an ID that the client made.
func (p *pushing) glance(i *pushItem) bool {
	j := i.job
	return p.q != nil && p.q.usual && (i.named || j.ID == "") && len(j.Body) <= min(bigBody, p.e.cfg.MaxBody) &&
		j.Delay >= 0 && (j.Due.IsZero() || j.Delay == 0 && !j.Due.After(duly.MaxTime)) &&
		j.Headers == nil && j.Priority == 0 && j.Tries == 0 && j.MaxStalls == 0 && j.Backoff == "" && j.TTL == 0 && j.Lease == 0 &&
		j.Retain == 0 && j.OrderKey == "" && !j.Merge.Set() && j.Callback == ""
}

// fill plans the item, unless a glance is enough, and says when it is due.
func (p *pushing) fill(i *pushItem) error {
	if !p.glance(i) {
		planned, err := p.plan(i.job)
		if err != nil {
			return err
		}
		i.planned = &planned
	}
	i.when = micros(i.job.Delay)
	if !i.job.Due.IsZero() {
		i.when = -max(1, clock.CeilMilli(i.job.Due)) // what lies before 1970 is in the past, too
	}
	return nil
}

// plan judges a job but for what the engine's clock has to say: an absolute
// moment is compared with it in the script.
func (p *pushing) plan(job *duly.Job) (duly.Planned, error) {
	now := p.e.local().Now()
	keyed := p.cfg.Shards > 1 && (job.OrderKey != "" || job.Merge.Set())
	if job.Due.IsZero() && !keyed {
		return job.Plan(p.cfg.Defaults, now, p.e.cfg.MaxBody)
	}
	if err := job.Validate(p.e.cfg.MaxBody); err != nil {
		return duly.Planned{}, err
	}
	if err := job.CheckShard(p.cfg.Shards); err != nil {
		return duly.Planned{}, err
	}
	j := *job
	j.Due = time.Time{}
	planned, err := j.Plan(p.cfg.Defaults, now, p.e.cfg.MaxBody)
	planned.Due = job.Due
	return planned, err
}

// judgeByClock refuses what the script would: a queue is not made for jobs
// that are all invalid.
func (p *pushing) judgeByClock(ctx context.Context) error {
	ends := func(i *pushItem) bool {
		return i.planned != nil && !i.planned.Due.IsZero() && i.planned.TTL != duly.None
	}
	if !slices.ContainsFunc(p.items, func(i pushItem) bool { return ends(&i) }) {
		return nil
	}
	now, err := p.e.now(ctx)
	if err != nil {
		return err
	}
	p.items = slices.DeleteFunc(p.items, func(i pushItem) bool {
		late := ends(&i) && i.planned.Due.After(now) && clock.CeilMilli(i.planned.Due) > clock.CeilMilli(now.Add(i.planned.TTL))
		if late {
			p.results[i.place].Err = duly.EndsTooSoon(i.planned.TTL, i.job.TTL == 0)
		}
		return late
	})
	return nil
}

// identify gives each job its ID and its number: the ID itself where the client
// made it just now and it comes in its turn, else a fresh one. So the numbers of a
// call rise, and jobs that are due together are delivered in the order of the
// call.
func (p *pushing) identify() {
	var last duly.Number
	for k := range p.items {
		i := &p.items[k]
		switch {
		case i.id == "" && i.err == nil:
			i.name()
		case !i.named:
			i.number = duly.NewNumber()
		}
		if slices.Compare(i.number[:], last[:]) <= 0 {
			p.renumber(i)
		}
		last = i.number
		p.results[i.place] = duly.PushResult{ID: i.id, Err: i.err}
	}
	p.items = slices.DeleteFunc(p.items, func(i pushItem) bool { return i.err != nil })
}

// renumber gives a job a number of its own that is not its ID.
func (p *pushing) renumber(i *pushItem) {
	i.number, i.named = duly.NewNumber(), false
	if i.planned == nil && i.err == nil { // a job with an alias is not bare
		planned, _ := p.plan(i.job) // what a glance has seen is valid
		i.planned = &planned
	}
}

// name gives the job the ID that its client has not made.
func (i *pushItem) name() {
	if i.named = true; i.planned != nil {
		i.id = duly.MakeID(&i.planned.Job)
		i.number, _ = duly.ParseNumber(i.id)
		return
	}
	i.number = duly.NewNumber()
	i.id = i.number.String()
}
