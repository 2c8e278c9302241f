package lmstfy

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// maxCount is the maximum number of jobs in one consume.
const maxCount = 100

// consume answers with one job for a count of 1, and with an array for any other count.
func (a *API) consume(c *route.Call) error {
	params, err := a.readConsume(c)
	if err != nil {
		return err
	}
	deliveries, err := a.poll.Reserve(c, params)
	// No job was leased. A client that closed only its half of the connection gets a 404.
	if c.Gone() && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		return err
	}

	if len(deliveries) == 0 {
		c.Refund() // refunds before the answer, because the next call may follow the answer at once
		return nothing(c)
	}

	jobs := make([]job, len(deliveries))
	for i := range deliveries {
		jobs[i] = deliveredJob(&deliveries[i])
		// Stores before the answer, because the ack may follow the answer at once.
		a.receipts.put(&deliveries[i])
	}

	// lmstfy answers with an object for one job, and with an array for a count.
	single := params.Max == 1
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

// readConsume reads the parameters of a consume. A consume that waits returns one job, whatever its
// count is.
func (a *API) readConsume(c *route.Call) (none poll.Params, err error) {
	p := query(c)
	ttr, err := p.number("ttr", 32, inSeconds(a.defaults.TTR))
	if err != nil {
		return none, err
	}
	timeout, err := p.number("timeout", 32, inSeconds(a.defaults.Timeout))
	if err != nil {
		return none, err
	}
	count, err := p.number("count", 64, 1)
	if err != nil || count < 1 || count > maxCount {
		return none, badRequest("invalid count")
	}

	queues, err := readQueues(c.PathValue("queue"))
	return poll.Params{
		ReserveParams: duly.ReserveParams{
			Namespace: c.Namespace, Queues: queues, Max: int(count), Lease: lease(ttr),
		},
		Wait: seconds(timeout), WaitMax: 1,
	}, err
}

func deliveredJob(d *duly.Delivery) job {
	return job{
		attributes: d.Headers, data: d.Body, id: d.ID, msg: "new job", namespace: d.Namespace, queue: d.Queue,
		elapsedMS: elapsed(d.ID, d.PushedAt, d.Now), ttl: remaining(d.ExpiresAt, d.Now),
		remainTries: max(0, d.Tries-d.Attempt),
	}
}
