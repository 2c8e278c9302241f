package enginetest

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// theQueue is the queue of every test that needs only one.
const theQueue = "jobs"

// scene gives a test its engine, its clock and short forms of the contract's operations. A short
// form fails the test if its operation fails.
type scene struct {
	*testing.T
	*Harness
	ctx context.Context
	// namespace is the namespace of the operations. Empty means the default namespace.
	namespace   string
	queue       string
	root        *scene
	inGoroutine bool // whether a goroutine other than the test's uses the scene
	// namespaces and closed are used on the root scene only. They say which namespaces the audit
	// visits, and whether the engine is closed.
	namespaces []string
	closed     bool
}

// play runs a test and audits the engine afterwards.
func play(t *testing.T, h *Harness, f func(s *scene)) {
	s := &scene{T: t, Harness: h, ctx: t.Context(), queue: theQueue, namespaces: []string{""}}
	s.root = s
	f(s)

	// A failed test leaves the engine in any state, so an audit would only add noise.
	if !t.Failed() && !s.closed {
		s.audit()
	}
}

// Fatalf ends the test. On a goroutine other than the test's it ends only that goroutine, because
// only the test's goroutine may end the test.
func (s *scene) Fatalf(format string, args ...any) {
	s.Helper()
	if !s.inGoroutine {
		s.T.Fatalf(format, args...)
	}
	s.Errorf(format, args...)
	runtime.Goexit()
}

// in returns the scene for another namespace.
func (s *scene) in(namespace string) *scene {
	other := *s
	other.namespace = namespace

	// A server has one client per namespace, so the scene gets another engine.
	if s.In != nil {
		h := *s.Harness
		h.Engine = s.In(namespace)
		other.Harness = &h
	}

	// The audit visits every namespace that the test has used.
	if !slices.Contains(s.root.namespaces, namespace) {
		s.root.namespaces = append(s.root.namespaces, namespace)
	}
	return &other
}

// on returns the scene for another queue.
func (s *scene) on(queue string) *scene {
	other := *s
	other.queue = queue
	return &other
}

func (s *scene) ref() duly.QueueRef { return duly.QueueRef{Namespace: s.namespace, Name: s.queue} }

func (s *scene) now() time.Time { return s.Clock.Now() }

// pushed calls Push once. Jobs without a queue go to the scene's queue.
func (s *scene) pushed(jobs ...duly.Job) ([]duly.PushResult, error) {
	// The jobs belong to the caller.
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Namespace = s.namespace
		if jobs[i].Queue == "" {
			jobs[i].Queue = s.queue
		}
	}
	return s.Engine.Push(s.ctx, jobs)
}

// pushAll pushes jobs in one call, requires that all are created, and returns their IDs.
func (s *scene) pushAll(jobs ...duly.Job) []string {
	s.Helper()
	results, err := s.pushed(jobs...)
	s.must("push", err)
	ids := make([]string, len(results))
	for i, r := range results {
		s.must("push", r.Err)
		if r.Status != duly.Created || r.ID == "" {
			s.Fatalf("job %d of the push is answered %s %q, want created", i, r.Status, r.ID)
		}
		ids[i] = r.ID
	}
	return ids
}

// push pushes a job, requires that it is created, and returns its ID.
func (s *scene) push(j duly.Job) string {
	s.Helper()
	return s.pushAll(j)[0]
}

// try pushes a job and returns its result. If the call fails, the result has the error of the call.
func (s *scene) try(j duly.Job) duly.PushResult {
	s.Helper()
	results, err := s.pushed(j)
	if err != nil {
		return duly.PushResult{Err: err}
	}
	if len(results) != 1 {
		s.Fatalf("a push of one job has %d results, want 1", len(results))
	}
	return results[0]
}

// reserve reserves up to n jobs. The default queue is the scene's.
func (s *scene) reserve(n int, queues ...string) []duly.Delivery {
	s.Helper()
	if len(queues) == 0 {
		queues = []string{s.queue}
	}
	ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Namespace: s.namespace, Queues: queues, Max: n})
	s.must("reserve", err)
	if len(ds) > n {
		s.Fatalf("reserve of %d returned %d, want all of them", n, len(ds))
	}
	return ds
}

// take reserves one job. It fails if no job is deliverable.
func (s *scene) take() duly.Delivery {
	s.Helper()
	ds := s.reserve(1)
	if len(ds) == 0 {
		s.Fatalf("no job is deliverable in queue %s at %s", s.queue, s.now())
	}
	return ds[0]
}

