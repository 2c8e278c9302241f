package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// deleteOp deletes a job.
type deleteOp struct {
	At queueSpec
	ID idSpec
}

func (o deleteOp) play(p *pair) {
	id := o.ID.of(p)
	p.both("delete "+id, func(s side) (string, error) {
		return "", s.in(o.At.ref().Namespace).Delete(p.ctx, o.At.ref(), id)
	})
	p.get(o.At, id)
}

// deleteJobsOp deletes jobs by IDs, in any state or in one.
type deleteJobsOp struct {
	At    queueSpec
	IDs   []idSpec
	State duly.State
}

func (o deleteJobsOp) play(p *pair) {
	ids := idsIn(p, o.IDs)
	p.both(fmt.Sprintf("deletion of %s %q", o.State, ids), func(s side) (string, error) {
		errs, err := s.in(o.At.ref().Namespace).DeleteJobs(p.ctx, o.At.ref(), ids, o.State)
		return errorTexts(errs), err
	})
	for _, id := range ids {
		p.get(o.At, id)
	}
}

func idsIn(p *pair, specs []idSpec) (ids []string) {
	for _, id := range specs {
		ids = append(ids, id.of(p))
	}
	return ids
}

// getJobsOp reads jobs by IDs.
type getJobsOp struct {
	At     queueSpec
	IDs    []idSpec
	Bodies bool
}

func (o getJobsOp) play(p *pair) {
	ids := idsIn(p, o.IDs)
	p.both(fmt.Sprintf("get of %q, bodies %t", ids, o.Bodies), func(s side) (string, error) {
		results, err := s.in(o.At.ref().Namespace).GetJobs(p.ctx, o.At.ref(), ids, o.Bodies)
		return resultTexts(results), err
	})
}

// resultTexts returns the jobs and errors of a GetJobs as text.
func resultTexts(results []contract.JobResult) string {
	texts := make([]string, len(results))
	for i, r := range results {
		if texts[i] = errorTexts([]error{r.Err}); r.Err == nil {
			texts[i] = fmt.Sprintf("%s %q of %d bytes, result %q", r.Info.State, r.Info.Body, r.Info.Size, r.Info.Result)
		}
	}
	return strings.Join(texts, ", ")
}

// promoteJobsOp promotes jobs by IDs.
type promoteJobsOp struct {
	At  queueSpec
	IDs []idSpec
}

func (o promoteJobsOp) play(p *pair) {
	ids := idsIn(p, o.IDs)
	p.both(fmt.Sprintf("promotion of %q", ids), func(s side) (string, error) {
		errs, err := s.in(o.At.ref().Namespace).PromoteJobs(p.ctx, o.At.ref(), ids)
		return errorTexts(errs), err
	})
	for _, id := range ids {
		p.get(o.At, id)
	}
}

// promoteOp promotes a job.
type promoteOp struct {
	At queueSpec
	ID idSpec
}

func (o promoteOp) play(p *pair) {
	id := o.ID.of(p)
	p.both("promote "+id, func(s side) (string, error) {
		return "", s.in(o.At.ref().Namespace).Promote(p.ctx, o.At.ref(), id)
	})
	p.get(o.At, id)
}

// updateOp changes a job.
type updateOp struct {
	At        queueSpec
	ID        idSpec
	Delay     time.Duration // negative means absent
	Due       time.Duration // counted from now; 0 means absent
	Priority  int           // 0 means absent
	Body      string        // empty means absent, "-" means emptied
	Header    string        // empty means absent, "-" means emptied
	Tries     int
	MaxStalls int
	Backoff   duly.Backoff
	TTL       time.Duration
	Lease     time.Duration
	Retain    time.Duration
}

func (o updateOp) update(now time.Time) duly.Update {
	u := duly.Update{Tries: o.Tries, MaxStalls: o.MaxStalls, Backoff: o.Backoff, TTL: o.TTL, Lease: o.Lease,
		Retain: o.Retain}
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
		return "", s.in(o.At.ref().Namespace).Update(p.ctx, o.At.ref(), id, u)
	})
	p.get(o.At, id)
}

// requeueOp requeues by IDs, or the oldest N.
type requeueOp struct {
	At    queueSpec
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
		// Both sides must have applied what is due, because a count takes the oldest stored jobs.
		p.step(o.At)
	}
	p.both("requeue", func(s side) (string, error) {
		results, err := s.in(o.At.ref().Namespace).Requeue(p.ctx, o.At.ref(), params)
		return requeuesText(results), err
	})
	for _, id := range params.IDs {
		p.get(o.At, id)
	}
}

// purgeOp purges jobs of one state.
type purgeOp struct {
	At    queueSpec
	State duly.State
	N     int
}

