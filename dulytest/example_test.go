package dulytest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// An order is closed when it has not been paid after half an hour, and its
// buyer is reminded ten minutes before. The program is examples/ordertimeout.
func Example_orderTimeout() {
	ctx := context.Background()
	e := dulytest.New(nil) // in a test: dulytest.New(t)
	defer e.Close()
	jobs := e.Client()
	say := func(what, order string) { fmt.Println(e.Clock.Now().Format("15:04"), what, order) }

	// The IDs contain the order's ID. So a payment finds the jobs, and placing an order twice
	// creates each job only once.
	place := func(order string) {
		jobs.Push(ctx, "remind", []byte(order), duly.ID("remind-"+order), duly.Delay(20*time.Minute))
		jobs.Push(ctx, "close", []byte(order), duly.ID("close-"+order), duly.Delay(30*time.Minute))
		say("placed", order)
	}
	pay := func(order string) {
		say("paid", order)
		for _, queue := range []string{"remind", "close"} {
			if err := jobs.Cancel(ctx, queue, queue+"-"+order); errors.Is(err, duly.ErrNotFound) {
				say("too late to cancel:", queue+" "+order)
			}
		}
	}

	w := worker.New(e, worker.Config{Logger: quiet})
	w.Handle("remind", func(_ context.Context, d *worker.Delivery) error {
		say("reminded", string(d.Body))
		return nil
	})
	w.Handle("close", func(_ context.Context, d *worker.Delivery) error {
		say("closed", string(d.Body))
		return nil
	})
	e.Start(w)

	for _, order := range []string{"A", "B", "C"} {
		place(order)
		e.Advance(time.Minute)
	}
	pay("A")
	e.Advance(22 * time.Minute)
	pay("B")
	e.Advance(time.Hour)

	// Output:
	// 00:00 placed A
	// 00:01 placed B
	// 00:02 placed C
	// 00:03 paid A
	// 00:21 reminded B
	// 00:22 reminded C
	// 00:25 paid B
	// 00:25 too late to cancel: remind B
	// 00:32 closed C
}

// A notification is repeated on a staircase of delays until its receiver has
// taken it. The program is examples/notify.
func Example_staircase() {
	e := dulytest.New(nil)
	defer e.Close()
	staircase := duly.Staircase(15*time.Second, 3*time.Minute, 10*time.Minute, 30*time.Minute, 30*time.Minute,
		time.Hour, 2*time.Hour, 6*time.Hour, 15*time.Hour)

	start := e.Clock.Now()
	w := worker.New(e, worker.Config{Logger: quiet})
	w.Handle("notify", func(_ context.Context, d *worker.Delivery) error {
		fmt.Printf("try %d after %s\n", d.Attempt, duly.FormatDuration(e.Clock.Now().Sub(start)))
		if d.Attempt < 8 {
			return errors.New("503 Service Unavailable")
		}
		return nil
	})
	e.Start(w)

	e.Client().Push(context.Background(), "notify", []byte(`{"paid":17}`), duly.Retry(staircase), duly.Tries(10))
	e.Advance(7 * 24 * time.Hour)

	// Output:
	// try 1 after 0s
	// try 2 after 15s
	// try 3 after 3m15s
	// try 4 after 13m15s
	// try 5 after 43m15s
	// try 6 after 1h13m15s
	// try 7 after 2h13m15s
	// try 8 after 4h13m15s
}

