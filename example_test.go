package duly_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

var silent = worker.Config{Logger: slog.New(slog.DiscardHandler)}

// show prints the waiting jobs of a queue.
func show(e *dulytest.Engine, queue string) {
	for _, job := range e.Waiting(queue) {
		fmt.Println(job.ID, job.State, string(job.Body))
	}
}

// A job is pushed now and delivered in an hour, at its millisecond.
func ExampleClient_Push() {
	ctx := context.Background()
	e := dulytest.New(nil) // in a program: engine, err := open.Engine(ctx, url)
	defer e.Close()
	client := duly.NewClient(e, duly.ClientConfig{})

	result, err := client.Push(ctx, "mail", []byte("hello"), duly.ID("mail-17"), duly.Delay(time.Hour))
	fmt.Println(result.ID, result.Status, err)

	// The job has an ID, so a second push creates no second job.
	result, err = client.Push(ctx, "mail", []byte("hello"), duly.ID("mail-17"), duly.Delay(time.Hour))
	fmt.Println(result.ID, result.Status, err)
	show(e, "mail")

	// Output:
	// mail-17 created <nil>
	// mail-17 exists <nil>
	// mail-17 delayed hello
}

// Many jobs are sent in one call, and each has a separate result.
func ExampleClient_PushMany() {
	e := dulytest.New(nil)
	defer e.Close()

	results, err := e.Client().PushMany(context.Background(), []duly.Job{
		{ID: "a", Queue: "mail", Body: []byte("hello")},
		{ID: "b", Queue: "mail", Priority: 5000},
	})
	fmt.Println(err)
	for _, r := range results {
		fmt.Println(r.ID, r.Status, r.Err)
	}

	// Output:
	// <nil>
	// a created <nil>
	// b none invalid: priority is 5000, must be between -1000 and 1000
}

// A job is canceled by its ID, in any state.
func ExampleClient_Cancel() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	client := e.Client()
	client.Push(ctx, "close-order", []byte("17"), duly.ID("close-17"), duly.Delay(30*time.Minute))

	fmt.Println(client.Cancel(ctx, "close-order", "close-17"))
	fmt.Println(client.Cancel(ctx, "close-order", "close-17"))

	// Output:
	// <nil>
	// not_found: no job "close-17" in queue default/close-order
}

// A retry policy says how long a job waits after each failure.
func ExampleRetry() {
	e := dulytest.New(nil)
	defer e.Close()
	client := e.Client()
	for _, policy := range []duly.Backoff{
		duly.Fixed(5 * time.Second),
		duly.Exponential(time.Second, time.Hour),
		duly.Staircase(15*time.Second, 3*time.Minute, 10*time.Minute),
	} {
		client.Push(context.Background(), "calls", nil, duly.Retry(policy), duly.Tries(10))
	}

	for _, job := range e.Waiting("calls") {
		fmt.Println(job.Backoff)
	}

	// Output:
	// fixed:5s
	// exp:1s:1h
	// 15s,3m,10m
}

// Equal pushes become one job while it waits. With a delay, Replace works as a debounce: the last
// body counts, and the job runs at most a minute after the first push.
func ExampleReplace() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	client := e.Client()

	for _, text := range []string{"h", "he", "hello"} {
		r, _ := client.Push(ctx, "index", []byte(text), duly.Replace("page-17", time.Minute), duly.Delay(10*time.Second))
		fmt.Println(r.Status)
		e.Advance(time.Second)
	}
	job := e.Only("index")
	fmt.Printf("%s, due at %s\n", job.Body, job.Due.Format(time.TimeOnly))

	// Output:
	// created
	// merged
	// merged
	// hello, due at 00:00:12
}

// Once merges while the job waits and while it runs: at most one job with the key exists.
func ExampleOnce() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	client := e.Client()

	client.Push(ctx, "report", nil, duly.Once("daily"))
	e.Drain("report", func(ctx context.Context, _ *worker.Delivery) error {
		r, err := client.Push(ctx, "report", nil, duly.Once("daily"))
		fmt.Println("while it runs:", r.Status)
		return err
	})
	r, _ := client.Push(ctx, "report", nil, duly.Once("daily"))
	fmt.Println("afterwards:", r.Status)

	// Output:
	// while it runs: merged
	// afterwards: created
}

// The jobs of one order key run one at a time, in the order of their pushes.
func ExampleOrderKey() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	client := e.Client()
	for i, account := range []string{"ann", "ann", "bob"} {
		client.Push(ctx, "bookings", []byte(account), duly.ID(fmt.Sprint(i)), duly.OrderKey(account))
	}
	show(e, "bookings")

	e.Drain("bookings", func(context.Context, *worker.Delivery) error { return nil })
	e.None("bookings")

	// Output:
	// 0 ready ann
	// 2 ready bob
	// 1 blocked ann
}

// Retain keeps a finished job with its result.
func ExampleRetain() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(ctx, "sums", []byte("3"), duly.ID("sum-1"), duly.Retain(24*time.Hour))

	e.Drain("sums", func(_ context.Context, d *worker.Delivery) error {
		return d.SetResult(append(d.Body, " = 1 + 2"...))
	})
	job, err := e.Get(ctx, duly.Q("sums"), "sum-1")
	fmt.Println(job.State, string(job.Result), err)

	// Output:
	// done 3 = 1 + 2 <nil>
}

// A topic is a log. Each of its groups gets every message.
func ExampleClient_Publish() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	for _, group := range []string{"orders@mail", "orders@stock"} {
		e.CreateGroup(ctx, duly.Q(group), duly.FromStart)
	}
	e.Client().Publish(ctx, duly.Message{Topic: "orders", Key: "customer-1", Body: []byte("order 17")})

	w := worker.New(e, silent)
	for _, group := range []string{"orders@mail", "orders@stock"} {
		w.Handle(group, func(_ context.Context, d *worker.Delivery) error {
			fmt.Println(d.Queue, string(d.Body))
			return nil
		})
	}
	e.Start(w)

	// Unordered output:
	// orders@mail order 17
	// orders@stock order 17
}

// Every error has a code, which is the same for every engine.
func ExampleCodeOf() {
	e := dulytest.New(nil)
	defer e.Close()
	_, err := e.Client().Push(context.Background(), "no spaces", nil)
	fmt.Println(duly.CodeOf(err))

	// Output:
	// invalid
}
