package lmstfy

import (
	"context"
	"errors"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// ack ends the delivery of a job. A job whose last delivery was by another server is deleted, in
// any state. If the job does not exist, ack returns no error.
func (a *API) ack(c *route.Call) error {
	if err := a.ackOne(c); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) ackOne(c *route.Call) error {
	id := c.PathValue("id")
	found, err := a.settle(c.Context(), queue(c), id)
	// Either another server has delivered the job, or it is not leased.
	if !found && err == nil {
		found, err = a.remove(c.Context(), queue(c), id)
	}
	if found {
		a.metrics.ackedJob(queue(c), id, a.clock.Now())
	}
	return err
}

// settle ends a delivery that this server has made, and reports whether there was one.
func (a *API) settle(ctx context.Context, q duly.QueueRef, id string) (ended bool, err error) {
	receipt, ok := a.receipts.take(q, id)
	if !ok {
		return false, nil
	}
	errs, err := a.engine.Settle(ctx, q.Namespace, []duly.SettleRequest{{Receipt: receipt, As: duly.Ack}})
	switch {
	case err != nil:
		return false, err
	// The job may have a later delivery, which the ack ends too.
	case errors.Is(errs[0], duly.ErrLeaseLost):
		return false, nil
	}
	return errs[0] == nil, errs[0]
}

func (a *API) peekQueue(c *route.Call) error {
	// The memory is reserved before the engine reads a body of unknown size.
	if err := c.ReserveMemory(a.poll.Bodies(1)); err != nil {
		return err
	}
	j, err := a.engine.Peek(c.Context(), queue(c))
	if errors.Is(err, duly.ErrNotFound) {
		return refuse(http.StatusNotFound, "the queue is empty")
	}
	if err != nil {
		return err
	}
	return a.show(c, &j, max(0, j.Tries-j.Attempt+1))
}

// peekJob answers with a job in any state. For lmstfy a job does not exist if it is retained after
// its ack, or if it is leased beyond its ttl. Like lmstfy's answer, it has no field for tries.
func (a *API) peekJob(c *route.Call) error {
	if err := c.ReserveMemory(a.poll.Bodies(1)); err != nil {
		return err
	}
	j, err := a.engine.Get(c.Context(), queue(c), c.PathValue("id"))
	if err != nil && !isAbsent(err) {
		return err
	}
	// A leased job outlives its ttl in duly.
	expired := !j.ExpiresAt.IsZero() && !a.clock.Now().Before(j.ExpiresAt)
	if err != nil || expired || j.State == duly.StateDone {
		return refuse(http.StatusNotFound, "job not found")
	}
	return a.show(c, &j, 0)
}

func (a *API) show(c *route.Call, j *duly.JobInfo, tries int) error {
	now := a.clock.Now()
	shown := job{
		attributes: j.Headers, data: j.Body, elapsedMS: elapsed(j.ID, j.PushedAt, now), id: j.ID,
		namespace: c.Namespace, queue: j.Queue, remainTries: tries, ttl: remaining(j.ExpiresAt, now),
	}
	// The body and its base64 text are in memory at the same time.
	size := shown.size()
	if err := c.ReserveMemory(int64(len(j.Body) + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, shown.appendTo(c.Room(size)))
}

type sizeForm struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	Size      int64  `json:"size"`
}

// size answers with the number of ready jobs.
func (a *API) size(c *route.Call) error {
	s, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, sizeForm{c.Namespace, c.PathValue("queue"), s.Sizes.Ready})
}

// destroy deletes the ready jobs. Delayed, leased and dead jobs stay, and so does the queue:
// destroying the queue could lose a job that is published at the same time.
func (a *API) destroy(c *route.Call) error {
	before, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	purged, err := a.engine.Purge(c.Context(), queue(c), duly.StateReady, 0)
	if err != nil {
		return err
	}

	// The purge deletes only jobs that the engine has moved to ready. Some due jobs have not been
	// moved yet, so the purge is repeated.
	for due := before.Sizes.Ready - int64(purged); due > 0; due-- {
		j, err := a.engine.Peek(c.Context(), queue(c))
		if errors.Is(err, duly.ErrNotFound) {
			break
		}
		if err == nil {
			_, err = a.remove(c.Context(), queue(c), j.ID)
		}
		if err != nil {
			return err
		}
	}
	return c.Empty()
}
