package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
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
	if err := w.Run(ctx); err != nil { // runs until ctx ends, and then drains
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
				errs[i] = worker.Bury(err) // a retry would end in the same way
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

var silent = worker.Config{Logger: slog.New(slog.DiscardHandler)}

// JSON makes a handler that gets the body decoded.
func ExampleJSON() {
	type Mail struct{ To, Text string }
	e := dulytest.New(nil) // in a program: engine, err := open.Engine(ctx, url)
	defer e.Close()
	e.Client().PushJSON(context.Background(), "mail", Mail{To: "ann@example.org", Text: "hello"})

	w := worker.New(e, silent)
	w.Handle("mail", worker.JSON(func(_ context.Context, job *worker.Job[Mail]) error {
		fmt.Println("to", job.Value.To+":", job.Value.Text)
		return nil
	}))
	e.Start(w) // in a program: err := w.Run(ctx)

	// Output:
	// to ann@example.org: hello
}

// resizeImage and deleteImage are the kinds of one queue.
type (
	resizeImage struct {
		File  string
		Width int
	}
	deleteImage struct{ File string }
)

func (resizeImage) Kind() string { return "resize" }
func (deleteImage) Kind() string { return "delete" }

// A queue carries two kinds of jobs. The type of a pushed value chooses its handler.
func ExampleHandleKind() {
	ctx := context.Background()
	e := dulytest.New(nil) // in a program: engine, err := open.Engine(ctx, url)
	defer e.Close()
	client := e.Client()
	duly.PushKind(ctx, client, "images", resizeImage{File: "17.png", Width: 80})
	duly.PushKind(ctx, client, "images", deleteImage{File: "16.png"})

	w := worker.New(e, worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	worker.HandleKind(w, "images", func(_ context.Context, job *worker.Job[resizeImage]) error {
		fmt.Println("resize", job.Value.File, "to", job.Value.Width)
		return nil
	})
	worker.HandleKind(w, "images", func(_ context.Context, job *worker.Job[deleteImage]) error {
		fmt.Println("delete", job.Value.File)
		return nil
	})
	e.Start(w) // in a program: err := w.Run(ctx)

	// Output:
	// resize 17.png to 80
	// delete 16.png
}

// Middleware wraps every handler. The first middleware is the outermost one.
func ExampleWorker_Use() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "mail", []byte("hello"))

	w := worker.New(e, silent)
	w.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, d *worker.Delivery) error {
			fmt.Println("begin", d.Queue)
			err := next(ctx, d)
			fmt.Println("end:", err)
			return err
		}
	})
	w.Handle("mail", func(_ context.Context, d *worker.Delivery) error {
		fmt.Println(string(d.Body))
		return nil
	})
	e.Start(w)

	// Output:
	// begin mail
	// hello
	// end: <nil>
}

// A handler that runs for too long is canceled, which is a failed try.
func ExampleTimeout() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "calls", nil, duly.Tries(1))

	w := worker.New(e, silent)
	w.Handle("calls", func(ctx context.Context, _ *worker.Delivery) error {
		<-ctx.Done() // a call that never returns would block like this
		return ctx.Err()
	}, worker.Timeout(10*time.Millisecond))
	e.Start(w)
	for _, job := range e.Dead("calls") {
		fmt.Println(job.LastError)
	}

	// Output:
	// worker: the handler's timeout has passed: context deadline exceeded
}

// Bury makes a job dead at once, if no further try can succeed. Requeue makes dead jobs ready
// again.
func ExampleBury() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(ctx, "mail", []byte("nobody@example.org"), duly.ID("mail-17"))

	e.Drain("mail", func(context.Context, *worker.Delivery) error {
		return worker.Bury(errors.New("no such address"))
	})
	for _, job := range e.Dead("mail") {
		fmt.Println(job.ID, job.State, job.LastError)
	}

	results, err := e.Requeue(ctx, duly.Q("mail"), duly.RequeueParams{IDs: []string{"mail-17"}})
	fmt.Println(results[0].ID, results[0].State, err)

	// Output:
	// mail-17 dead no such address
	// mail-17 ready <nil>
}

// RetryAfter is a failed try that is repeated after a delay that the handler chooses.
func ExampleRetryAfter() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "calls", nil)

	call := func(_ context.Context, d *worker.Delivery) error {
		fmt.Println(d.Now.Format(time.TimeOnly), "try", d.Attempt)
		if d.Attempt == 1 {
			return worker.RetryAfter(time.Minute, errors.New("429 Too Many Requests"))
		}
		return nil
	}
	e.Drain("calls", call)
	e.Advance(time.Minute)
	e.Drain("calls", call)

	// Output:
	// 00:00:00 try 1
	// 00:01:00 try 2
}

// AIMD uses few slots at first, and more as long as the service keeps up.
func ExampleAIMD() {
	e := dulytest.New(nil)
	defer e.Close()
	for range 8 {
		e.Client().Push(context.Background(), "mail", []byte("hello"))
	}

	limit := worker.AIMD(1, 64)
	w := worker.New(e, worker.Config{Concurrency: 64, Limiter: limit, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("mail", func(context.Context, *worker.Delivery) error {
		return nil // worker.Overloaded lowers the limit
	})
	fmt.Println("begins with", limit.Limit(), "slot")
	e.Start(w)
	fmt.Println("uses more after acks:", limit.Limit() > 1)

	// Output:
	// begins with 1 slot
	// uses more after acks: true
}

// Snooze puts a job off without using a try.
func ExampleSnooze() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "invoices", nil, duly.Tries(1))

	opens := e.Clock.Now().Add(8 * time.Hour)
	send := func(_ context.Context, d *worker.Delivery) error {
		if wait := opens.Sub(d.Now); wait > 0 {
			return worker.Snooze(wait)
		}
		fmt.Println("sent at", d.Now.Format(time.TimeOnly), "on try", d.Attempt)
		return nil
	}
	e.Drain("invoices", send)
	e.Advance(8 * time.Hour)
	e.Drain("invoices", send)

	// Output:
	// sent at 08:00:00 on try 1
}

// SetResult stores a result with a job that is retained.
func ExampleDelivery_SetResult() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(ctx, "thumbnails", []byte("17.png"), duly.ID("17"), duly.Retain(time.Hour))

	w := worker.New(e, silent)
	w.Handle("thumbnails", func(_ context.Context, d *worker.Delivery) error {
		return d.SetResult([]byte("small/" + string(d.Body)))
	})
	e.Start(w)
	job, err := e.Get(ctx, duly.Q("thumbnails"), "17")
	fmt.Println(job.State, string(job.Result), err)

	// Output:
	// done small/17.png <nil>
}

// Run ends when its context does, as by signal.NotifyContext in a program. The handler
// that runs may finish, and its job is settled.
func ExampleWorker_Run() {
	ctx, stop := context.WithCancel(context.Background())
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(ctx, "mail", []byte("hello"))

	w := worker.New(e, worker.Config{Drain: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("mail", func(ctx context.Context, d *worker.Delivery) error {
		stop() // a SIGTERM arrives
		fmt.Println(string(d.Body), "is sent,", ctx.Err())
		return nil
	})
	fmt.Println("run ended:", w.Run(ctx))
	e.None("mail")

	// Output:
	// hello is sent, <nil>
	// run ended: <nil>
}
