package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
)

// Fault D10: 64 goroutines use one file concurrently, for 60 s in the long form, and no call fails
// as busy. Only the contract's errors for races are allowed.
// Afterwards the counters add up and the check finds nothing.
func TestConcurrentCallsNeverFailAsBusy(t *testing.T) {
	t.Parallel()
	lasts := 2 * time.Second
	switch {
	case proctest.Long():
		lasts = time.Minute
	case testing.Short():
		lasts = time.Second
	}

	c := newConcurrentCalls(t)
	c.run(lasts)
	c.settleAll()
	for i := range concurrentQueues {
		s, err := c.e.Stats(c.ctx, concurrentQueue(i))
		if err != nil {
			t.Fatal(err)
		}
		n, z := s.Counters, s.Sizes
		if sum := n.Acked + n.Merged + n.Expired + n.Deleted + n.Dropped + z.Delayed + z.Ready + z.Blocked + z.Leased + z.Dead; n.Pushed != sum {
			t.Errorf("queue %d: %d jobs were pushed and %d are accounted for: %+v", i, n.Pushed, sum, s)
		}
	}

	report, err := c.e.Check(c.ctx, contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("the check finds %+v, %v", report.Faults, err)
	}
	t.Logf("in %s: %s", lasts, c.calls())
}

// The queues of concurrentCalls. Each has a bounded number of jobs, so that lists, backups
// and checks stay short.
const (
	concurrentQueues  = 4
	concurrentMaxJobs = 300
)

func concurrentQueue(i int) duly.QueueRef { return duly.Q(fmt.Sprint("q", i)) }

// concurrentCalls runs goroutines that each repeat one kind of call.
type concurrentCalls struct {
	*testing.T
	ctx   context.Context
	e     *Engine
	empty int64 // size of the file before the first push
	parts []*concurrentPart
}

// concurrentPart is one kind of call that a goroutine repeats.
type concurrentPart struct {
	name       string
	goroutines int
	do         func(r *rand.Rand) error
	done       atomic.Int64
}

func newConcurrentCalls(t *testing.T) *concurrentCalls {
	c := &concurrentCalls{T: t, ctx: t.Context(), e: mustOpen(t, filepath.Join(t.TempDir(), "duly.db"))}
	for i := range concurrentQueues {
		if err := c.e.Configure(c.ctx, concurrentQueue(i), duly.QueueConfig{MaxJobs: concurrentMaxJobs,
			DeadCount: 50}); err != nil {
			t.Fatal(err)
		}
	}

	c.empty = c.size()
	c.parts = []*concurrentPart{
		{name: "push", goroutines: 20, do: c.push},
		{name: "work", goroutines: 20, do: c.work},
		{name: "list", goroutines: 6, do: c.list},
		{name: "stats", goroutines: 6, do: c.stats},
		{name: "operate", goroutines: 4, do: c.operate},
		{name: "registry", goroutines: 2, do: c.registry},
		{name: "step", goroutines: 2, do: c.step},
		{name: "backup", goroutines: 2, do: func(*rand.Rand) error { return c.e.Backup(c.ctx, io.Discard) }},
		{name: "check", goroutines: 2, do: c.check},
	}
	return c
}

func (c *concurrentCalls) size() int64 {
	info, err := os.Stat(c.e.cfg.Path)
	if err != nil {
		c.Fatal(err)
	}
	return info.Size()
}

// run runs all goroutines for a time, and until each has made its call at least once and
// the WAL was moved into the file at least once.
func (c *concurrentCalls) run(lasts time.Duration) {
	c.Helper()
	end := clock.Monotonic() + lasts
	var all sync.WaitGroup
	goroutines := 0

	for _, p := range c.parts {
		goroutines += p.goroutines
		for i := range p.goroutines {
			r := rand.New(rand.NewPCG(uint64(len(p.name)), uint64(i)))
			all.Go(func() {
				for !c.Failed() && (clock.Monotonic() < end || !c.seenAll()) {
					if err := p.do(r); err != nil {
						c.Errorf("%s: %v (%v)", p.name, err, errors.Unwrap(err))
						return
					}
					p.done.Add(1)
				}
			})
		}
	}

	if goroutines != 64 {
		c.Errorf("there are %d goroutines, want 64", goroutines)
	}
	all.Wait()
}

func (c *concurrentCalls) seenAll() bool {
	for _, p := range c.parts {
		if p.done.Load() < int64(p.goroutines) {
			return false
		}
	}
	return c.size() > c.empty
}

func (c *concurrentCalls) calls() (text string) {
	for _, p := range c.parts {
		text += fmt.Sprintf("%s %d, ", p.name, p.done.Load())
	}
	return text + fmt.Sprintf("%d KiB", c.size()>>10)
}

// raced removes the errors of lost races.
func raced(err error) error {
	if errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrConflict) {
		return nil
	}
	return err
}

func anyQueue(r *rand.Rand) duly.QueueRef { return concurrentQueue(r.IntN(concurrentQueues)) }

// anyID returns one of a few IDs, so that concurrent calls often use the same ID.
func anyID(r *rand.Rand) string { return fmt.Sprint("own", r.IntN(50)) }

