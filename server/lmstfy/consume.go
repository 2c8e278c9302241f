package lmstfy

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// maxCount is how many jobs one consume may take.
const maxCount = 100

// consume answers one job for a count of one, and an array for any other.
func (a *API) consume(c *route.Call) error {
	ask, err := a.readAsk(c)
	if err != nil {
		return err
	}
	deliveries, err := a.poll.Reserve(c, ask)
	if c.Gone() && errors.Is(err, context.Canceled) {
		err = nil // no job was taken: a client that closed only its own half reads 404
	}
	if err != nil {
		return err
	}

	if len(deliveries) == 0 {
		c.Refund() // before the answer: the next call may follow it at once
		return nothing(c)
	}
	jobs := make([]job, len(deliveries))
	for i := range deliveries {
		jobs[i] = tell(&deliveries[i])
		a.receipts.put(&deliveries[i]) // before the answer: the ack may follow it at once
	}
	single := ask.Max == 1
	err = a.poll.Deliver(c, deliveries, sizeOf(jobs), func(out []byte) []byte {
		if single {
			return jobs[0].appendTo(out)
		}
		return appendJobs(out, jobs)
	})
	if err == nil {
		a.metrics.consumedJobs(jobs)
	}
	return err
}

// readAsk reads a consume. A batch that has waited takes one job.
func (a *API) readAsk(c *route.Call) (ask poll.Params, err error) {
	p := query(c)
	ttr, err := p.number("ttr", 32, inSeconds(a.defaults.TTR))
	if err != nil {
		return ask, err
	}
	timeout, err := p.number("timeout", 32, inSeconds(a.defaults.Timeout))
	if err != nil {
		return ask, err
	}
	count, err := p.number("count", 64, 1)
	if err != nil || count < 1 || count > maxCount {
		return ask, badRequest("invalid count")
	}
	queues, err := readQueues(c.PathValue("queue"))
	return poll.Params{
		ReserveParams: duly.ReserveParams{Namespace: c.Namespace, Queues: queues, Max: int(count), Lease: lease(ttr)},
		Wait:          seconds(timeout), WaitMax: 1,
	}, err
}

func tell(d *duly.Delivery) job {
	return job{
		attributes: d.Headers, data: d.Body, elapsedMS: elapsed(d.ID, d.PushedAt, d.Now), id: d.ID, msg: "new job",
		namespace: d.Namespace, queue: d.Queue, remainTries: max(0, d.Tries-d.Attempt), ttl: remaining(d.ExpiresAt, d.Now),
	}
}
