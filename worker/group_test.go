package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/worker"
)

// groupEngine is a model whose calls can fail. It records how its groups are created.
type groupEngine struct {
	*model.Engine
	mu      sync.Mutex
	fail    func(op string) error
	created []duly.From
	calls   int             // number of failed calls
	names   map[string]bool // names of the consumers
}

func (g *groupEngine) check(op string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail == nil {
		return nil
	}
	err := g.fail(op)
	if err != nil {
		g.calls++
	}
	return err
}

func (g *groupEngine) CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (bool, error) {
	if err := g.check("create"); err != nil {
		return false, err
	}
	existed, err := g.Engine.CreateGroup(ctx, group, from)
	if err == nil && !existed {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.created = append(g.created, from)
	}
	return existed, err
}

func (g *groupEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	g.mu.Lock()
	g.names[p.Consumer] = true
	g.mu.Unlock()
	if err := g.check("reserve"); err != nil {
		return nil, err
	}
	got, err := g.Engine.Reserve(ctx, p)
	g.failed(err)
	return got, err
}

func (g *groupEngine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := g.check("wait"); err != nil {
		return false, err
	}
	ready, err := g.Engine.Wait(ctx, p)
	g.failed(err)
	return ready, err
}

func (g *groupEngine) failed(err error) {
	if errors.Is(err, duly.ErrNotFound) {
		g.mu.Lock()
		g.calls++
		g.mu.Unlock()
	}
}

func (g *groupEngine) froms() []duly.From {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.created)
}

// groupRig is a worker on a model with a group, in a bubble.
type groupRig struct {
	*worker.Worker
	t      *testing.T
	engine *groupEngine
	log    *bytes.Buffer // may be read after stop

	mu   sync.Mutex
	seen []string // bodies of the handled messages
}

const mailer = "events@mailer"

// onGroup runs a test with a groupRig. The test calls start.
func onGroup(t *testing.T, body func(t *testing.T, r *groupRig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &groupRig{t: t, engine: &groupEngine{Engine: model.New(model.Config{}), names: map[string]bool{}},
			log: &bytes.Buffer{}}
		r.Worker = worker.New(r.engine, worker.Config{Logger: slog.New(slog.NewTextHandler(r.log, nil))})
		body(t, r)
		r.engine.Close()
	})
}

func (r *groupRig) handle(_ context.Context, d *worker.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, string(d.Body))
	return nil
}

func (r *groupRig) start() (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		r.t.Helper()
		end()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

func (r *groupRig) publish(bodies ...string) {
	r.t.Helper()
	for _, body := range bodies {
		results, err := r.engine.Publish(context.Background(), []duly.Message{{Topic: "events", Body: []byte(body)}})
		if err != nil || results[0].Err != nil {
			r.t.Fatalf("publish: %+v, %v", results, err)
		}
	}
	synctest.Wait()
}

func (r *groupRig) want(bodies string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.seen) // the handlers run concurrently
	if got := strings.Join(r.seen, " "); got != bodies {
		r.t.Errorf("handled %q, want %q", got, bodies)
	}
}

// The worker also creates the topic. It handles messages from before and after.
func TestFromCreatesTheGroup(t *testing.T) {
	for from, want := range map[duly.From]string{"start": "a b c", "": "a b c", "end": "b c"} {
		t.Run("from "+string(from), func(t *testing.T) {
			onGroup(t, func(t *testing.T, r *groupRig) {
				r.publish("a")
				r.Handle(mailer, r.handle, worker.From(from))
				stop := r.start()
				r.publish("b", "c")
				r.want(want)
				stop()
				if got := r.engine.froms(); !slices.Equal(got, []duly.From{from}) {
					t.Errorf("created from %q", got)
				}
			})
		})
	}
}

// C12.107: a worker uses one name for all its calls, and the stats of the group contain that name.
func TestWorkerIsOneConsumer(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		r.Handle(mailer, r.handle, worker.From("start"))
		stop := r.start()
		r.publish("a", "b")
		stats, err := r.engine.Stats(t.Context(), duly.Q(mailer))
		if err != nil || len(stats.Group.Consumers) != 1 || stats.Group.Consumers[0].Name == "" {
			t.Errorf("%+v, %v", stats.Group, err)
		}
		stop()
		if len(r.engine.names) != 1 || r.engine.names[""] {
			t.Errorf("the names are %v", r.engine.names)
		}
	})
}

func TestFromWaitsForTheEngine(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		r.engine.fail = func(string) error { return duly.ErrUnavailable }
		r.Handle(mailer, r.handle, worker.From("start"))
		stop := r.start()
		advance(10 * time.Second)
		r.engine.mu.Lock()
		if r.engine.calls < 5 || r.engine.calls > 25 {
			t.Errorf("%d calls in 10s", r.engine.calls)
		}
		r.engine.fail = nil
		r.engine.mu.Unlock()
		advance(time.Second)
		r.publish("a")
		r.want("a")
		stop()
	})
}

func TestStopEndsTheWaitForTheEngine(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		r.engine.fail = func(string) error { return duly.ErrUnavailable }
		r.Handle(mailer, r.handle, worker.From("start"))
		stop := r.start()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("stopped after %s", took)
		}
	})
}

