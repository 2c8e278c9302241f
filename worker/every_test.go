package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// queueChooser is an engine that chooses the queues itself.
type queueChooser struct {
	duly.Engine
	queues []string
	asked  [][]string // names of the queues of each call
}

func (c *queueChooser) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	c.asked = append(c.asked, p.Queues)
	p.Queues = c.queues
	return c.Engine.Reserve(ctx, p)
}

func (c *queueChooser) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	c.asked = append(c.asked, p.Queues)
	p.Queues = c.queues
	return c.Engine.Wait(ctx, p)
}

func TestHandleEveryLetsTheEngineChooseQueues(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 1}, func(t *testing.T, r *rig) {
		c := &queueChooser{Engine: r.recorder, queues: []string{"q", "other"}}
		r.Worker = worker.New(c, worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
		var seen []string
		r.HandleEvery(func(_ context.Context, d *worker.Delivery) error {
			seen = append(seen, d.Queue)
			return nil
		})
		r.push(2, duly.Job{ID: "a"})
		r.push(1, duly.Job{ID: "b", Queue: "other"})
		r.start()
		synctest.Wait()
		r.stop()

		slices.Sort(seen)
		if !slices.Equal(seen, []string{"other", "q", "q"}) {
			t.Errorf("jobs of %v were handled", seen)
		}
		r.want("ack", "ack", "ack")
		for _, names := range c.asked {
			if len(names) > 0 {
				t.Errorf("the worker names the queues %v, want none", names)
			}
		}
	})
}

func TestHandleEveryTakesNoOtherHandler(t *testing.T) {
	t.Parallel()
	h := func(context.Context, *worker.Delivery) error { return nil }
	for name, add := range map[string]func(*worker.Worker){
		"before": func(w *worker.Worker) { w.HandleEvery(h); w.Handle("q", h) },
		"after":  func(w *worker.Worker) { w.Handle("q", h); w.HandleEvery(h) },
		"twice":  func(w *worker.Worker) { w.HandleEvery(h); w.HandleEvery(h) },
	} {
		w := worker.New(newMemoryEngine(), worker.Config{})
		add(w)
		err := w.Run(t.Context())
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "HandleEvery takes all jobs") {
			t.Errorf("%s: Run returns %v", name, err)
		}
	}
}

// secretError is an error whose text must not be in the log.
type secretError struct{}

func (secretError) Error() string        { return "long text with secrets" }
func (secretError) LogValue() slog.Value { return slog.StringValue("short") }

func TestLogShowsTheLogValueOfAFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"Nack":       {secretError{}, "short"},
		"RetryAfter": {worker.RetryAfter(0, secretError{}), "short"},
		"Bury":       {worker.Bury(secretError{}), "short"},
		"Plain":      {worker.Bury(errors.New("plain")), "plain"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
				r.Handle("q", func(context.Context, *worker.Delivery) error { return tt.err })
				r.push(1, duly.Job{})
				r.start()
				r.stop()

				if log := r.log.String(); !strings.Contains(log, "error="+tt.want) || strings.Contains(log, "secrets") {
					t.Errorf("the log is %s", log)
				}
			})
		})
	}
}
