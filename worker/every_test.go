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

// chooser is an engine that chooses the queues itself.
type chooser struct {
	duly.Engine
	queues []string
	asked  [][]string // the queues that the worker has named
}

func (c *chooser) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	c.asked = append(c.asked, p.Queues)
	p.Queues = c.queues
	return c.Engine.Reserve(ctx, p)
}

func (c *chooser) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	c.asked = append(c.asked, p.Queues)
	p.Queues = c.queues
	return c.Engine.Wait(ctx, p)
}

func TestHandleEveryTakesWhateverTheEngineChooses(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 1}, func(t *testing.T, r *rig) {
		c := &chooser{Engine: r.tap, queues: []string{"q", "other"}}
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
				t.Errorf("the worker names %v; the engine chooses", names)
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
		w := worker.New(newLineEngine(), worker.Config{})
		add(w)
		err := w.Run(t.Context())
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "HandleEvery takes all jobs") {
			t.Errorf("%s: Run returns %v", name, err)
		}
	}
}

// brief is an error with more text than the log shows.
type brief struct{}

func (brief) Error() string        { return "long text with secrets" }
func (brief) LogValue() slog.Value { return slog.StringValue("short") }

func TestTheLogShowsAFailureByItsLogValue(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"Nack":       {brief{}, "short"},
		"RetryAfter": {worker.RetryAfter(0, brief{}), "short"},
		"Bury":       {worker.Bury(brief{}), "short"},
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