// takeAll reserves all jobs that are deliverable now.
func (s *scene) takeAll() (all []duly.Delivery) {
	s.Helper()

	// One call may stop at a limit or at a suspect job, so only an empty call shows the end.
	for {
		ds := s.reserve(duly.MaxBatch)
		if len(ds) == 0 {
			return all
		}
		all = append(all, ds...)
	}
}

// settle settles one delivery and returns its error.
func (s *scene) settle(o duly.SettleRequest) error {
	s.Helper()
	errs, err := s.Engine.Settle(s.ctx, s.namespace, []duly.SettleRequest{o})
	s.must("settle", err)
	if len(errs) != 1 {
		s.Fatalf("settle of one delivery returned %d results, want 1", len(errs))
	}
	return errs[0]
}

func (s *scene) ack(d duly.Delivery) {
	s.Helper()
	s.must("ack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
}

func (s *scene) nack(d duly.Delivery, text string) {
	s.Helper()
	s.must("nack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Nack, Error: text}))
}

func (s *scene) nackFor(d duly.Delivery, delay time.Duration) {
	s.Helper()
	s.must("nack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Nack, Delay: &delay}))
}

func (s *scene) release(d duly.Delivery) {
	s.Helper()
	s.must("release", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}))
}

func (s *scene) snooze(d duly.Delivery, delay time.Duration) {
	s.Helper()
	s.must("snooze", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Delay: &delay}))
}

func (s *scene) bury(d duly.Delivery, reason string) {
	s.Helper()
	s.must("bury", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Bury, Error: reason}))
}

// extend extends one lease and returns its error.
func (s *scene) extend(r duly.Receipt, lease time.Duration) error {
	s.Helper()
	errs, err := s.Engine.Extend(s.ctx, s.namespace, []duly.Receipt{r}, lease)
	s.must("extend", err)
	if len(errs) != 1 {
		s.Fatalf("extend of one receipt returned %d results, want 1", len(errs))
	}
	return errs[0]
}

// stall lets the lease of a delivery end and reclaims the job.
func (s *scene) stall(d duly.Delivery) {
	s.Helper()
	s.Advance(d.LeaseEnd.Sub(s.now()) + time.Millisecond)
	s.step()
}

func (s *scene) get(id string) duly.JobInfo {
	s.Helper()
	info, err := s.Engine.Get(s.ctx, s.ref(), id)
	s.must("get", err)
	return info
}

// step steps the queue until nothing more is due.
func (s *scene) step() {
	s.Helper()

	// The bound turns an engine that never ends its step into a failed test.
	for range 10_000 {
		more, err := s.Maintainer.Step(s.ctx, s.ref())
		s.must("step", err)
		if !more {
			return
		}
	}
	s.Fatal("step still reports more to do after 10000 calls")
}

// list returns all jobs of a state.
func (s *scene) list(state duly.State) (jobs []duly.JobInfo) {
	s.Helper()
	p := duly.ListParams{State: state, PageParams: duly.PageParams{Limit: duly.MaxBatch}}

	// The bound turns a cursor that never ends into a failed test.
	for range 10_000 {
		page, err := s.Engine.List(s.ctx, s.ref(), p)
		s.must("list", err)
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" {
			return jobs
		}
		p.Cursor = page.Next
	}
	s.Fatalf("the list of %s jobs has more than 10000 pages", state)
	return nil
}

func (s *scene) stats() duly.Stats {
	s.Helper()
	st, err := s.Engine.Stats(s.ctx, s.ref())
	s.must("stats", err)
	return st
}

func (s *scene) config() duly.QueueConfig {
	s.Helper()
	c, err := s.Engine.Config(s.ctx, s.ref())
	s.must("config", err)
	return c
}

// usual returns the configuration of a queue that was never configured.
func (s *scene) usual() duly.QueueConfig {
	c := contract.DefaultQueueConfig()
	c.Shards = max(1, s.Shards)
	return c
}

func (s *scene) configure(patch duly.QueueConfig) {
	s.Helper()
	s.must("configure", s.Engine.Configure(s.ctx, s.ref(), patch))
}

// queues returns all queues of the namespace.
func (s *scene) queues() (names []string) {
	s.Helper()
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		page, err := s.Engine.Queues(s.ctx, s.namespace, p)
		s.must("queues", err)
		names = append(names, page.Names...)
		if page.Next == "" {
			return names
		}
		p.Cursor = page.Next
	}
}

// requeue requeues one dead job and returns its result.
func (s *scene) requeue(id string) duly.RequeueResult {
	s.Helper()
	results, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{id}})
	s.must("requeue", err)
	if len(results) != 1 || results[0].ID != id {
		s.Fatalf("requeue of %q returns %+v, want one result for this ID", id, results)
	}
	return results[0]
}