// After the reset, the worker misses no message, for every place of From.
func TestFromCreatesTheGroupAgainAfterAReset(t *testing.T) {
	for _, from := range []duly.From{"start", "end"} {
		t.Run("from "+string(from), func(t *testing.T) {
			onGroup(t, func(t *testing.T, r *groupRig) {
				r.publish("old")
				r.Handle(mailer, r.handle, worker.From(from))
				stop := r.start()
				advance(time.Hour)
				r.mu.Lock()
				r.seen = nil
				r.mu.Unlock()
				// Deletes the group, as a flush of the store does.
				if err := r.engine.DestroyTopic(t.Context(), duly.Q("events")); err != nil {
					t.Fatal(err)
				}

				r.publish("a", "b")
				advance(2 * time.Second)
				r.publish("c")
				advance(time.Second)
				r.want("a b c")
				stop()
				if got := r.engine.froms(); len(got) != 2 || from == "start" && got[1] != "start" {
					t.Errorf("created from %q", got)
				}
				if n := strings.Count(r.log.String(), "store lost"); n != 0 {
					t.Errorf("the log says %d times that the store is lost", n)
				}
			})
		})
	}
}

// A worker without From waits until another program creates the group. It makes at most two calls a
// second, and logs the missing group once.
func TestWorkerWaitsForItsGroup(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		r.Handle(mailer, r.handle)
		stop := r.start()
		advance(5 * time.Second)
		r.engine.mu.Lock()
		r.engine.calls = 0
		r.engine.mu.Unlock()
		advance(10 * time.Second)
		r.engine.mu.Lock()
		n := r.engine.calls
		r.engine.mu.Unlock()
		if n < 5 || n > 20 {
			t.Errorf("%d calls in 10s, want 2 a second at most", n)
		}
		if _, err := r.engine.CreateGroup(t.Context(), duly.Q(mailer), "start"); err != nil {
			t.Fatal(err)
		}

		r.publish("a")
		advance(2 * time.Second)
		r.want("a")
		stop()
		if n := strings.Count(r.log.String(), "does not exist"); n != 1 || !strings.Contains(r.log.String(), "events") {
			t.Errorf("reported %d times in %s", n, r.log)
		}
	})
}

// C12.168: Run returns an error if a handled queue is a topic, or a handled group has a bridge.
func TestRunFailsOnATopicAndABridgedGroup(t *testing.T) {
	for name, queue := range map[string]string{"a topic": "events", "a bridged group": mailer} {
		t.Run(name, func(t *testing.T) {
			onGroup(t, func(t *testing.T, r *groupRig) {
				_, err := r.engine.CreateGroup(t.Context(), duly.Q(mailer), "start")
				if err == nil {
					err = r.engine.Configure(t.Context(), duly.Q(mailer),
						duly.QueueConfig{Group: duly.GroupConfig{Target: "mail"}})
				}
				if err != nil {
					t.Fatal(err)
				}

				r.publish("a")
				r.Handle(queue, r.handle)
				begin := time.Now()
				if err := r.Run(t.Context()); !errors.Is(err, duly.ErrConflict) {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("ended after %s", took)
				}
				if strings.Contains(r.log.String(), "store lost") {
					t.Errorf("the log says that the store is lost: %s", r.log)
				}
			})
		})
	}
}

// The engine refuses a time that is ahead of its clock.
func TestGroupBeginsAtTheStartIfTheEngineClockIsBehind(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		times := 0
		r.Handle(mailer, r.handle, worker.From("end"))
		stop := r.start()
		advance(time.Hour)
		if err := r.engine.DestroyTopic(t.Context(), duly.Q("events")); err != nil {
			t.Fatal(err)
		}

		r.engine.mu.Lock()
		r.engine.fail = func(op string) error {
			if op == "create" {
				if times++; times == 1 {
					return contract.Invalid("from", "is ahead of the clock")
				}
			}
			return nil
		}

		r.engine.mu.Unlock()
		advance(2 * time.Second)
		r.publish("a")
		r.want("a")
		stop()
		if got := r.engine.froms(); len(got) != 2 || got[1] != duly.FromStart {
			t.Errorf("created from %q", got)
		}
	})
}

func TestRunRefusesBadFrom(t *testing.T) {
	t.Parallel()
	h := func(context.Context, *worker.Delivery) error { return nil }
	for want, add := range map[string]func(w *worker.Worker){
		"from of queue mail is set, but it is not a group": func(w *worker.Worker) {
			w.Handle("mail", h, worker.From("start"))
		},
		"must be start, end, a time like": func(w *worker.Worker) { w.Handle(mailer, h, worker.From("yesterday")) },
		"is the next of a page":           func(w *worker.Worker) { w.Handle(mailer, h, worker.From("next:a")) },
		`queue is "a@b@c"`:                func(w *worker.Worker) { w.Handle("a@b@c", h) },
	} {
		w := worker.New(model.New(model.Config{}), worker.Config{})
		add(w)
		if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}

	w := worker.New(newMemoryEngine(), worker.Config{})
	w.Handle(mailer, h, worker.From("start"))
	if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), "engine has no topics") {
		t.Errorf("an engine without topics: %v", err)
	}
}

func TestGroupHandlesMessagesInBatches(t *testing.T) {
	onGroup(t, func(t *testing.T, r *groupRig) {
		var b batches
		r.HandleBatch(mailer, 3, time.Second, func(ds []*worker.Delivery) []error {
			b.note(ds)
			return []error{nil, nil, worker.Bury(errors.New("bad"))}[:len(ds)]
		}, worker.From("start"))
		r.publish("a", "b", "c", "d")
		stop := r.start()
		advance(time.Second)
		if len(b.seen) != 2 || len(strings.Fields(b.seen[0])) != 3 {
			t.Errorf("handled %q", b.seen)
		}
		stats, err := r.engine.Stats(t.Context(), duly.Q(mailer))
		if err != nil || stats.Counters.Acked != 3 || stats.Sizes.Dead != 1 {
			t.Errorf("%+v, %v", stats, err)
		}
		stop()
	})
}
