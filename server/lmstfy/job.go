package lmstfy

import (
	"context"
	"errors"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// ack ends the delivery of a job. One that this server has not handed out, or not
// last, is deleted in whatever state it is. A job that is gone is no error.
func (a *API) ack(c *route.Call) error {
	if err := a.ackOne(c); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) ackOne(c *route.Call) error {
	id := c.PathValue("id")
	found, err := a.settle(c.Context(), queue(c), id)
	if !found && err == nil {
		found, err = a.remove(c.Context(), queue(c), id)
	}
	if found {
		a.metrics.ackedJob(queue(c), id, a.clock.Now())
	}
	return err
}

// settle ends the delivery of a job that this server has handed out, and reports
// whether there was one.
func (a *API) settle(ctx context.Context, q duly.QueueRef, id string) (ended bool, err error) {
	receipt, ok := a.receipts.take(q, id)
	if !ok {
		return false, nil
	}
	errs, err := a.engine.Settle(ctx, q.Namespace, []duly.Outcome{{Receipt: receipt, As: duly.Ack}})
	switch {
	case err != nil:
		return false, err
	case errors.Is(errs[0], duly.ErrLeaseLost):
		return false, nil
	}
	return errs[0] == nil, errs[0]
}

func (a *API) peekQueue(c *route.Call) error {
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

// peekJob tells a job in whatever state it is. One that is retained after its
// ack is gone for lmstfy, and so is one that outlives its ttl in somebody's
// hands. It does not tell the tries, as lmstfy does not.
func (a *API) peekJob(c *route.Call) error {
	if err := c.ReserveMemory(a.poll.Bodies(1)); err != nil {
		return err
	}
	j, err := a.engine.Get(c.Context(), queue(c), c.PathValue("id"))
	if err != nil && !absent(err) {
		return err
	}
	over := !j.ExpiresAt.IsZero() && !a.clock.Now().Before(j.ExpiresAt)
	if err != nil || over || j.State == duly.StateDone {
		return refuse(http.StatusNotFound, "job not found")
	}
	return a.show(c, &j, 0)
}

func (a *API) show(c *route.Call, j *duly.JobInfo, tries int) error {
	now := a.clock.Now()
	told := job{
		attributes: j.Headers, data: j.Body, elapsedMS: elapsed(j.ID, j.PushedAt, now), id: j.ID,
		namespace: c.Namespace, queue: j.Queue, remainTries: tries, ttl: remaining(j.ExpiresAt, now),
	}
	size := told.size()
	if err := c.ReserveMemory(int64(len(j.Body) + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, told.appendTo(c.Room(size)))
}

type sizeForm struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	Size      int64  `json:"size"`
}

// size counts what may be delivered now.
func (a *API) size(c *route.Call) error {
	s, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, sizeForm{c.Namespace, c.PathValue("queue"), s.Sizes.Ready})
}

// destroy removes what may be delivered now. What is delayed, leased or dead
// stays, and so does the queue: to end that while somebody publishes would lose
// the job.
func (a *API) destroy(c *route.Call) error {
	before, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	purged, err := a.engine.Purge(c.Context(), queue(c), duly.StateReady, 0)
	if err != nil {
		return err
	}
	// A purge takes the set as it stands; what has become due since the last
	// step is not in it yet.
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