func (o purgeOp) play(p *pair) {
	// Both sides must have applied what is due, because a purge removes stored jobs.
	p.step(o.At)
	p.both("purge", func(s side) (string, error) {
		n, err := s.in(o.At.ref().Namespace).Purge(p.ctx, o.At.ref(), o.State, o.N)
		return fmt.Sprint(n), err
	})
}

// configureOp changes a queue's settings.
type configureOp struct {
	At    queueSpec
	Patch duly.QueueConfig
}

func (o configureOp) play(p *pair) {
	patch := p.limits(o.Patch)
	p.both("configure", func(s side) (string, error) {
		return "", s.in(o.At.ref().Namespace).Configure(p.ctx, o.At.ref(), patch)
	})
	p.config(o.At)
}

func (p *pair) config(at queueSpec) {
	p.both(fmt.Sprintf("config of %s", at), func(s side) (string, error) {
		c, err := s.in(at.ref().Namespace).Config(p.ctx, at.ref())
		return fmt.Sprintf("%+v", c), err
	})
}

// pauseOp pauses or resumes a queue.
type pauseOp struct {
	At     queueSpec
	Resume bool
}

func (o pauseOp) play(p *pair) {
	p.both("pause", func(s side) (string, error) {
		if o.Resume {
			return "", s.in(o.At.ref().Namespace).Resume(p.ctx, o.At.ref())
		}
		return "", s.in(o.At.ref().Namespace).Pause(p.ctx, o.At.ref())
	})
}

// destroyOp destroys a queue.
type destroyOp struct{ At queueSpec }

func (o destroyOp) play(p *pair) {
	p.both("destroy", func(s side) (string, error) {
		return "", s.in(o.At.ref().Namespace).Destroy(p.ctx, o.At.ref())
	})
}

// lookOp compares everything that the API shows: first without a step, then again after one.
type lookOp struct{}

func (lookOp) play(p *pair) {
	for i := range scriptQueues {
		at := queueSpec(i)
		p.peek(at)
		for id := range idSpec(scriptIDs) {
			p.get(at, id.of(p))
		}
		// The lists show stored states, so both sides have to apply what is due first.
		p.step(at)
		p.peek(at)
		p.config(at)
		p.both(fmt.Sprintf("stats of %s", at), func(s side) (string, error) {
			st, err := s.in(at.ref().Namespace).Stats(p.ctx, at.ref())
			return statsLine(st), err
		})
		for _, state := range duly.States {
			p.list(at, state)
		}
		p.keys(at, "")
	}
	p.queues(duly.DefaultNamespace)
	p.queues("other")
}

// list compares the jobs of one state, in pages of two.
func (p *pair) list(at queueSpec, state duly.State) { p.listOf(at.ref(), state) }

// listOf compares the jobs of one state of a queue: oldest first, newest first, and from the moment of
// a job in the middle.
func (p *pair) listOf(ref duly.QueueRef, state duly.State) {
	p.both(fmt.Sprintf("list of %s jobs of %s", state, ref), func(s side) (string, error) {
		params := duly.ListParams{State: state, Bodies: state%2 == 0, PageParams: duly.PageParams{Limit: 2}}
		jobs, err := p.pages(s, ref, params)
		text := infosText(jobs)
		if err != nil || len(jobs) == 0 {
			return text, err
		}

		params.Newest = true
		newest, err := p.pages(s, ref, params)
		if text += "\n newest " + infosText(newest); err != nil || !contract.SortedByTime(state) {
			return text, err
		}

		params.From, params.Newest = momentOf(&jobs[len(jobs)/2]), len(jobs)%2 == 0
		from, err := p.pages(s, ref, params)
		return text + "\n from " + infosText(from), err
	})
}

// pages returns the jobs of a list of one side.
func (p *pair) pages(s side, ref duly.QueueRef, params duly.ListParams) (jobs []duly.JobInfo, err error) {
	// The limit ends a list whose cursors never end.
	for range 1000 {
		page, err := s.in(ref.Namespace).List(p.ctx, ref, params)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if params.Cursor = page.Next; page.Next == "" {
			return jobs, nil
		}
	}
	return nil, errors.New("a list without an end, want at most 1000 pages")
}

func (p *pair) queues(namespace string) {
	p.both("queues of "+namespace, func(s side) (string, error) {
		page, err := s.in(namespace).Queues(p.ctx, namespace, duly.PageParams{})
		return namesText(page.Names) + page.Next, err
	})
	p.both("survey of "+namespace, func(s side) (string, error) {
		page, err := contract.SurveyorOf(s.in(namespace)).Survey(p.ctx, namespace, duly.PageParams{})
		text := page.Next
		for _, q := range page.Queues {
			text += fmt.Sprintf("\n%s %s %+v %v", q.Name, statsLine(q.Stats), q.Throttle, q.Err)
		}
		return text, err
	})
}