// A report runs every night at 2:30 in New York, also in the night in which the clocks go
// forward. One night fails and is repeated. The program is examples/nightly.
func Example_nightly() {
	ctx := context.Background()
	e := dulytest.New(nil)
	defer e.Close()
	newYork, _ := time.LoadLocation("America/New_York")
	e.Advance(time.Date(2030, time.March, 8, 12, 0, 0, 0, newYork).Sub(e.Clock.Now()))

	w := worker.New(e, worker.Config{Logger: quiet})
	w.Handle("reports", func(_ context.Context, d *worker.Delivery) error {
		from, to := d.Headers[duly.HeaderPrevious], d.Headers[duly.HeaderTick]
		fmt.Printf("%s try %d: from %q to %q\n", e.Clock.Now().In(newYork).Format("Jan 2 15:04"), d.Attempt, from, to)
		if d.Attempt == 1 && e.Clock.Now().In(newYork).Day() == 11 {
			return errors.New("the database is down")
		}
		return nil
	})
	e.Start(w)

	// A deployment puts the schedule each time. A repeat changes nothing.
	nightly := duly.Schedule{
		Name: "nightly", Spec: "30 2 * * *", Zone: "America/New_York", Owner: "shop",
		Template: duly.Job{Body: []byte("sales"), Tries: 3, Backoff: duly.Fixed(10 * time.Minute)},
	}
	for range 2 {
		put, err := e.PutSchedule(ctx, duly.Q("reports"), nightly)
		fmt.Println(put.Status, put.Next.In(newYork).Format("Jan 2 15:04"), err)
	}
	e.Advance(3 * 24 * time.Hour)

	// Output:
	// created Mar 9 02:30 <nil>
	// unchanged Mar 9 02:30 <nil>
	// Mar 9 02:30 try 1: from "" to "2030-03-09T07:30:00.000Z"
	// Mar 10 03:00 try 1: from "2030-03-09T07:30:00.000Z" to "2030-03-10T07:00:00.000Z"
	// Mar 11 02:30 try 1: from "2030-03-10T07:00:00.000Z" to "2030-03-11T06:30:00.000Z"
	// Mar 11 02:40 try 2: from "2030-03-10T07:00:00.000Z" to "2030-03-11T06:30:00.000Z"
}

// Without a worker, a test checks which jobs were pushed, and handles them itself.
func ExampleEngine_Drain() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "mail", []byte("hello"), duly.Delay(24*time.Hour))

	handle := func(_ context.Context, d *worker.Delivery) error {
		fmt.Printf("%s, on try %d\n", d.Body, d.Attempt)
		return nil
	}
	fmt.Println("due at", e.Only("mail").Due.Format(time.DateOnly))
	fmt.Println(e.Drain("mail", handle), "today")
	e.Advance(24 * time.Hour)
	fmt.Println(e.Drain("mail", handle), "tomorrow")

	// Output:
	// due at 2030-01-02
	// 0 today
	// hello, on try 1
	// 1 tomorrow
}

// Time is virtual: a week passes at once, and the worker handles each job at its time.
func ExampleEngine_Advance() {
	e := dulytest.New(nil)
	defer e.Close()
	w := worker.New(e, worker.Config{Logger: quiet})
	w.Handle("remind", func(_ context.Context, d *worker.Delivery) error {
		fmt.Println(e.Clock.Now().Format(time.DateOnly), string(d.Body))
		return nil
	})
	e.Start(w)

	e.Client().Push(context.Background(), "remind", []byte("renew the certificate"), duly.Delay(7*24*time.Hour))
	e.Client().Push(context.Background(), "remind", []byte("water the plants"), duly.Delay(24*time.Hour))
	e.Advance(30 * 24 * time.Hour)

	// Output:
	// 2030-01-02 water the plants
	// 2030-01-08 renew the certificate
}

// Dead returns the dead letters, with the text of their last errors.
func ExampleEngine_Dead() {
	e := dulytest.New(nil)
	defer e.Close()
	e.Client().Push(context.Background(), "calls", []byte("https://example.org"), duly.Tries(2), duly.Retry(duly.Fixed(0)))

	e.Drain("calls", func(context.Context, *worker.Delivery) error { return errors.New("503 Service Unavailable") })
	for _, job := range e.Dead("calls") {
		fmt.Println(string(job.Body), job.Failures, job.LastError)
	}

	// Output:
	// https://example.org 2 503 Service Unavailable
}
