package redisengine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// rivals are two processes. Before a call of the first process is sent, the second one changes the
// configuration.
type rivals struct {
	*testing.T
	e, other *Engine
	ref      duly.QueueRef
	mu       sync.Mutex
	// Whether the configuration changes before the n-th call to a script.
	change func(script string, n int) bool
	n      map[string]int
	limit  atomic.Int64
}

func newRivals(t *testing.T, options string) *rivals {
	server, prefix := redistest.Shared(t)
	r := &rivals{T: t, ref: duly.Q("q").Normal(), n: map[string]int{}}
	c, url := clock.NewFake(), server.URL()+"?prefix="+prefix+options
	r.other = openOn(t, url, c)
	cfg := Config{URL: url, Clock: c, Manual: true, Logger: slog.New(slog.DiscardHandler)}
	cfg.sent = func(s *link.Script) *link.Script {
		r.before(s.Name)
		return s
	}
	e, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r.e = e
	r.must(e.Configure(t.Context(), r.ref, duly.QueueConfig{Shards: 8}))
	var jobs []duly.Job
	for range 100 {
		jobs = append(jobs, duly.Job{Queue: r.ref.Name})
	}
	_, err = e.Push(t.Context(), jobs)
	r.must(err)
	return r
}

func (r *rivals) before(script string) {
	r.mu.Lock()
	r.n[script]++
	change := r.change != nil && r.change(script, r.n[script])
	r.mu.Unlock()
	if change {
		r.must(r.other.Configure(context.Background(), r.ref, duly.QueueConfig{MaxJobs: int(1000 + r.limit.Add(1))}))
	}
}

// changing sets the calls before which the configuration is changed from now on.
func (r *rivals) changing(change func(script string, n int) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change = change
	clear(r.n)
}

func (r *rivals) must(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// TestChangingQueueIsProcessedToItsEnd changes the configuration of a queue of eight shards
// before every second call. Each shard answers only once.
//
// C10.15
func TestChangingQueueIsProcessedToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRivals(t, "&retry=100ms")
	for _, c := range []struct {
		script string
		call   func() (int, error)
		want   int
	}{
		{"step", func() (int, error) { _, err := r.e.Step(t.Context(), r.ref); return 0, err }, 0},
		{"stats", func() (int, error) {
			st, err := r.e.Stats(t.Context(), r.ref)
			return int(st.Sizes.Ready), err
		}, 100},
		{"reserve", func() (int, error) {
			got, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{r.ref.Name}, Max: 200})
			return len(got), err
		}, 100},
		{"reserve", func() (int, error) {
			got, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{r.ref.Name}, Max: 1})
			return len(got), err
		}, 0},
		{"purge", func() (int, error) { return r.e.Purge(t.Context(), r.ref, duly.StateLeased, 0) }, 100},
	} {
		r.changing(func(script string, n int) bool { return script == c.script && n%2 == 1 })
		if got, err := c.call(); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.script, got, err, c.want)
		}
		if n := r.n[c.script]; n != 16 { // each shard gets one stale and one successful call
			t.Errorf("%s was sent %d times, want 16", c.script, n)
		}
	}
}

// TestConflictingCallRetriesUntilItsDeadline checks a call whose input keeps changing. The engine
// retries such a call until the caller's deadline. Without a deadline it retries it as long as a
// call to an unreachable server.
func TestConflictingCallRetriesUntilItsDeadline(t *testing.T) {
	t.Parallel()
	r := newRivals(t, "&retry=100ms")
	r.changing(func(script string, _ int) bool { return script == "step" })
	_, err := r.e.Step(t.Context(), r.ref)
	if duly.CodeOf(err) != duly.CodeUnavailable {
		t.Errorf("a call whose input always changes returned %v, want %s", err, duly.CodeUnavailable)
	}
	if n := r.n["step"]; n <= store.MaxImmediate {
		t.Errorf("the call ended after %d tries", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.changing(func(script string, n int) bool {
		if n > store.MaxImmediate+2 {
			cancel()
		}
		return script == "step"
	})
	if _, err := r.e.Step(ctx, r.ref); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ended returned %v", err)
	}
}

// TestTopicIsCreatedAgain checks that a call which creates its topic creates it again if another
// process destroys it meanwhile.
//
// C12.25
func TestTopicIsCreatedAgain(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*Engine) error{
		"CreateGroup": func(e *Engine) error {
			_, err := e.CreateGroup(t.Context(), duly.Q("t@g"), duly.FromStart)
			return err
		},
		"ConfigureTopic": func(e *Engine) error {
			return e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{Keep: time.Hour})
		},
	} {
		server, prefix := redistest.Shared(t)
		c, url := clock.NewFake(), server.URL()+"?prefix="+prefix
		other := openOn(t, url, c)
		var destroyed bool
		cfg := Config{URL: url, Clock: c, Manual: true, Logger: slog.New(slog.DiscardHandler)}
		cfg.sent = func(s *link.Script) *link.Script {
			if s.Name == "queue_put" && !destroyed {
				destroyed = true
				if err := other.DestroyTopic(context.Background(), duly.Q("t")); err != nil {
					t.Error(err)
				}
			}
			return s
		}
		e, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()

		if _, err := other.Publish(t.Context(), []duly.Message{{Topic: "t"}}); err != nil {
			t.Fatal(err)
		}
		if err := call(e); err != nil || !destroyed {
			t.Errorf("%s, with a topic that is destroyed during the call (%t): %v", name, destroyed, err)
		}
	}
}
