package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// asked is an engine that counts lists and current waits.
type asked struct {
	contract.Engine
	lists, waits atomic.Int32
}

func (a *asked) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	a.lists.Add(1)
	return a.Engine.List(ctx, q, p)
}

func (a *asked) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	a.waits.Add(1)
	defer a.waits.Add(-1)
	return a.Engine.Wait(ctx, p)
}

// Pass implements contract.Passer.
func (a *asked) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(a.Engine).Pass(ctx, namespace, queues)
}

// readers is a server with 10 MiB for answers. One token gets 4.2 MiB of them. A write returns
// when the other side has read the data. A page has 2 MiB and reserves 4 MiB.
type readers struct {
	*fixture
	*asked
}

const readersGrace = 10 * time.Second

func slowReaders(t *testing.T, test func(r *readers)) {
	t.Parallel()
	r := &readers{}
	inMemory(t, func(c *Config) {
		r.asked = &asked{Engine: c.Engine}
		c.Engine, c.Limits.AnswerMemory, c.Settings.Grace = r.asked, 10<<20, readersGrace
	}, func(f *fixture) {
		r.fixture = f
		for range 4 {
			f.push("q", strings.Repeat("x", 512<<10))
		}
		test(r)
	})
}

// ask sends a request without reading the answer.
func (r *readers) ask(method, path, body string) net.Conn {
	r.t.Helper()
	conn := r.dial(method, path, body)
	synctest.Wait()
	return conn
}

func (r *readers) list() net.Conn {
	r.t.Helper()
	return r.ask("GET", "/v1/default/queues/q/jobs?state=ready&bodies=true&limit=4", "")
}

// read reads an answer. The error is not nil if the answer was cut off.
func (r *readers) read(conn net.Conn) (answer, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

func (r *readers) pass(d time.Duration) {
	clock.Sleep(r.t.Context(), clock.System(), d)
	synctest.Wait()
}

// Fault R2: the answers of all slow readers share one budget of memory. Later requests wait, and fail
// with Retry-After after the grace. Small answers and long polls are not affected.
func TestSlowReadersShareTheMemoryForAnswers(t *testing.T) {
	slowReaders(t, func(r *readers) {
		for range 20 { // each request reserves 8 MiB for its answer
			r.ask("POST", "/v1/default/reserve", `{"queues":["none"],"max":100,"wait":"10m"}`)
		}
		if n := r.waits.Load(); n != 20 {
			t.Fatalf("%d of 20 long polls wait for a job", n)
		}
		var conns []net.Conn
		for range 20 {
			conns = append(conns, r.list())
		}
		// Two answers fit into the budget, and one more is read before it waits for memory. The
		// remaining memory is too small for a fourth one.
		if n := r.lists.Load(); n != 3 {
			t.Errorf("%d answers of 2 MiB are in 10 MiB of memory, want 3", n)
		}
		if a, err := r.read(r.ask("POST", "/v1/default/push", `{"jobs":[{"queue":"small"}]}`)); err != nil ||
			a.status != 200 {
			t.Errorf("a push beside them is answered %d, %v", a.status, err)
		}
		r.pass(readersGrace)
		refused := 0

		for _, conn := range conns[3:] {
			a, err := r.read(conn)
			if err != nil || a.status == http.StatusOK {
				continue // the answer was cut off later, or sent after another one was cut off
			}
			refused++
			if e := a.err(); e.Code != duly.CodeUnavailable || e.RetryAfter != time.Second ||
				a.header.Get("Retry-After") != "1" || !strings.Contains(e.Message, "memory") {
				t.Errorf("an answer without memory is %d %v %s", a.status, a.header, a.body)
			}
		}

		if refused == 0 {
			t.Error("nobody was refused")
		}
	})
}

// A slow reader keeps its memory until another request needs it.
func TestSlowReaderIsCutOffWhenOthersWait(t *testing.T) {
	slowReaders(t, func(r *readers) {
		lists := []net.Conn{r.list(), r.list()}
		r.pass(time.Second)
		// The last request exceeds the budget.
		got := r.ask("POST", "/v1/default/reserve", `{"queues":["q"],"max":4}`)
		for range 4 {
			r.push("q", strings.Repeat("x", 512<<10))
		}
		r.pass(2 * readersGrace)
		if s := r.sizes("q"); s.Leased != 4 {
			t.Fatalf("%+v: somebody was cut off although nobody waits", s)
		}

		type taken struct {
			answer
			err error
		}
		honest := make(chan taken)
		conn := r.list()

		go func() {
			a, err := r.read(conn)
			honest <- taken{a, err}
		}()
		if a := <-honest; a.err != nil || a.status != http.StatusOK || len(a.body) < 2<<20 {
			t.Errorf("the waiting request is answered %d with %d bytes, %v", a.status, len(a.body), a.err)
		}
		synctest.Wait()
		if s := r.sizes("q"); s.Leased != 0 || s.Ready != 8 {
			t.Errorf("%+v: the call beyond the budget was not cut off, or keeps its jobs", s)
		}
		if _, err := r.read(got); err == nil {
			t.Error("an answer that was cut off passes for whole")
		}
		if !strings.Contains(r.log.String(), "cut off") {
			t.Error("the log has no line about it")
		}

		for _, conn := range lists {
			if a, err := r.read(conn); err != nil || a.status != http.StatusOK {
				t.Errorf("another one is answered %d, %v", a.status, err)
			}
		}
	})
}

// stuck is an engine whose List does not return.
type stuck struct {
	contract.Engine
	goOn chan struct{}
}

func (s stuck) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	<-s.goOn
	return s.Engine.List(ctx, q, p)
}

// Pass implements contract.Passer.
func (s stuck) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(s.Engine).Pass(ctx, namespace, queues)
}

// C5.16: a long poll that is woken but gets no memory for its answer passes its wake-up on. So
// the next caller does not wait while the job is ready.
func TestPollWithoutMemoryPassesItsWakeUpOn(t *testing.T) {
	t.Parallel()
	r, s := &readers{asked: &asked{}}, stuck{}
	inMemory(t, func(c *Config) {
		s.Engine, s.goOn = c.Engine, make(chan struct{})
		r.asked.Engine = s
		c.Engine, c.Limits.AnswerMemory, c.Settings.Grace = r.asked, 10<<20, readersGrace
	}, func(f *fixture) {
		t, r.fixture = f.t, f
		defer close(s.goOn)
		poll := r.ask("POST", "/v1/default/reserve", `{"queues":["p"],"max":100,"wait":"10m"}`)
		next := r.ask("POST", "/v1/default/wait", `{"queues":["p"],"wait":"10m"}`)
		if n := r.waits.Load(); n != 2 {
			t.Fatalf("%d callers wait for a job, want 2", n)
		}
		for range 2 { // each of them keeps 4 MiB of 10 MiB
			r.list()
		}

		r.push("p", "x")
		r.pass(readersGrace)
		if n := r.waits.Load(); n != 0 {
			t.Fatalf("%d callers sleep although a job is ready", n)
		}
		if a, err := r.read(poll); err != nil || a.status != http.StatusServiceUnavailable {
			t.Errorf("the poll without memory is answered %d %s, %v", a.status, a.body, err)
		}
		if a, err := r.read(next); err != nil || a.body != `{"ready":true}` {
			t.Errorf("the next one is answered %d %s, %v", a.status, a.body, err)
		}
	})
}