func (c *concurrentCalls) push(r *rand.Rand) error {
	jobs := make([]duly.Job, 1+r.IntN(10))
	for i := range jobs {
		jobs[i] = duly.Job{Queue: anyQueue(r).Name, Body: make([]byte, r.IntN(3000)), Tries: 2, Backoff: duly.Fixed(0)}
		switch r.IntN(6) {
		case 0:
			jobs[i].Delay = time.Duration(r.IntN(100)) * time.Millisecond
		case 1:
			jobs[i].ID = anyID(r)
		case 2:
			jobs[i].OrderKey = fmt.Sprint(r.IntN(5))
		case 3:
			jobs[i].TTL = time.Duration(1+r.IntN(200)) * time.Millisecond
		}
	}

	results, err := c.e.Push(c.ctx, jobs)
	for _, p := range results {
		if p.Err != nil && !errors.Is(p.Err, duly.ErrFull) {
			err = errors.Join(err, p.Err)
		}
	}

	return err
}

func (c *concurrentCalls) work(r *rand.Rand) error {
	p := duly.ReserveParams{Queues: []string{anyQueue(r).Name, anyQueue(r).Name}, Max: 1 + r.IntN(20)}
	got, err := c.e.Reserve(c.ctx, p)
	if err != nil {
		return err
	}
	if len(got) == 0 {
		_, err := c.e.Wait(c.ctx, duly.WaitParams{Queues: p.Queues, Timeout: 20 * time.Millisecond})
		return err
	}

	if _, err := c.e.Extend(c.ctx, "", []duly.Receipt{got[0].Receipt}, time.Minute); err != nil {
		return err
	}

	outcomes := make([]duly.SettleRequest, len(got))
	for i, d := range got {
		as := []duly.Settlement{duly.Ack, duly.Ack, duly.Ack, duly.Nack, duly.Release, duly.Bury}[r.IntN(6)]
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: as}
	}

	errs, err := c.e.Settle(c.ctx, "", outcomes)
	for _, e := range errs { // the job may have been deleted concurrently
		if e != nil && !errors.Is(e, duly.ErrLeaseLost) {
			err = errors.Join(err, e)
		}
	}

	return err
}

func (c *concurrentCalls) list(r *rand.Rand) error {
	q := anyQueue(r)
	for _, state := range duly.States {
		p := duly.ListParams{State: state, Bodies: r.IntN(2) == 0, PageParams: duly.PageParams{Limit: 50}}
		for {
			page, err := c.e.List(c.ctx, q, p)
			if err != nil {
				return err
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
	}
	_, err := c.e.Queues(c.ctx, "", duly.PageParams{})
	return err
}

func (c *concurrentCalls) stats(r *rand.Rand) error {
	q := anyQueue(r)
	_, err := c.e.Stats(c.ctx, q)
	_, peeked := c.e.Peek(c.ctx, q)
	_, got := c.e.Get(c.ctx, q, anyID(r))
	_, configured := c.e.Config(c.ctx, q)
	return errors.Join(err, raced(peeked), raced(got), configured)
}

func (c *concurrentCalls) operate(r *rand.Rand) error {
	q, id := anyQueue(r), anyID(r)
	delay := time.Duration(r.IntN(50)) * time.Millisecond
	switch r.IntN(6) {
	case 0:
		return raced(c.e.Update(c.ctx, q, id, duly.Update{Delay: &delay}))
	case 1:
		return raced(c.e.Promote(c.ctx, q, id))
	case 2:
		return raced(c.e.Delete(c.ctx, q, id))
	case 3:
		_, err := c.e.Requeue(c.ctx, q, duly.RequeueParams{N: 10})
		return err
	case 4:
		_, err := c.e.Purge(c.ctx, q, duly.StateDead, 10)
		return err
	}
	return errors.Join(c.e.Pause(c.ctx, q), c.e.Resume(c.ctx, q))
}

func (c *concurrentCalls) registry(r *rand.Rand) error {
	token := contract.Token{Hash: [32]byte{byte(r.Uint32()), byte(r.Uint32())}, Namespace: "default",
		Rights: contract.RightProduce}
	if err := c.e.PutToken(c.ctx, token); err != nil {
		return err
	}
	_, found := c.e.FindToken(c.ctx, token.Hash)
	_, err := c.e.Tokens(c.ctx, "", duly.PageParams{})
	return errors.Join(raced(found), err, raced(c.e.DeleteToken(c.ctx, token.Hash)))
}

func (c *concurrentCalls) step(r *rand.Rand) error {
	_, err := c.e.Step(c.ctx, anyQueue(r))
	return errors.Join(err, c.e.Sweep(c.ctx))
}

// check runs a check concurrently. Its snapshot must have no fault.
func (c *concurrentCalls) check(r *rand.Rand) error {
	report, err := c.e.Check(c.ctx, contract.CheckParams{Repair: r.IntN(2) == 0})
	if len(report.Faults) > 0 {
		c.Errorf("a check beside the others finds %+v", report.Faults)
	}
	return err
}

// settleAll brings the queues to rest.
func (c *concurrentCalls) settleAll() {
	for i := range concurrentQueues {
		for more := true; more; {
			var err error
			if more, err = c.e.Step(c.ctx, concurrentQueue(i)); err != nil {
				c.Fatal(err)
			}
		}
	}
}
