package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// deleteOp deletes a job.
type deleteOp struct {
	Place place
	ID    idSpec
}

func (o deleteOp) play(p *pair) {
	id := o.ID.of(p)
	p.both("delete "+id, func(s side) (string, error) {
		return "", s.in(o.Place.ref().Namespace).Delete(p.ctx, o.Place.ref(), id)
	})
	p.get(o.Place, id)
}

// promoteOp promotes a job.
type promoteOp struct {
	Place place
	ID    idSpec
}

func (o promoteOp) play(p *pair) {
	id := o.ID.of(p)
	p.both("promote "+id, func(s side) (string, error) {
		return "", s.in(o.Place.ref().Namespace).Promote(p.ctx, o.Place.ref(), id)
	})
	p.get(o.Place, id)
}

// updateOp changes a job.
type updateOp struct {
	Place     place
	ID        idSpec
	Delay     time.Duration // negative: absent
	Due       time.Duration // from now; 0: absent
	Priority  int           // 0: absent
	Body      string        // empty: absent, "-": emptied
	Header    string        // empty: absent, "-": emptied
	Tries     int
	MaxStalls int
	Backoff   duly.Backoff
	TTL       time.Duration
	Lease     time.Duration
	Retain    time.Duration
}

func (o updateOp) update(now time.Time) duly.Update {
	u := duly.Update{Tries: o.Tries, MaxStalls: o.MaxStalls, Backoff: o.Backoff, TTL: o.TTL, Lease: o.Lease, Retain: o.Retain}
	if o.Delay >= 0 {
		u.Delay = &o.Delay
	}
	if o.Due != 0 {
		u.Due = now.Add(o.Due)
	}
	if o.Priority != 0 {
		u.Priority = &o.Priority
	}
	if o.Body != "" {
		u.Body = []byte(strings.TrimPrefix(o.Body, "-"))
	}
	if o.Header != "" {
		u.Headers = map[string]string{}
		if o.Header != "-" {
			u.Headers["H"] = o.Header
		}
	}
	return u
}

func (o updateOp) play(p *pair) {
	id, u := o.ID.of(p), o.update(p.h.Clock.Now())
	p.both("update "+id, func(s side) (string, error) {
		return "", s.in(o.Place.ref().Namespace).Update(p.ctx, o.Place.ref(), id, u)
	})
	p.get(o.Place, id)
}

// requeueOp requeues by IDs, or the oldest N.
type requeueOp struct {
	Place place
	IDs   []idSpec
	N     int
	Tries int
	TTL   time.Duration
}

func (o requeueOp) play(p *pair) {
	params := duly.RequeueParams{N: o.N, Tries: o.Tries, TTL: o.TTL}
	for _, id := range o.IDs {
		params.IDs = append(params.IDs, id.of(p))
	}
	if o.N > 0 {
		p.step(o.Place) // what a count takes is what stands there
	}
	p.both("requeue", func(s side) (string, error) {
		results, err := s.in(o.Place.ref().Namespace).Requeue(p.ctx, o.Place.ref(), params)
		return tellRequeues(results), err
	})
	for _, id := range params.IDs {
		p.get(o.Place, id)
	}
}

// purgeOp purges.
type purgeOp struct {
	Place place
	State duly.State
	N     int
}

func (o purgeOp) play(p *pair) {
	p.step(o.Place) // what a purge takes is what stands there
	p.both("purge", func(s side) (string, error) {
		n, err := s.in(o.Place.ref().Namespace).Purge(p.ctx, o.Place.ref(), o.State, o.N)
		return fmt.Sprint(n), err
	})
}

// configureOp changes a queue's settings.
type configureOp struct {
	Place place
	Patch duly.QueueConfig
}

func (o configureOp) play(p *pair) {
	patch := p.limits(o.Patch)
	p.both("configure", func(s side) (string, error) {
		return "", s.in(o.Place.ref().Namespace).Configure(p.ctx, o.Place.ref(), patch)
	})
	p.config(o.Place)
}

func (p *pair) config(at place) {
	p.both(fmt.Sprintf("config of %s", at), func(s side) (string, error) {
		c, err := s.in(at.ref().Namespace).Config(p.ctx, at.ref())
		return fmt.Sprintf("%+v", c), err
	})
}

// pauseOp pauses or resumes.
type pauseOp struct {
	Place  place
	Resume bool
}

func (o pauseOp) play(p *pair) {
	p.both("pause", func(s side) (string, error) {
		if o.Resume {
			return "", s.in(o.Place.ref().Namespace).Resume(p.ctx, o.Place.ref())
		}
		return "", s.in(o.Place.ref().Namespace).Pause(p.ctx, o.Place.ref())
	})
}

// destroyOp destroys a queue.
type destroyOp struct{ Place place }

func (o destroyOp) play(p *pair) {
	p.both("destroy", func(s side) (string, error) {
		return "", s.in(o.Place.ref().Namespace).Destroy(p.ctx, o.Place.ref())
	})
}

// lookOp compares everything that can be seen: by the clock as it is, and then
// all of it after a step.
type lookOp struct{}

func (lookOp) play(p *pair) {
	for i := range places {
		at := place(i)
		p.peek(at)
		for id := range idSpec(scriptIDs) {
			p.get(at, id.of(p))
		}
		p.step(at)
		p.peek(at)
		p.config(at)
		p.both(fmt.Sprintf("stats of %s", at), func(s side) (string, error) {
			st, err := s.in(at.ref().Namespace).Stats(p.ctx, at.ref())
			return tellStats(st), err
		})
		for _, state := range duly.States {
			p.list(at, state)
		}
	}
	p.queues(duly.DefaultNamespace)
	p.queues("other")
}

// list walks one state's set in pages of two.
func (p *pair) list(at place, state duly.State) { p.listOf(at.ref(), state) }

func (p *pair) listOf(ref duly.QueueRef, state duly.State) {
	p.both(fmt.Sprintf("list of %s jobs of %s", state, ref), func(s side) (string, error) {
		var jobs []duly.JobInfo
		params := duly.ListParams{State: state, Bodies: state%2 == 0, PageParams: duly.PageParams{Limit: 2}}
		for range 1000 {
			page, err := s.in(ref.Namespace).List(p.ctx, ref, params)
			if err != nil {
				return "", err
			}
			jobs = append(jobs, page.Jobs...)
			if params.Cursor = page.Next; page.Next == "" {
				return tellJobs(jobs), nil
			}
		}
		return "a list without an end", nil
	})
}

func (p *pair) queues(namespace string) {
	p.both("queues of "+namespace, func(s side) (string, error) {
		page, err := s.in(namespace).Queues(p.ctx, namespace, duly.PageParams{})
		return tellNames(page.Names) + page.Next, err
	})
	p.both("survey of "+namespace, func(s side) (string, error) {
		page, err := contract.SurveyorOf(s.in(namespace)).Survey(p.ctx, namespace, duly.PageParams{})
		told := page.Next
		for _, q := range page.Queues {
			told += fmt.Sprintf("\n%s %s %+v %v", q.Name, tellStats(q.Stats), q.Throttle, q.Err)
		}
		return told, err
	})
}
