package lmstfy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server"
)

// serving starts a server with the system's clock, until stop is called or the test ends.
func serving(t *testing.T, on *stage) (p *play, stop func() error) {
	t.Helper()
	p = open(t, on, func(c *server.Config) {
		c.Store.Maintainer, _ = on.engine.(contract.Maintainer)
		c.Listen.Addr, c.Listen.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
	})
	if err := p.s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.s.Serve(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() { stop() })
	return p, stop
}

// A job with one try and a ttr of one second is in the dead letter between one and two seconds
// after its consume, even without requests in that time, in any part of a second of the system's
// clock.
func TestDeadJobIsInDeadLetterWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, begin := range live {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deadInTime(t, begin(t))
		})
	}
}

func deadInTime(t *testing.T, on *stage) {
	p, _ := serving(t, on)
	token := p.token("ns")
	var all sync.WaitGroup
	var mu sync.Mutex
	late := time.Duration(0)

	for i := range max(trials(100), 10) {
		all.Go(func() {
			<-time.NewTimer(rand.N(time.Second)).C
			took := p.dieAlone(fmt.Sprintf("q%d", i), token)
			mu.Lock()
			late = max(late, took)
			mu.Unlock()
		})
	}

	all.Wait()
	t.Logf("the latest was in the dead letter %s after its consume", late)
	if late > 10*2*time.Second {
		t.Errorf("%s after its consume, want 2 s", late)
	}
}

// dieAlone publishes and consumes a job, reads it two seconds later, and returns the time from its
// consume to its death.
func (p *play) dieAlone(queue, token string) time.Duration {
	if a := p.send("PUT", "/api/ns/"+queue+"?tries=1", "x", "X-Token", token); a.status != http.StatusCreated {
		p.t.Error(a)
	}
	before := p.clock.Now()
	a := p.send("GET", "/api/ns/"+queue+"?ttr=1", "", "X-Token", token)
	after := p.clock.Now()

	o, found := "", false
	if _, rest, ok := strings.Cut(a.body, `"job_id":"`); ok {
		o, _, found = strings.Cut(rest, `"`)
	}
	if !found {
		p.t.Errorf("%d %s", a.status, a.body)
		return 0
	}
	<-time.NewTimer(2*time.Second - p.clock.Now().Sub(after)).C
	until(p.t, queue+" has its dead job", func() bool {
		a = p.send("GET", "/api/ns/"+queue+"/deadletter", "", "X-Token", token)
		return strings.Contains(a.body, `"deadletter_head":"`+o+`","deadletter_size":1`)
	})
	j, err := p.engine.Get(p.t.Context(), ref(queue), o)
	if died := j.FinishedAt.Sub(before); err != nil || died < time.Second-time.Millisecond {
		p.t.Errorf("%s was dead after %s, before its second was over; %v", queue, died, err)
	}
	return j.FinishedAt.Sub(after)
}

// A waiting consume is answered at its timeout, not before, also with the system's clock. A server
// that stops answers it at once.
func TestConsumeWaitsUntilTimeoutOrStop(t *testing.T) {
	t.Parallel()
	p, stop := serving(t, onTheClock(t))
	token := p.token("ns")
	var all sync.WaitGroup

	for i := range 10 {
		all.Go(func() {
			begin := clock.Monotonic()
			a := p.send("GET", fmt.Sprintf("/api/ns/q%d?timeout=1", i), "", "X-Token", token)
			if took := clock.Monotonic() - begin; took < time.Second || a.status != http.StatusNotFound {
				t.Errorf("%d after %s", a.status, took)
			}
		})
	}

	all.Wait()
	for len(p.gate.waiting) > 0 {
		<-p.gate.waiting
	}
	p.api.URL = p.s.URL() // URL of the server that stops
	ended := make(chan answer, 1)
	go func() { ended <- p.send("GET", "/api/ns/q?timeout=600", "", "X-Token", token) }()
	<-p.gate.waiting
	if err := stop(); err != nil {
		t.Error(err)
	}
	if a := <-ended; a.status != http.StatusNotFound || a.body != `{"msg":"no job available"}` {
		t.Errorf("%d %s %v", a.status, a.body, a.err)
	}
}
