package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// The shop's queues.
const (
	reminders = "order-reminders"
	timeouts  = "order-timeouts"
)

// Order is what the jobs carry.
type Order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

// Shop takes orders. What it knows of them stands in memory here, where a real
// one has a database.
type Shop struct {
	jobs    *duly.Client
	timeout time.Duration
	closed  chan struct{}

	mu   sync.Mutex
	out  io.Writer
	open map[string]bool // placed, and neither paid nor closed
}

// NewShop makes a shop whose orders may stay unpaid for timeout.
func NewShop(jobs *duly.Client, timeout time.Duration, out io.Writer) *Shop {
	return &Shop{jobs: jobs, timeout: timeout, closed: make(chan struct{}, 1), out: out, open: map[string]bool{}}
}

// Register says how the shop's jobs are handled.
func (s *Shop) Register(w *worker.Worker) {
	w.Handle(timeouts, worker.JSON(s.close))
	w.Handle(reminders, worker.JSON(s.remind))
}

// Closed tells of each order that was closed unpaid.
func (s *Shop) Closed() <-chan struct{} { return s.closed }

// Place takes an order. The jobs' IDs are made from the order's, so that Pay
// finds them without having kept anything, and so that placing an order again
// after a crash in between pushes nothing twice.
func (s *Shop) Place(ctx context.Context, o Order) error {
	s.note(o, "placed", true)
	_, err := s.jobs.PushJSON(ctx, timeouts, o, duly.ID("close-"+o.ID), duly.Delay(s.timeout))
	if err != nil {
		return err
	}
	_, err = s.jobs.PushJSON(ctx, reminders, o, duly.ID("remind-"+o.ID), duly.Delay(s.timeout*2/3))
	return err
}

// Pay ends the waiting for an order's money. A job that is gone already has
// done its work; whether the order was still open is the database's to say, and
// never the queue's.
func (s *Shop) Pay(ctx context.Context, id string) error {
	if !s.note(Order{ID: id}, "paid", false) {
		return fmt.Errorf("order %s is not open", id)
	}
	for queue, job := range map[string]string{timeouts: "close-" + id, reminders: "remind-" + id} {
		if err := s.jobs.Cancel(ctx, queue, job); err != nil && !errors.Is(err, duly.ErrNotFound) {
			return err
		}
	}
	return nil
}

// remind and close are handlers. A job may be delivered again after its work
// was done, so both ask what the order's state is, and doing nothing is fine.

func (s *Shop) remind(_ context.Context, job *worker.Job[Order]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[job.Value.ID] {
		fmt.Fprintf(s.out, "reminded the buyer of %s\n", job.Value.Item)
	}
	return nil
}

func (s *Shop) close(_ context.Context, job *worker.Job[Order]) error {
	if s.note(job.Value, "closed, for it was not paid: "+job.Value.Item, false) {
		select {
		case s.closed <- struct{}{}:
		default:
		}
	}
	return nil
}

// note opens an order or ends an open one, and says so; false: it was not open.
func (s *Shop) note(o Order, what string, open bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !open && !s.open[o.ID] {
		return false
	}
	s.open[o.ID] = open
	if open {
		what += " " + o.Item
	}
	fmt.Fprintln(s.out, what)
	return true
}
