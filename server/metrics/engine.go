package metrics

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// Engine counts what goes through an engine. It is the engine in everything
// else.
func (m *Metrics) Engine(e duly.Contract) duly.Contract { return &counted{e, m} }

type counted struct {
	duly.Contract
	m *Metrics
}

// Namespace implements duly.Namespacer.
func (c *counted) Namespace() string { return duly.NamespaceOf(c.Contract) }

// Push implements duly.Engine.
func (c *counted) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := c.Contract.Push(ctx, jobs)
	c.m.pushed(jobs, results)
	return results, err
}

func (m *Metrics) pushed(jobs []duly.Job, results []duly.PushResult) {
	var last duly.QueueRef
	var t *tally
	var n [duly.Exists + 1]int64 // of a run of jobs of one queue
	for i := range results {
		if r := &results[i]; r.Err != nil || r.Outcome > duly.Exists {
			m.jobsRefused.add(duly.CodeOf(r.Err))
			continue
		}
		ref := duly.QueueRef{Namespace: duly.NamespaceOr(jobs[i].Namespace), Name: jobs[i].Queue}
		if t == nil || ref != last {
			add(t.pushes(), n[:])
			t, last = m.tallies.of(ref), ref
		}
		n[results[i].Outcome]++
	}
	add(t.pushes(), n[:])
}

// add counts what was counted in n, and empties that.
func add(to []atomic.Int64, n []int64) {
	for i := range to {
		if n[i] > 0 {
			to[i].Add(n[i])
		}
	}
	clear(n)
}

// Reserve implements duly.Engine.
func (c *counted) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	deliveries, err := c.Contract.Reserve(ctx, p)
	c.m.delivered(deliveries)
	return deliveries, err
}

func (m *Metrics) delivered(deliveries []duly.Delivery) {
	var last duly.QueueRef
	var t *tally
	var late observations // of a run of jobs of one queue
	for i := range deliveries {
		d := &deliveries[i]
		if ref := (duly.QueueRef{Namespace: duly.NamespaceOr(d.Namespace), Name: d.Queue}); t == nil || ref != last {
			m.deliver(t, &late)
			t, last = m.tallies.of(ref), ref
		}
		late.note(latenessBounds, d.Now.Sub(d.Due))
	}
	m.deliver(t, &late)
}

func (m *Metrics) deliver(t *tally, late *observations) {
	if late.total == 0 {
		return
	}
	t.delivered.Add(late.total)
	h := t.late.Load()
	if h == nil {
		h = m.tallies.late
	}
	h.add(late)
}

// Wait implements duly.Engine.
func (c *counted) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	c.m.Polling(1)
	defer c.m.Polling(-1)
	return c.Contract.Wait(ctx, p)
}

// Polling counts n more requests that wait.
func (m *Metrics) Polling(n int) { m.waiting.Add(int64(n)) }

// Settle implements duly.Engine.
func (c *counted) Settle(ctx context.Context, namespace string, outcomes []duly.Outcome) ([]error, error) {
	errs, err := c.Contract.Settle(ctx, namespace, outcomes)
	c.m.settled(duly.NamespaceOr(namespace), outcomes, errs)
	return errs, err
}

func (m *Metrics) settled(namespace string, outcomes []duly.Outcome, errs []error) {
	last := ""
	var t *tally
	var n [duly.Bury + 1]int64 // of a run of jobs of one queue
	for i, err := range errs {
		o := &outcomes[i]
		if err != nil || o.As > duly.Bury {
			m.settlesRefused.add(duly.CodeOf(err))
			continue
		}
		queue, _, _ := strings.Cut(string(o.Receipt), ":") // it was current, so it is well formed
		if t == nil || queue != last {
			add(t.settles(), n[:])
			t, last = m.tallies.of(duly.QueueRef{Namespace: namespace, Name: queue}), queue
		}
		n[o.As]++
	}
	add(t.settles(), n[:])
}

// Destroy implements duly.Operator.
func (c *counted) Destroy(ctx context.Context, q duly.QueueRef) error {
	err := c.Contract.Destroy(ctx, q)
	if err == nil {
		c.m.tallies.forget(q.Normal())
	}
	return err
}
