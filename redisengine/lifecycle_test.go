package redisengine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestLifeOnTheServersClock runs the whole life of a job by the server's clock. One process pushes
// the job. Another process waits for the job and reserves it, lets its lease end, reserves it again
// and acks it.
func TestLifeOnTheServersClock(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	producer, worker := open(t, withPrefix(server.URL(), prefix)), open(t, withPrefix(server.URL(), prefix))
	ctx := t.Context()
	// Otherwise the waiter would need up to two seconds to notice the queue.
	if err := producer.Configure(ctx, duly.Q("q"), duly.QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() {
		ready, err := worker.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
		if err == nil && !ready {
			err = context.DeadlineExceeded
		}
		woken <- err
	}()
	results, err := producer.Push(ctx, []duly.Job{{Queue: "q", Delay: 50 * time.Millisecond, Body: []byte("x")}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	for attempt := range 2 {
		// The first delivery stalls.
		if attempt > 0 {
			if ready, err := worker.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute}); err != nil ||
				!ready {
				t.Fatalf("the second Wait returned %t, %v", ready, err)
			}
		} else if err := <-woken; err != nil {
			t.Fatal(err)
		}
		ds, err := worker.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 10, Lease: duly.MinLease})
		if err != nil || len(ds) != 1 {
			t.Fatalf("Reserve returned %v, %v", ds, err)
		}
		d := ds[0]
		if d.Now.Before(d.Due) || d.Due.Sub(d.PushedAt) < 0 || d.Stalls != attempt || string(d.Body) != "x" {
			t.Fatalf("delivery %d: %+v", attempt, d)
		}
		if attempt == 0 {
			continue
		}
		if errs, err := worker.Settle(ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}}); err != nil ||
			errs[0] != nil {
			t.Fatal(err, errs)
		}
	}
	st, err := producer.Stats(ctx, duly.Q("q"))
	if want := (duly.Counters{Pushed: 1, Delivered: 2, Stalled: 1, Acked: 1}); err != nil || st.Counters != want ||
		st.Sizes != (duly.Sizes{}) {
		t.Errorf("the stats are %+v, %v", st, err)
	}
}

// TestUnknownQueuesAreReadTogether checks that a process which waits for queues that don't exist
// reads all of them in one request, and that the process notices when one of them is created.
func TestUnknownQueuesAreReadTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	waiting, producer := open(t, server.URL()), open(t, server.URL())
	queues := make([]string, 100)
	for i := range queues {
		queues[i] = fmt.Sprintf("q%d", i)
	}
	woken := make(chan error, 1)
	go func() {
		ready, err := waiting.Wait(t.Context(), duly.WaitParams{Queues: queues, Timeout: time.Minute})
		if err == nil && !ready {
			err = context.DeadlineExceeded
		}
		woken <- err
	}()
	calls := func(name string) (n int) {
		text := fmt.Sprint(server.Must("INFO", "commandstats"))
		if _, rest, ok := strings.Cut(text, "cmdstat_"+name+":calls="); ok {
			fmt.Sscanf(rest, "%d,", &n)
		}
		return n
	}
	redistest.Await(t, "it has looked", func() bool { return calls("hmget") > 0 })
	before := calls("hget") + calls("get")
	redistest.Await(t, "it has looked again", func() bool { return calls("hmget") > 1 })
	if n := calls("hget") + calls("get") - before; n > 0 {
		t.Errorf("a look at %d queues read %d of them one by one", len(queues), n)
	}
	_, err := producer.Push(t.Context(), []duly.Job{{Queue: "q77"}})
	must(t, err)
	must(t, <-woken)
}
