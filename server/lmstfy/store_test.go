package lmstfy_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server"
)

func ref(queue string) duly.QueueRef { return duly.QueueRef{Namespace: "ns", Name: queue} }

// A queue that is created by a publish keeps its dead letters without a bound. The configuration of
// an existing queue does not change.
func TestPublishedQueueKeepsItsDeadLetters(t *testing.T) {
	t.Parallel()
	for name, on := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, on(t), nil)
			token := p.token("ns")
			publish := func(queue string) {
				t.Helper()
				if a := p.send("PUT", "/api/ns/"+queue, "x", "X-Token", token); a.status != http.StatusCreated {
					t.Fatal(a)
				}
			}
			bounds := func(queue string, age time.Duration, count int) {
				t.Helper()
				c, err := p.engine.Config(t.Context(), ref(queue))
				if err != nil || c.DeadAge != age || c.DeadCount != count {
					t.Errorf("%s keeps dead letters for %s, at most %d, want %s and %d; %v", queue, c.DeadAge,
						c.DeadCount, age, count, err)
				}
			}
			publish("new")
			bounds("new", duly.None, duly.None)

			if err := p.engine.Configure(t.Context(), ref("set"), duly.QueueConfig{DeadCount: 5}); err != nil {
				t.Fatal(err)
			}
			publish("set")
			bounds("set", duly.DefaultDeadAge, 5)

			if _, err := p.engine.Push(t.Context(), []duly.Job{{Namespace: "ns", Queue: "native"}}); err != nil {
				t.Fatal(err)
			}
			publish("native")
			bounds("native", duly.DefaultDeadAge, duly.DefaultDeadCount)

			// After the native API has destroyed a queue, the queue is new again.
			operator := p.token("*", contract.RightAdmin)
			if a := p.send("DELETE", "/v1/ns/queues/new", "", "Authorization",
				"Bearer "+operator); a.status != http.StatusNoContent {
				t.Fatal(a)
			}
			publish("new")
			bounds("new", duly.None, duly.None)

			// A queue that a concurrent publish creates again is also new.
			if a := p.send("DELETE", "/v1/ns/queues/new", "", "Authorization",
				"Bearer "+operator); a.status != http.StatusNoContent {
				t.Fatal(a)
			}
			p.push("new", 1)
			publish("new")
			bounds("new", duly.None, duly.None)

			// After another server has destroyed the queue, this server treats it as new after some
			// time, even if it published to the queue before.
			for _, next := range []time.Duration{time.Minute, time.Second} {
				for range 3 {
					publish("new")
				}
				p.advance(time.Minute)
				publish("new")
				if err := p.engine.Destroy(t.Context(), ref("new")); err != nil {
					t.Fatal(err)
				}
				p.advance(next)
				publish("new")
				p.advance(time.Minute)
				publish("new")
				bounds("new", duly.None, duly.None)
			}

			// A later configuration stays.
			if err := p.engine.Configure(t.Context(), ref("new"),
				duly.QueueConfig{DeadAge: duly.DefaultDeadAge, DeadCount: duly.DefaultDeadCount}); err != nil {
				t.Fatal(err)
			}
			p.advance(time.Minute)
			publish("new")
			bounds("new", duly.DefaultDeadAge, duly.DefaultDeadCount)
		})
	}
}

// lossy is an engine that loses the answers of pushes, before or after it has stored the jobs.
type lossy struct {
	contract.Engine
	lose    atomic.Int64
	happens bool
	made    atomic.Int64 // number of jobs in first pushes, without their repeats
}

func (l *lossy) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	for _, j := range jobs {
		if j.Made {
			l.made.Add(1)
		}
	}
	if l.lose.Add(-1) < 0 {
		return l.Engine.Push(ctx, jobs)
	}
	if l.happens {
		l.Engine.Push(ctx, jobs)
	}
	return nil, duly.ErrUnavailable
}

