package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// prefix begins the name of every queue.
const prefix = "bench-ui-"

// pushAll pushes n jobs in full batches. job returns the i-th one.
func pushAll(ctx context.Context, e contract.Engine, n int, job func(i int) duly.Job) error {
	for at := 0; at < n; at += duly.MaxBatch {
		jobs := make([]duly.Job, min(duly.MaxBatch, n-at))
		for i := range jobs {
			jobs[i] = job(at + i)
			jobs[i].ID, jobs[i].Made = duly.MakeID(&jobs[i]), true
		}
		results, err := e.Push(ctx, jobs)
		if err != nil {
			return err
		}
		for i := range results {
			if results[i].Err != nil {
				return results[i].Err
			}
		}
	}
	return nil
}

// queues makes sure that there are n queues with a job each, some delayed.
func queues(ctx context.Context, o *options, n int) error {
	return pushAll(ctx, o.engine, n, func(i int) duly.Job {
		j := duly.Job{
			Namespace: o.namespace, Queue: fmt.Sprintf("%s%05d", prefix, i), Body: []byte(`{"order":17}`),
			Headers: map[string]string{"trace": "4bf92f3577b34da6a3ce929d0e0e4736"},
		}
		if i%3 == 0 {
			j.Delay = time.Hour
		}
		return j
	})
}

// errorOf returns one of 40 errors. The numbers, the address and the quoted name vary from job to job.
func errorOf(i int) string {
	return fmt.Sprintf("step %c%c: dial tcp 10.0.%d.%d:443: connect: order %q is refused after %d ms", 'a'+i%40/10, 'a'+i%10,
		i%7, i%251, fmt.Sprint("o-", i), i%5000)
}

// die fills a queue with n dead jobs.
func die(ctx context.Context, o *options, queue string, n int) error {
	for done := 0; done < n; {
		some := min(duly.MaxBatch, n-done)
		err := pushAll(ctx, o.engine, some, func(int) duly.Job {
			return duly.Job{Namespace: o.namespace, Queue: queue, Body: []byte(`{"order":17}`)}
		})
		if err != nil {
			return err
		}

		got, err := o.engine.Reserve(ctx, duly.ReserveParams{Namespace: o.namespace, Queues: []string{queue}, Max: some})
		if err != nil {
			return err
		}
		requests := make([]duly.SettleRequest, len(got))
		for i := range got {
			requests[i] = duly.SettleRequest{Receipt: got[i].Receipt, As: duly.Bury, Error: errorOf(done + i)}
		}
		errs, err := o.engine.Settle(ctx, o.namespace, requests)
		if err != nil {
			return err
		}
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		done += len(got)
	}
	return nil
}
