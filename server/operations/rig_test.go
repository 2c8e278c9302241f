package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/failures"
)

var mail = duly.QueueRef{Namespace: "shop", Name: "mail"}

// engine is the model with faults before its calls and after them.
type engine struct {
	*model.Engine
	mu sync.Mutex
	// before is called before each call, and after behind it. An error is the answer.
	before, after func(ctx context.Context, call string) error
	calls         map[string]int
}

func (e *engine) around(ctx context.Context, call string, do func() error) error {
	e.mu.Lock()
	e.calls[call]++
	before, after := e.before, e.after
	e.mu.Unlock()
	if before != nil {
		if err := before(ctx, call); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && after != nil {
		err = after(ctx, call)
	}
	return err
}

func (e *engine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	err = e.around(ctx, "list", func() error { page, err = e.Engine.List(ctx, q, p); return err })
	return page, err
}

func (e *engine) GetJobs(ctx context.Context, q duly.QueueRef, ids []string, bodies bool) (r []contract.JobResult, err error) {
	err = e.around(ctx, "get", func() error { r, err = e.Engine.GetJobs(ctx, q, ids, bodies); return err })
	return r, err
}

func (e *engine) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) (r []duly.RequeueResult, err error) {
	err = e.around(ctx, "requeue", func() error { r, err = e.Engine.Requeue(ctx, q, p); return err })
	return r, err
}

func (e *engine) DeleteJobs(ctx context.Context, q duly.QueueRef, ids []string, s duly.State) (r []error, err error) {
	err = e.around(ctx, "delete", func() error { r, err = e.Engine.DeleteJobs(ctx, q, ids, s); return err })
	return r, err
}

func (e *engine) PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) (r []error, err error) {
	err = e.around(ctx, "promote", func() error { r, err = e.Engine.PromoteJobs(ctx, q, ids); return err })
	return r, err
}

// fail sets the faults of later calls.
func (e *engine) fail(before, after func(ctx context.Context, call string) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before, e.after = before, after
}

// rig has the operations of a server, in a bubble with its own clock.
type rig struct {
	*Manager
	t      *testing.T
	dir    string
	engine *engine
	write  func(path, text string) error // writes records
	log    *logtest.Log
	end    context.CancelFunc
	over   chan struct{}
}

// bubble runs a test with a rig.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: dir, log: new(logtest.Log), write: durable.WriteFile, engine: &engine{
			Engine: model.New(model.Config{Clock: clock.System(), Manual: true}), calls: map[string]int{},
		}}
		r.start()
		defer func() { r.stop(); r.engine.Close() }()
		test(t, r)
	})
}

