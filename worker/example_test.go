package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

// A worker that handles one mail and then drains.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, _ := os.MkdirTemp("", "duly")
	defer os.RemoveAll(dir)
	engine, err := open.Engine(ctx, "sqlite:"+filepath.Join(dir, "jobs.db"))
	if err != nil {
		panic(err)
	}
	defer engine.Close()

	type Mail struct{ To string }
	client := duly.NewClient(engine, duly.ClientConfig{})
	client.PushJSON(ctx, "mail", Mail{To: "ann@example.org"})

	w := worker.New(engine, worker.Config{Concurrency: 64, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("mail", worker.JSON(func(ctx context.Context, job *worker.Job[Mail]) error {
		defer stop() // this program has only one mail to send
		fmt.Println("to", job.Value.To, "attempt", job.Attempt)
		return nil // done; an error would try again after the job's backoff
	}))
	if err := w.Run(ctx); err != nil { // until ctx ends; then drains
		panic(err)
	}
	// Output: to ann@example.org attempt 1
}

// Jobs are handled up to 100 at a time, each settled by an error of its own.
func ExampleWorker_HandleBatch() {
	ctx, stop := context.WithCancel(context.Background())
	dir, _ := os.MkdirTemp("", "duly")
	defer os.RemoveAll(dir)
	engine, err := open.Engine(ctx, "sqlite:"+filepath.Join(dir, "jobs.db"))
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	client := duly.NewClient(engine, duly.ClientConfig{})
	for _, body := range []string{"1", "2", "three"} {
		client.Push(ctx, "numbers", []byte(body))
	}

	w := worker.New(engine, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	w.HandleBatch("numbers", 100, 0, func(deliveries []*worker.Delivery) []error {
		defer stop() // this program has only one batch to handle
		sum, errs := 0, make([]error, len(deliveries))
		for i, d := range deliveries {
			n, err := strconv.Atoi(string(d.Body))
			if err != nil {
				errs[i] = worker.Bury(err) // no other try would end differently
			}
			sum += n
		}
		fmt.Println(len(deliveries), "jobs, sum", sum)
		return errs
	})
	if err := w.Run(ctx); err != nil {
		panic(err)
	}
	// Output: 3 jobs, sum 3
}
