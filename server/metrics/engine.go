package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/observe"
)

// Observer counts the jobs that pass through an engine.
func (m *Metrics) Observer() observe.Observer {
	return observe.Observer{
		Pushed: func(_ context.Context, jobs []duly.Job, results []duly.PushResult, _ error) {
			m.pushed(jobs, results)
		},
		Reserved: func(_ context.Context, deliveries []duly.Delivery, _ error) { m.delivered(deliveries) },
		Settled: func(_ context.Context, namespace string, outcomes []duly.SettleRequest, errs []error, _ error) {
			m.settled(contract.NamespaceOr(namespace), outcomes, errs)
		},
		Firing:  m.firing,
		Waiting: m.Polling,
		Destroyed: func(q duly.QueueRef, err error) {
			if err == nil {
				m.queues.remove(q.Normal())
			}
		},
	}
}

func (m *Metrics) pushed(jobs []duly.Job, results []duly.PushResult) {
	var last duly.QueueRef
	var c *counters

	// Adjacent jobs of one queue are counted together.
	var n [duly.Exists + 1]int64
	for i := range results {
		if r := &results[i]; r.Err != nil || r.Status > duly.Exists {
			m.jobsRefused.add(duly.CodeOf(r.Err))
			continue
		}
		ref := duly.QueueRef{Namespace: contract.NamespaceOr(jobs[i].Namespace), Name: jobs[i].Queue}
		if c == nil || ref != last {
			add(c.pushes(), n[:])
			c, last = m.queues.get(ref), ref
		}
		n[results[i].Status]++
	}
	add(c.pushes(), n[:])
}

// add adds the counts of n to counters, and resets n.
func add(to []atomic.Int64, n []int64) {
	for i := range to {
		if n[i] > 0 {
			to[i].Add(n[i])
		}
	}
	clear(n)
}

func (m *Metrics) delivered(deliveries []duly.Delivery) {
	var last duly.QueueRef
	var c *counters

	// Adjacent deliveries of one queue are counted together.
	var late observations
	for i := range deliveries {
		d := &deliveries[i]
		ref := duly.QueueRef{Namespace: contract.NamespaceOr(d.Namespace), Name: d.Queue}
		if c == nil || ref != last {
			m.deliver(c, &late)
			c, last = m.queues.get(ref), ref
		}
		late.note(latenessBounds, d.Now.Sub(d.Due))
	}
	m.deliver(c, &late)
}

func (m *Metrics) deliver(c *counters, late *observations) {
	if late.total == 0 {
		return
	}
	c.delivered.Add(late.total)
	// A queue without a histogram uses the common one.
	h := c.late.Load()
	if h == nil {
		h = m.queues.otherLate
	}
	h.add(late)
}

// firing counts the ticks that this process fires.
func (m *Metrics) firing(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
	context.Context, []contract.FireItem, func([]contract.FireResult, error),
) {
	return ctx, items, func(results []contract.FireResult, err error) {
		if err == nil {
			m.ticked(q.Normal(), now, items, results)
		}
	}
}

func (m *Metrics) ticked(q duly.QueueRef, now int64, items []contract.FireItem, results []contract.FireResult) {
	var sum contract.TickCounts
	var late observations
	for i := range results {
		n := items[i].Counts(&results[i])
		sum.Fired += n.Fired
		sum.Skipped += n.Skipped
		sum.Missed += n.Missed
		// A missed tick has no time at which it fires.
		if n.Fired+n.Skipped > 0 {
			late.note(latenessBounds, time.Duration(now-items[i].Tick)*time.Millisecond)
		}
	}

	c := m.queues.get(q)
	for i, n := range [...]int64{sum.Fired, sum.Skipped, sum.Missed} {
		if n > 0 {
			c.ticks[i].Add(n)
		}
	}
	if late.total > 0 {
		m.queues.tickLateness(c).add(&late)
	}
}

// Polling adds n to the number of requests that wait.
func (m *Metrics) Polling(n int) { m.waiting.Add(int64(n)) }

func (m *Metrics) settled(namespace string, outcomes []duly.SettleRequest, errs []error) {
	last := ""
	var c *counters

	// Adjacent settles of one queue are counted together.
	var n [duly.Bury + 1]int64
	for i, err := range errs {
		o := &outcomes[i]
		if err != nil || o.As > duly.Bury {
			m.settlesRefused.add(duly.CodeOf(err))
			continue
		}
		// A current receipt is always well formed.
		receipt, _ := contract.ParseReceipt(o.Receipt)
		if c == nil || receipt.Queue != last {
			add(c.settles(), n[:])
			c, last = m.queues.get(duly.QueueRef{Namespace: namespace, Name: receipt.Queue}), receipt.Queue
		}
		n[o.As]++
	}
	add(c.settles(), n[:])
}
