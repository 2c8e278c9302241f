package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

func TestHandlerErrorSettlesTheJob(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name, want string
		handler    worker.HandlerFunc
	}{
		{"NilAcks", "ack", func(context.Context, *worker.Delivery) error { return nil }},
		{"ErrorNacks", "nack: boom", func(context.Context, *worker.Delivery) error { return boom }},
		{"RetryAfter", "nack 1m0s: boom", func(context.Context, *worker.Delivery) error {
			return worker.RetryAfter(time.Minute, boom)
		}},
		{"Bury", "bury: boom", func(context.Context, *worker.Delivery) error { return worker.Bury(boom) }},
		{"Snooze", "release 1h0m0s", func(context.Context, *worker.Delivery) error { return worker.Snooze(time.Hour) }},
		{"Release", "release", func(context.Context, *worker.Delivery) error { return worker.Release() }},
		{"Result", "ack = 42", func(_ context.Context, d *worker.Delivery) error { return d.SetResultJSON(42) }},
		{"NoResultWithAFailure", "nack: boom", func(_ context.Context, d *worker.Delivery) error {
			d.SetResult([]byte("half"))
			return boom
		}},
		{
			"Goexit", "nack: worker: the handler has called runtime.Goexit",
			func(context.Context, *worker.Delivery) error {
				runtime.Goexit()
				return nil
			},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
				r.Handle("q", tt.handler)
				r.push(1, duly.Job{})
				r.start()
				r.stop()
				r.want(tt.want)
			})
		})
	}
}

func TestSetResultRefusesALongResult(t *testing.T) {
	t.Parallel()
	var d worker.Delivery
	if err := d.SetResult(make([]byte, duly.MaxResult)); err != nil {
		t.Error(err)
	}
	if err := d.SetResult(make([]byte, duly.MaxResult+1)); !errors.Is(err, duly.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := d.SetResultJSON(func() {}); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// nilError is an error whose method panics on a nil pointer.
type nilError struct{ text string }

func (p *nilError) Error() string { return p.text }

// Fault P5: a panic of a handler is a failed try of its job, and other jobs are handled.
func TestPanicIsANackWithItsStack(t *testing.T) {
	var seen []any
	o := worker.Observer{Panicked: func(_ *worker.Delivery, value any, _ []byte) { seen = append(seen, value) }}
	bubble(t, worker.Config{Concurrency: 1, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			switch d.ID {
			case "a1":
				panic("kaboom")
			case "b1":
				var err *nilError
				return err
			}
			return nil
		})

		r.push(1, duly.Job{ID: "a"})
		r.push(1, duly.Job{ID: "b"})
		r.push(3, duly.Job{ID: "c"})
		r.start()
		r.stop()

		got := r.outcomes()
		if len(got) != 5 || len(seen) != 2 {
			t.Fatalf("settled %q, panics %v", got, seen)
		}
		for i, want := range []string{"nack: panic: kaboom\n\n", "nack: panic: runtime error", "ack", "ack", "ack"} {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("settled %q, want %q", got[i], want)
			}
		}
		if !strings.Contains(got[0], "handle_test.go") || len(got[0]) > duly.MaxErrorText+len("nack: ") {
			t.Errorf("the stack has %d bytes or lacks the handler: %s", len(got[0]), got[0])
		}
	})
}

func TestJSONBuriesABodyThatItCannotDecode(t *testing.T) {
	type mail struct{ To string }
	var to []string
	bubble(t, worker.Config{Concurrency: 1}, func(t *testing.T, r *rig) {
		r.Handle("q", worker.JSON(func(ctx context.Context, job *worker.Job[mail]) error {
			to = append(to, job.Value.To+" of "+job.ID)
			return nil
		}))
		for i, body := range []string{`{"To":"ann","New":1}`, `{"To":7}`, `{`, ``} {
			r.push(1, duly.Job{ID: string(rune('a' + i)), Body: []byte(body)})
		}

		r.start()
		r.stop()

		if len(to) != 1 || to[0] != "ann of a1" {
			t.Errorf("handled %q", to)
		}
		for i, got := range r.outcomes()[1:] {
			if !strings.HasPrefix(got, "bury: body is not the JSON") {
				t.Errorf("body %d: %s", i+1, got)
			}
		}
	})
}

