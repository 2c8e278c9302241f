// Command adaptivelimit works a queue of a duly server with the adaptive limiter of
// failsafe-go, which lowers the number of handlers while their latency rises. It is a module
// of its own, so duly itself needs no library for it.
//
//	go run . http://TOKEN@127.0.0.1:7777/default calls http://127.0.0.1:8080/
//
// It posts the body of each job in the queue calls to the last URL.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/worker"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: adaptivelimit ENGINE-URL QUEUE SERVICE-URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "adaptivelimit:", err)
		os.Exit(1)
	}
}

// run works the queue until ctx ends.
func run(ctx context.Context, url, queue, service string) error {
	engine, err := httpengine.Open(ctx, httpengine.Config{URL: url})
	if err != nil {
		return err
	}
	defer engine.Close()
	return newWorker(engine, queue, post(service)).Run(ctx)
}

// maxHandlers bounds the handlers that run at once, whatever the limiter says.
const maxHandlers = 64

// newWorker returns a worker of the queue with the limiter.
func newWorker(engine duly.Engine, queue string, h worker.HandlerFunc) *worker.Worker {
	l := newLimiter(4, maxHandlers)
	w := worker.New(engine, worker.Config{
		Concurrency: maxHandlers, Limiter: l,
		Observer: worker.Observer{Limit: func(slots int) { slog.Info("limit changed", "slots", slots) }},
	})
	w.Handle(queue, h, worker.With(l.middleware))
	return w
}

// post returns a handler that posts the body of a job.
func post(service string) worker.HandlerFunc {
	return func(ctx context.Context, d *worker.Delivery) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service, bytes.NewReader(d.Body))
		if err != nil {
			return worker.Bury(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("the service answers %s", resp.Status)
		}
		return nil
	}
}
