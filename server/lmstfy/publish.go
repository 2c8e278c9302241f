package lmstfy

import (
	"errors"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

func (a *API) publish(c *route.Call) error {
	id, err := a.publishOne(c)
	if err != nil {
		return err
	}
	return published(c, id)
}

// published answers with the ID of a new job. An ID needs no escapes.
func published(c *route.Call, id string) error {
	b := append(append(c.Out(), `{"job_id":"`...), id...)
	return c.Reply(http.StatusCreated, append(b, `","msg":"published"}`...))
}

// republish acks a job and publishes another one. It publishes first, so that a request that
// fails half-way loses nothing.
func (a *API) republish(c *route.Call) error {
	id, err := a.publishOne(c)
	if err != nil {
		return err
	}
	if err := a.ackOne(c); err != nil {
		return err
	}
	return published(c, id)
}

func (a *API) publishOne(c *route.Call) (id string, err error) {
	r, err := readRules(query(c), a.defaults)
	if err != nil {
		return "", err
	}
	body, err := c.BodyBytes()
	if err != nil {
		return "", badBody(err)
	}
	attributes, versioned, err := readAttributes(c.R.Header)
	if err != nil {
		return "", err
	}

	job := r.newJob(queue(c), body, attributes, versioned)
	return job.ID, a.store(c, []duly.Job{job})
}

// badBody converts the error of a body that could not be read.
func badBody(err error) error {
	switch {
	case errors.Is(err, duly.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "body too large")
	case errors.Is(err, duly.ErrInvalid): // the body came too slowly, or is incomplete
		return badRequest("failed to read body")
	}
	return err
}

// noBackoff is the backoff of lmstfy's jobs: no delay.
var noBackoff = duly.Fixed(0)

// newJob returns a job with lmstfy's rules: every lease that runs out is a failed try, and the
// next try is due at once.
func (r rules) newJob(q duly.QueueRef, body []byte, attributes map[string]string, versioned bool) duly.Job {
	return duly.Job{
		ID: newID(r.delay, versioned), Made: !versioned,
		Namespace: q.Namespace, Queue: q.Name, Body: body, Headers: attributes,
		Delay: seconds(r.delay), TTL: lifetime(r.ttl),
		Tries: int(r.tries), MaxStalls: duly.None, Backoff: noBackoff,
	}
}