// start starts the next process with the same folder and engine.
func (r *rig) start() {
	r.t.Helper()
	log := slog.New(slog.NewJSONHandler(r.log, nil))
	lines, err := audit.Open(audit.Config{Dir: r.dir + "/audit", Clock: clock.System(), Logger: log})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Manager, err = New(Config{Engine: r.engine, Clock: clock.System(), Audit: lines, DataDir: r.dir, Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	write := r.write
	r.store.Write = func(path, text string) error { return write(path, text) }
	ctx, end := context.WithCancel(context.Background())
	m, over := r.Manager, make(chan struct{})
	r.end, r.over = end, over
	go func() { defer close(over); m.Run(ctx) }()
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { time.Sleep(d) }

// stop ends the process.
func (r *rig) stop() { r.end(); <-r.over }

// kill ends the process without a further write or call, and starts the next one. The process must be in a call that
// blocks.
func (r *rig) kill() {
	r.t.Helper()
	r.store.Write = func(string, string) error { return errors.New("the process is dead") }
	r.stop()
	r.engine = &engine{Engine: r.engine.Engine, calls: map[string]int{}}
	r.start()
}

// restart ends the process and starts the next one.
func (r *rig) restart() { r.t.Helper(); r.stop(); r.start() }

// push pushes n jobs with the IDs prefix0, prefix1 and so on.
func (r *rig) push(prefix string, n int, change func(*duly.Job)) (ids []string) {
	r.t.Helper()
	for from := 0; from < n; from += duly.MaxBatch {
		var jobs []duly.Job
		for i := from; i < min(n, from+duly.MaxBatch); i++ {
			j := duly.Job{Namespace: mail.Namespace, Queue: mail.Name, ID: fmt.Sprintf("%s%d", prefix, i)}
			if change != nil {
				change(&j)
			}
			jobs, ids = append(jobs, j), append(ids, j.ID)
		}
		results, err := r.engine.Push(context.Background(), jobs)
		if err != nil || results[0].Err != nil {
			r.t.Fatal(results[:1], err)
		}
	}
	return ids
}

// bury makes ready jobs dead with an error. It returns how many it found.
func (r *rig) bury(most int, reason string) (n int) {
	r.t.Helper()
	for n < most {
		d, err := r.engine.Reserve(context.Background(), duly.ReserveParams{
			Namespace: mail.Namespace, Queues: []string{mail.Name}, Max: min(duly.MaxBatch, most-n),
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(d) == 0 {
			return n
		}
		var settles []duly.SettleRequest
		for i := range d {
			settles = append(settles, duly.SettleRequest{Receipt: d[i].Receipt, As: duly.Bury, Error: reason})
		}
		if reason == "" { // the jobs are acked instead
			for i := range settles {
				settles[i].As = duly.Ack
			}
		}
		if _, err := r.engine.Settle(context.Background(), mail.Namespace, settles); err != nil {
			r.t.Fatal(err)
		}
		n += len(d)
	}
	return n
}

// die pushes n jobs and buries them, a millisecond before the next operation.
func (r *rig) die(prefix string, n int, reason string) (ids []string) {
	r.t.Helper()
	ids = r.push(prefix, n, nil)
	if got := r.bury(n, reason); got != n {
		r.t.Fatalf("%d of %d jobs are dead", got, n)
	}
	time.Sleep(time.Millisecond)
	return ids
}

// sizes returns the sizes of the queue.
func (r *rig) sizes() duly.Sizes {
	r.t.Helper()
	return r.stats().Sizes
}

func (r *rig) stats() duly.Stats {
	r.t.Helper()
	s, err := r.engine.Stats(context.Background(), mail)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

var ada = Actor{Caller: "account ada", Via: "api", Remote: "10.0.0.1:5", Request: "R"}

// begin starts an operation and lets its time begin.
func (r *rig) begin(n contract.NewOperation) contract.Operation {
	r.t.Helper()
	n.Queue = mail.Name
	o, err := r.Start(mail.Namespace, n, ada)
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // later deaths have a later time
	return o
}

// get returns an operation, whose counts must be true.
func (r *rig) get(id string) contract.Operation {
	r.t.Helper()
	o, err := r.Get(mail.Namespace, id)
	if err != nil {
		r.t.Fatal(err, r.log)
	}
	if o.Done+o.Skipped+o.Failed != o.Taken || o.Taken > o.Found && o.Counted {
		r.t.Fatalf("the counts are wrong: %+v", o)
	}
	return o
}

// await waits until an operation has one of the states, at most for an hour.
func (r *rig) await(id string, states ...contract.OperationState) contract.Operation {
	r.t.Helper()
	for range 36_000 {
		synctest.Wait()
		o := r.get(id)
		if slices.Contains(states, o.State) {
			return o
		}
		if o.State.Ended() {
			r.t.Fatalf("it has ended: %+v", o)
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatalf("it has not become %v: %+v", states, r.get(id))
	panic("unreachable")
}

// must fails the test after an error.
func (r *rig) must(o contract.Operation, err error) contract.Operation {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// want fails the test unless the counts are these.
func (r *rig) want(o contract.Operation, done, skipped, failed int64) {
	r.t.Helper()
	if o.Done != done || o.Skipped != skipped || o.Failed != failed {
		r.t.Fatalf("%d done, %d skipped, %d failed, want %d, %d, %d: %+v", o.Done, o.Skipped, o.Failed, done, skipped,
			failed, o.Answers[max(0, len(o.Answers)-3):])
	}
}

var diskFull = failures.Fingerprint("disk is full")
