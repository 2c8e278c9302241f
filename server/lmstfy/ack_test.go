package lmstfy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// consumeOne consumes a job for a minute and returns its ID.
func (p *play) consumeOne(token string) string {
	p.t.Helper()
	a := p.send("GET", "/api/ns/q?ttr=60", "", "X-Token", token)
	_, rest, _ := strings.Cut(a.body, `"job_id":"`)
	id, _, found := strings.Cut(rest, `"`)
	if !found {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return id
}

// acks acks a job, which must succeed, and checks the counters of the queue.
func (p *play) acks(token, id string, acked, deleted int64) {
	p.t.Helper()
	if a := p.send("DELETE", "/api/ns/q/job/"+id, "", "X-Token", token); a.status != http.StatusNoContent {
		p.t.Errorf("the ack is answered %d %s", a.status, a.body)
	}
	s, err := p.engine.Stats(p.t.Context(), ref("q"))
	if c := s.Counters; err != nil || c.Acked != acked || c.Deleted != deleted {
		p.t.Errorf("%d jobs were acked and %d deleted, want %d and %d; %v", c.Acked, c.Deleted, acked, deleted, err)
	}
	if a := p.send("GET", "/api/ns/q/job/"+id, "", "X-Token", token); a.status != http.StatusNotFound {
		p.t.Errorf("the job is still there: %d %s", a.status, a.body)
	}
}

func TestAckEndsTheDelivery(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		p := open(t, on, nil)
		token := p.token("ns")
		p.push("q", 1)
		id := p.consumeOne(token)
		p.acks(token, id, 1, 0)
		p.acks(token, id, 1, 0)
	})
}

// An ack deletes a job whose last delivery was not made by this server.
func TestAckOfAnotherDeliveryDeletesTheJob(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(p *play, token string) (id string){
		"never handed out": func(p *play, token string) string {
			_, rest, _ := strings.Cut(p.send("GET", "/api/ns/q/peek", "", "X-Token", token).body, `"job_id":"`)
			id, _, _ := strings.Cut(rest, `"`)
			return id
		},
		"handed out by another server": func(p *play, token string) string {
			return open(p.t, p.stage, nil).consumeOne(token)
		},
		"handed out again by another server": func(p *play, token string) string {
			id := p.consumeOne(token)
			p.advance(61 * time.Second)
			if again := open(p.t, p.stage, nil).consumeOne(token); again != id {
				p.t.Errorf("%s was consumed, then %s", id, again)
			}
			return id
		},
		"not leased any more": func(p *play, token string) string {
			id := p.consumeOne(token)
			p.advance(61 * time.Second)

			until(p.t, "the lease was taken back", func() bool {
				s, err := p.engine.Stats(p.t.Context(), ref("q"))
				return err == nil && s.Counters.Stalled == 1
			})
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStages(t, func(t *testing.T, on *stage) {
				p := open(t, on, nil)
				token := p.token("ns")
				p.push("q", 1)
				p.acks(token, take(p, token), 0, 1)
			})
		})
	}
}

// An acked job with Retain is kept, but lmstfy's clients do not see it.
func TestAckRetainsTheJob(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		p := open(t, on, nil)
		token := p.token("ns")
		job := duly.Job{Namespace: "ns", Queue: "q", ID: "kept", Retain: time.Hour}
		if _, err := p.engine.Push(t.Context(), []duly.Job{job}); err != nil {
			t.Fatal(err)
		}
		p.acks(token, p.consumeOne(token), 1, 0)
		if j, err := p.engine.Get(t.Context(), ref("q"), "kept"); err != nil || j.State != duly.StateDone {
			t.Errorf("the job is %v, %v; want it done", j.State, err)
		}
	})
}