func TestFirstMiddlewareIsTheOutermost(t *testing.T) {
	var order string
	note := func(name string) worker.Middleware {
		return func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, d *worker.Delivery) error {
				order += name
				defer func() { order += strings.ToUpper(name) }()
				return next(ctx, d)
			}
		}
	}
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Use(note("a"))
		h := func(context.Context, *worker.Delivery) error { order += "."; return nil }
		r.Handle("q", h, worker.With(note("c"), note("d")))
		r.Use(note("b"))
		r.push(1, duly.Job{})
		r.start()
		r.stop()

		if order != "abcd.DCBA" {
			t.Errorf("order is %s", order)
		}
	})
}

func TestPanicInMiddlewareIsANack(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Use(func(worker.HandlerFunc) worker.HandlerFunc {
			return func(context.Context, *worker.Delivery) error { panic("outside") }
		})
		r.Handle("q", sleeper(0))
		r.push(1, duly.Job{})
		r.start()
		r.stop()
		if got := r.outcomes(); len(got) != 1 || !strings.HasPrefix(got[0], "nack: panic: outside") {
			t.Errorf("settled %q", got)
		}
	})
}

func TestContextHasTheDelivery(t *testing.T) {
	type key struct{}
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", func(ctx context.Context, d *worker.Delivery) error {
			inner, cancel := context.WithCancel(context.WithValue(ctx, key{}, "mine"))
			defer cancel()
			got, ok := worker.FromContext(inner)
			if !ok || got != d || inner.Value(key{}) != "mine" || ctx.Value(key{}) != nil {
				return errors.New("the context has another delivery")
			}
			if _, bounded := ctx.Deadline(); bounded {
				return errors.New("the context has a deadline")
			}
			return nil
		})

		r.push(1, duly.Job{})
		r.start()
		r.stop()
		r.want("ack")
		if _, ok := worker.FromContext(t.Context()); ok {
			t.Error("a context without a handler has a delivery")
		}
	})
}

func TestContextHasTheValuesOfRun(t *testing.T) {
	type key struct{}
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		var got any
		r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error { got = ctx.Value(key{}); return nil })
		r.push(1, duly.Job{})
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		go func() { r.ended <- r.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-r.ended; err != nil || got != "value" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestTimeoutEndsTheContextAndIsANack(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		var err, inner, cause error
		var ran time.Duration
		r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
			begun := time.Now()
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			if at, ok := ctx.Deadline(); !ok || at.Sub(begun) != 5*time.Second {
				t.Errorf("deadline %v %v", at, ok)
			}
			<-child.Done()
			ran, err, inner, cause = time.Since(begun), ctx.Err(), child.Err(), context.Cause(child)
			return errors.New("too slow")
		}, worker.Timeout(5*time.Second))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		if ran != 5*time.Second || err != context.DeadlineExceeded || inner == nil || cause != worker.ErrTimeout {
			t.Errorf("ended after %v with %v, %v, cause %v", ran, err, inner, cause)
		}
		r.want("nack: " + worker.ErrTimeout.Error() + ": too slow")
	})
}

func TestFastHandlerIsNotTimedOut(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(4*time.Second), worker.Timeout(5*time.Second))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()
		r.want("ack")
	})
}

// A handler that ignores its timeout must not hold the job without end.
func TestLeaseIsNotExtendedAfterATimeout(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.Handle("q", func(context.Context, *worker.Delivery) error {
			<-release
			return nil
		}, worker.Timeout(time.Minute))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Minute)
		synctest.Wait()
		extended := r.recorder.count("extend")
		advance(time.Hour)
		if got := r.recorder.count("extend"); extended < 5 || got != extended {
			t.Errorf("extended %d times, then %d times more", extended, got-extended)
		}
		close(release)
		r.stop()
	})
}

func TestObserverSeesEveryJob(t *testing.T) {
	var reserved, started, done int
	var last worker.Finished
	o := worker.Observer{
		Reserved: func(n int, _ time.Duration) { reserved += n },
		Started:  func(_ *worker.Delivery, late time.Duration) { started++ },
		Finished: func(f worker.Finished) { last = f },
		Settled: func(_ *worker.Delivery, as duly.Settlement, err error) {
			if as == duly.Ack && err == nil {
				done++
			}
		},
	}
	bubble(t, worker.Config{Concurrency: 1, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(2*time.Second))
		r.push(3, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		if reserved != 3 || started != 3 || done != 3 {
			t.Errorf("reserved %d, started %d, settled %d", reserved, started, done)
		}
		if last.As != duly.Ack || last.Err != nil || last.Took != 2*time.Second || last.Late != 4*time.Second ||
			last.Delivery.ID != "3" {
			t.Errorf("the last job is reported as %+v", last)
		}
	})
}
