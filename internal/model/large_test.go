package model_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// Users' tests may push 100 000 jobs. No operation may visit all jobs each time, because this test
// would then take minutes instead of seconds.
func TestLargeQueueIsUsable(t *testing.T) {
	t.Parallel()
	n := 100_000
	if testing.Short() {
		n = 10_000
	}

	l := newLarge(t)
	for _, j := range []duly.Job{
		{Queue: "plain"},
		{Queue: "later", Delay: time.Minute, Retain: time.Hour},
		{Queue: "keyed", OrderKey: "k", TTL: time.Hour},
	} {
		l.fill(j, n)
	}

	waited := l.wait("none") // a waiter is checked at every change
	l.take("plain", n, duly.Ack)
	l.clock.Advance(time.Minute)
	l.take("later", n, duly.Bury)
	l.requeue("later", n)
	l.take("later", n, duly.Ack)
	l.take("keyed", 1000, duly.Nack)
	l.purge("keyed")
	l.fill(duly.Job{Queue: "none"}, 1) // ends the Wait before its timeout
	if err := <-waited; err != nil {
		t.Error(err)
	}
	l.clock.Advance(time.Hour + time.Millisecond)
	l.empty("plain", "later", "keyed")
}

type large struct {
	*testing.T
	e     *model.Engine
	clock *clock.Fake
}

func newLarge(t *testing.T) *large {
	c := clock.NewFake()
	l := &large{T: t, clock: c, e: model.New(model.Config{Clock: c})}
	t.Cleanup(func() { l.e.Close() })
	return l
}

func (l *large) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *large) fill(j duly.Job, n int) {
	l.Helper()
	for pushed := 0; pushed < n; {
		jobs := make([]duly.Job, min(duly.MaxBatch, n-pushed))
		for i := range jobs {
			jobs[i] = j
		}
		_, err := l.e.Push(l.Context(), jobs)
		l.must(err)
		pushed += len(jobs)
	}
}

func (l *large) wait(queue string) <-chan error {
	done := make(chan error, 1)
	go func() {
		ready, err := l.e.Wait(l.Context(), duly.WaitParams{Queues: []string{queue}, Timeout: duly.MaxWait})
		if err == nil && !ready {
			err = fmt.Errorf("wait ended without a job")
		}
		done <- err
	}()
	return done
}

// take reserves n jobs in batches and settles the deliveries.
func (l *large) take(queue string, n int, as duly.Settlement) {
	l.Helper()
	for taken := 0; taken < n; {
		ds, err := l.e.Reserve(l.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 100})
		l.must(err)
		if len(ds) == 0 {
			l.clock.Advance(time.Hour / 2000) // time until the next try of a key's first job
		}

		outcomes := make([]duly.SettleRequest, len(ds))
		var none time.Duration
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: as}
			if as == duly.Nack {
				outcomes[i].Delay = &none
			}
		}

		errs, err := l.e.Settle(l.Context(), "", outcomes)
		l.must(err)
		for _, err := range errs {
			l.must(err)
		}
		taken += len(ds)
	}
}

func (l *large) requeue(queue string, n int) {
	l.Helper()
	for range (n + duly.MaxBatch - 1) / duly.MaxBatch {
		results, err := l.e.Requeue(l.Context(), duly.Q(queue), duly.RequeueParams{N: duly.MaxBatch})
		l.must(err)
		for _, r := range results {
			l.must(r.Err)
		}
	}
}

func (l *large) purge(queue string) {
	l.Helper()
	_, err := l.e.Purge(l.Context(), duly.Q(queue), duly.StateBlocked, 0)
	l.must(err)
}

func (l *large) empty(queues ...string) {
	l.Helper()
	l.must(l.e.Sweep(l.Context()))
	for _, q := range queues {
		st, err := l.e.Stats(l.Context(), duly.Q(q))
		l.must(err)
		if z := st.Sizes; z != (duly.Sizes{Dead: z.Dead}) {
			l.Errorf("queue %s is not empty: %+v", q, z)
		}
	}
}
