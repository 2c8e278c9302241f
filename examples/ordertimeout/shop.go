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

// Order is the body of a job.
type Order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

// Shop accepts orders. It keeps them in memory, where a real shop has a database.
type Shop struct {
	jobs    *duly.Client
	timeout time.Duration
	closed  chan struct{}

	mu   sync.Mutex
	out  io.Writer
	open map[string]bool // placed, and neither paid nor closed
}

// NewShop returns a shop that closes orders which are unpaid after timeout.
func NewShop(jobs *duly.Client, timeout time.Duration, out io.Writer) *Shop {
	return &Shop{jobs: jobs, timeout: timeout, closed: make(chan struct{}, 1), out: out, open: map[string]bool{}}
}

// Register adds the handlers of the shop's jobs to a worker.
func (s *Shop) Register(w *worker.Worker) {
	w.Handle(timeouts, worker.JSON(s.close))
	w.Handle(reminders, worker.JSON(s.remind))
}

// Closed receives a value for each order that was closed unpaid.
func (s *Shop) Closed() <-chan struct{} { return s.closed }

// Place accepts an order and pushes its jobs. Their IDs are derived from the order's ID, so Pay
// can cancel them without storing anything. If Place is repeated after a crash, the same IDs
// keep it from pushing the jobs twice.
func (s *Shop) Place(ctx context.Context, o Order) error {
	// The order is open before its jobs exist, so an early timeout finds it.
	s.note(o, "placed", true)
	_, err := s.jobs.PushJSON(ctx, timeouts, o, duly.ID("close-"+o.ID), duly.Delay(s.timeout))
	if err != nil {
		return err
	}
	_, err = s.jobs.PushJSON(ctx, reminders, o, duly.ID("remind-"+o.ID), duly.Delay(s.timeout*2/3))
	return err
}

// Pay marks an order as paid and cancels its jobs. A missing job has already run. Only the
// database decides whether the order is still open, never the queue.
func (s *Shop) Pay(ctx context.Context, id string) error {
	// The order is paid before its jobs are canceled, so a timeout that runs now changes nothing.
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

// The handlers remind and close may run again for a job that was already handled. Both check
// the order's state first, so a second run does nothing.

func (s *Shop) remind(_ context.Context, job *worker.Job[Order]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[job.Value.ID] {
		fmt.Fprintf(s.out, "reminded the buyer of %s\n", job.Value.Item)
	}
	return nil
}

func (s *Shop) close(_ context.Context, job *worker.Job[Order]) error {
	if s.note(job.Value, "closed because it was not paid: "+job.Value.Item, false) {
		select {
		case s.closed <- struct{}{}:
		default:
		}
	}
	return nil
}

// note opens an order, or ends an open one, and prints what happened. It returns false if the
// order to end is not open.
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