// A push whose answer was lost is repeated with the same IDs, so each job exists once, and the answer
// has its ID.
func TestPushWithLostAnswerIsOneJob(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]bool{"it had happened": true, "it had not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l *lossy
			fake := clock.NewFake()

			p := open(t, inMemory(t), func(c *server.Config) {
				l = &lossy{Engine: c.Engine, happens: happens}
				c.Engine, c.Clock = l, fake
			})
			token := p.token("ns")

			send := func(target, body string) answer {
				answers := make(chan answer, 1)
				go func() { answers <- p.send("PUT", target, body, "X-Token", token) }()
				for {
					tick := time.NewTimer(time.Millisecond)
					select {
					case a := <-answers:
						return a
					case <-tick.C:
						fake.Advance(10 * time.Millisecond)
					}
				}
			}

			l.lose.Store(2)
			a := send("/api/ns/one", "x")
			got := p.send("GET", "/api/ns/one?count=9", "", "X-Token", token)
			id := strings.TrimSuffix(strings.TrimPrefix(a.body, `{"job_id":"`), `","msg":"published"}`)
			if a.status != 201 || strings.Count(got.body, "job_id") != 1 || !strings.Contains(got.body, id) {
				t.Errorf("%d %s, then %s", a.status, a.body, got.body)
			}
			l.lose.Store(1)
			a = send("/api/ns/many/bulk", "[1,2,3]")
			got = p.send("GET", "/api/ns/many?count=9", "", "X-Token", token)
			if a.status != 201 || strings.Count(got.body, "job_id") != 3 {
				t.Errorf("%d %s, then %s", a.status, a.body, got.body)
			}
			if n := l.made.Load(); n != 4 {
				t.Errorf("%d first tries of 4 jobs", n)
			}
			l.lose.Store(3)
			if a = send("/api/ns/never", "x"); a.status != 500 || a.body != `{"error":"internal error"}` {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// A bulk publish stores all jobs or none, even if the store accepts only some of them.
func TestBulkPublishIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, on := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, on(t), nil)
			token := p.token("ns")
			if err := p.engine.Configure(t.Context(), ref("q"), duly.QueueConfig{MaxJobs: 12}); err != nil {
				t.Fatal(err)
			}
			big := `"` + strings.Repeat("x", 1_000_000) + `"`

			for _, bulk := range []string{"[" + strings.Repeat("1,", 12) + "1]",
				"[" + strings.Repeat(big+",", 12) + "1]"} {
				a := p.send("PUT", "/api/ns/q/bulk", bulk, "X-Token", token)
				s, err := p.engine.Stats(t.Context(), ref("q"))
				if a.status != http.StatusInsufficientStorage || a.body != `{"error":"no room for more jobs"}` ||
					err != nil || s.Sizes != (duly.Sizes{}) {
					t.Errorf("%d %s, left %+v %v", a.status, a.body, s.Sizes, err)
				}
			}

			if a := p.send("PUT", "/api/ns/q/bulk", "[1,2,3]", "X-Token", token); a.status != http.StatusCreated {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// failDelete is an engine whose Delete fails.
type failDelete struct{ contract.Engine }

func (failDelete) Delete(context.Context, duly.QueueRef, string) error { return duly.ErrUnavailable }

// A republish that can't delete the old job fails, and neither job is lost.
func TestFailedRepublishLosesNoJob(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), func(c *server.Config) { c.Engine = failDelete{c.Engine} })
	token := p.token("ns")
	p.send("PUT", "/api/ns/q?tries=5", "old", "X-Token", token)
	p.send("GET", "/api/ns/q?ttr=1", "", "X-Token", token)
	if a := p.send("PUT", "/api/ns/q/job/some-job?tries=5", "new", "X-Token", token); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
	p.advance(2 * time.Second)
	if a := p.send("GET", "/api/ns/q?count=9", "", "X-Token", token); strings.Count(a.body, "job_id") != 2 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
