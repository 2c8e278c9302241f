package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
)

// connect returns a connection to the API.
func (f *fixture) connect() (conn net.Conn) {
	f.t.Helper()
	var err error
	if f.pipes != nil {
		conn, err = f.pipes.Dial(f.t.Context(), "", "")
	} else {
		conn, err = net.Dial("tcp", f.api.Listener.Addr().String())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

// dial sends one request and returns its connection.
func (f *fixture) dial(method, path, body string) net.Conn {
	f.t.Helper()
	conn := f.connect()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method,
		path, f.tokens["operator"], len(body), body)
	return conn
}

// gate is an engine that reports calls to Wait, Reserve and Settle.
type gate struct {
	contract.Engine
	waiting  chan struct{} // receives a value at the start of each Wait
	reserved chan int      // receives the number of deliveries of each Reserve that returned some
	settled  chan int      // receives the number of outcomes of each Settle
}

func watch(engine contract.Engine) *gate {
	return &gate{engine, make(chan struct{}, 4096), make(chan int, 4096), make(chan int, 4096)}
}

func (g *gate) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	g.waiting <- struct{}{}
	return g.Engine.Wait(ctx, p)
}

func (g *gate) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	d, err := g.Engine.Reserve(ctx, p)
	if len(d) > 0 {
		g.reserved <- len(d)
	}
	return d, err
}

func (g *gate) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	errs, err := g.Engine.Settle(ctx, ns, outcomes)
	g.settled <- len(outcomes)
	return errs, err
}

const clients = 1000 / 2 // number of clients of each of two kinds

// C14.15, fault P4: clients that disconnect while they wait get no jobs.
func TestDisconnectedClientsGetNoJobs(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })

	for range clients / 50 {
		conns := make([]net.Conn, 50)
		for i := range conns {
			conns[i] = f.dial("POST", "/v1/default/reserve", `{"queues":["q"],"wait":"10m"}`)
			eventually.Receive(t, "a Wait to begin", g.waiting)
		}
		for _, c := range conns {
			c.Close()
		}
	}

	until(t, "every caller is known to be gone",
		func() bool { return strings.Count(f.log.String(), `"status":499`) == clients })
	f.push("q", "x")
	if a := f.send("POST", "/v1/default/reserve", `{"queues":["q"]}`); !strings.Contains(a.body, `"attempt":1`) ||
		!strings.Contains(a.body, `"body":"x"`) {
		t.Errorf("the job is not there for the next: %s", a.body)
	}
}

// C14.15, fault P4: jobs that were reserved for a client that has disconnected are released at once,
// without using a try.
func TestJobsOfDisconnectedClientAreReleased(t *testing.T) {
	t.Parallel()
	var slow *slowReserve
	f := serve(t, func(c *Config) {
		slow = &slowReserve{Engine: c.Engine, begun: make(chan context.Context), goOn: make(chan struct{})}
		c.Engine = slow
	})
	f.push("q", "x")
	var s duly.Stats

	for i := range int64(clients) {
		conn := f.dial("POST", "/v1/default/reserve", `{"queues":["q"]}`)
		ctx := <-slow.begun
		conn.Close()
		<-ctx.Done() // the server has noticed the end of the connection
		slow.goOn <- struct{}{}
		until(t, "the delivery is released", func() bool {
			s, _ = f.engine.Stats(t.Context(), duly.Q("q"))
			return s.Counters.Released == i+1
		})
	}

	if s.Sizes.Ready != 1 || s.Sizes.Leased != 0 || s.Counters.Failed != 0 || s.Counters.Stalled != 0 {
		t.Errorf("%+v %+v: want one ready job, %d releases and nothing else", s.Sizes, s.Counters, clients)
	}
}

// A caller that closes only its half of the connection gets either a whole answer or no answer. An
// answer without its body would look like success.
func TestHalfClosedConnectionGetsNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })

	for _, path := range []string{"/v1/default/reserve", "/v1/default/wait"} {
		conn, ok := f.dial("POST", path, `{"queues":["q"],"wait":"10m"}`).(interface {
			net.Conn
			CloseWrite() error
		})
		if !ok {
			t.Fatal("the connection has no halves")
		}
		eventually.Receive(t, "a Wait to begin", g.waiting)
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
			t.Errorf("%s: %q, %v: want the end of the connection", path, answer, err)
		}
	}
}

// lateWait is an engine whose first Wait is woken for a job when its caller disconnects.
type lateWait struct {
	contract.Engine
	woken chan struct{}
	calls atomic.Int32
}

func (l *lateWait) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if l.calls.Add(1) > 1 {
		return l.Engine.Wait(ctx, p)
	}
	ready, err := l.Engine.Wait(context.WithoutCancel(ctx), p)
	close(l.woken)
	<-ctx.Done()
	return ready, err
}

// Pass implements contract.Passer.
func (l *lateWait) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(l.Engine).Pass(ctx, namespace, queues)
}

// A client that disconnects while it is woken does not delay the next client.
func TestDisconnectedClientPassesItsWakeUpOn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/default/wait", "/v1/default/reserve"} {
		l := &lateWait{woken: make(chan struct{})}
		f := serve(t, func(c *Config) { l.Engine = c.Engine; c.Engine = l })
		gone := f.dial("POST", path, `{"queues":["q"],"wait":"1m"}`)
		until(t, "the first waits", func() bool { return f.clock.Timers() == 1 })
		next := make(chan answer)
		go func() { next <- f.send("POST", "/v1/default/wait", `{"queues":["q"],"wait":"1m"}`) }()
		until(t, "the second waits", func() bool { return f.clock.Timers() == 2 })
		f.push("q", "x")
		<-l.woken
		gone.Close()
		if a := <-next; a.body != `{"ready":true}` { // answered before the time of its wait has passed
			t.Errorf("%s: the next one is answered %d %s", path, a.status, a.body)
		}
	}
}

// cutOff is a connection whose client has disconnected without the server's knowledge, so every
// write fails.
type cutOff struct{ header http.Header }

func (c cutOff) Header() http.Header         { return c.header }
func (c cutOff) WriteHeader(int)             {}
func (c cutOff) Write(b []byte) (int, error) { return 0, io.ErrClosedPipe }

// C5.16: if the answer of a wait can't be written, its wake-up goes to another wait.
func TestWaitWithoutAnswerPassesItsWakeUpOn(t *testing.T) {
	t.Parallel()
	a := &asked{}
	inMemory(t, func(c *Config) { a.Engine = c.Engine; c.Engine = a }, func(f *fixture) {
		t, r := f.t, &readers{f, a}
		req := httptest.NewRequest("POST", "/v1/default/wait", strings.NewReader(`{"queues":["q"],"wait":"10m"}`))
		req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		go f.Handler().ServeHTTP(cutOff{http.Header{}}, req)
		synctest.Wait()
		next := r.ask("POST", "/v1/default/wait", `{"queues":["q"],"wait":"10m"}`)
		if n := a.waits.Load(); n != 2 {
			t.Fatalf("%d callers wait for a job, want 2", n)
		}

		f.push("q", "x")
		synctest.Wait()
		if n := a.waits.Load(); n != 0 { // the clock does not advance, so nothing else ends the wait
			t.Fatalf("%d callers sleep although a job is ready", n)
		}
		if a, err := r.read(next); err != nil || a.body != `{"ready":true}` {
			t.Errorf("the next one is answered %d %s, %v", a.status, a.body, err)
		}
	})
}

// slowReserve is an engine that reserves jobs after its caller has disconnected.
type slowReserve struct {
	contract.Engine
	begun chan context.Context
	goOn  chan struct{}
}

func (s *slowReserve) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	s.begun <- ctx
	<-s.goOn
	return s.Engine.Reserve(context.WithoutCancel(ctx), p)
}

// Fault P4: if a client disconnects in the middle of an answer, its jobs come back when their leases
// end.
func TestClientsThatVanishInMidAnswerLoseNothing(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })
	const jobs = 5
	for range jobs {
		f.push("q", strings.Repeat("x", 1<<20)) // larger than the sockets' buffers
	}
	vanished := 100
	if testing.Short() {
		vanished = 10
	}

	for i := range vanished {
		conn := f.dial("POST", "/v1/default/reserve", `{"queues":["q"],"max":100,"lease":"1s"}`)
		// A client that had disconnected before gets no job.
		eventually.Receive(t, "a reserved job", g.reserved)
		io.CopyN(io.Discard, conn, int64(i*997%60_000))
		conn.(*net.TCPConn).SetLinger(0) // closes with a reset, like the connection of a process that died
		conn.Close()
		eventually.Receive(t, "a settled job", g.settled)
		if s := f.sizes("q"); s.Ready != jobs || s.Leased != 0 {
			t.Fatalf("client %d: %+v, want %d ready", i, s, jobs)
		}
	}
}

// C14.14: a long poll returns a job at once, or ends empty after its time.
func TestLongPollEndsWithAJobOrEmpty(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })
	answers := make(chan answer)
	poll := func(path, body string) {
		go func() { answers <- f.send("POST", path, body) }()
		eventually.Receive(t, "a Wait to begin", g.waiting)
	}
	poll("/v1/default/reserve", `{"queues":["q"],"wait":"1m"}`)
	f.clockUntilTimer()
	f.clock.Advance(time.Minute)

	if a := <-answers; a.status != 200 || a.body != `{"deliveries":[]}` {
		t.Errorf("after its time: %d %s", a.status, a.body)
	}
	poll("/v1/default/reserve", `{"queues":["q"],"wait":"1m"}`)
	f.push("q", "x")
	if a := <-answers; !strings.Contains(a.body, `"body":"x"`) {
		t.Errorf("with a job: %s", a.body)
	}
	poll("/v1/default/wait", `{"queues":["q"],"wait":"1m"}`)
	f.push("q", "y")
	if a := <-answers; a.body != `{"ready":true}` {
		t.Errorf("wait: %s", a.body)
	}
}

// clockUntilTimer waits until the clock has a timer.
func (f *fixture) clockUntilTimer() {
	until(f.t, "a timer is set", func() bool { return f.clock.Timers() > 0 })
}

// A drain ends long polls with an empty answer and refuses new ones. Requests in progress are
// finished.
func TestDrainEndsLongPollsAndFinishesRequests(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) {
		g = watch(c.Engine)
		c.Engine, c.Listen.Addr, c.Listen.AdminAddr = g, "127.0.0.1:0", "127.0.0.1:0"
	})
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- f.Serve(ctx) }()

	post := func(path, body string) (*http.Response, error) {
		req, _ := http.NewRequest("POST", f.URL()+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		return http.DefaultClient.Do(req)
	}
	ended := make(chan string, 2)

	for _, path := range []string{"/v1/default/reserve", "/v1/default/wait"} {
		go func() {
			resp, err := post(path, `{"queues":["q"],"wait":"10m"}`)
			if err != nil {
				ended <- err.Error()
				return
			}
			b, _ := io.ReadAll(resp.Body)
			ended <- string(b)
		}()
		eventually.Receive(t, "a Wait to begin", g.waiting)
	}

	stop()
	for range 2 {
		if got := <-ended; got != `{"deliveries":[]}` && got != `{"ready":false}` {
			t.Errorf("a long poll ended with %s", got)
		}
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := post("/v1/default/push", `{"jobs":[]}`); err == nil {
		t.Error("it still listens")
	}
}

// Faults R1, R2: a request whose head or body arrives too slowly is cut off. A long poll is not.
func TestSlowRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		t := f.t
		poll := f.dial("POST", "/v1/default/reserve", `{"queues":["q"],"wait":"10m"}`)
		head := f.connect()
		fmt.Fprint(head, "POST /v1/default/push HTTP/1.1\r\nHost: x\r\n")
		if b, err := io.ReadAll(head); err != nil || len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 4") {
			t.Errorf("a slow head: %q %v", b, err)
		}
		body := f.connect()
		fmt.Fprintf(body, "POST /v1/default/push HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Length: 500\r\n\r\n{", f.tokens["operator"])
		resp, err := http.ReadResponse(bufio.NewReader(body), nil) // the answer is written after the grace
		if err != nil || resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a slow body: %v %v", resp, err)
		}
		drip := f.connect()
		// without a token, the server does not read the body
		fmt.Fprint(drip, "POST /v1/default/push HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
		if b, err := io.ReadAll(drip); err != nil || !strings.Contains(string(b), " 401 ") {
			t.Errorf("a slow body of a stranger: %q %v", b, err)
		}
		f.push("q", "x")
		resp, err = http.ReadResponse(bufio.NewReader(poll), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("the long poll: %v %v", resp, err)
		}
	})
}

// A slow but steady upload succeeds, because its deadline moves with each byte.
func TestSteadyUploadSucceeds(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		body := `{"jobs":[{"queue":"q","body":"` + strings.Repeat("x", 100<<10) + `"}]}`
		r, w := io.Pipe()
		go func() {
			for from := 0; from < len(body); from += 2 << 10 {
				clock.Sleep(f.t.Context(), clock.System(), time.Second)
				io.WriteString(w, body[from:min(from+(2<<10), len(body))])
			}
			w.Close()
		}()
		req, _ := http.NewRequest("POST", "http://memory/v1/default/push", r)
		req.Header.Set("Authorization", "Bearer "+f.tokens["produce"])
		if a := f.do(req); a.status != 200 || f.sizes("q").Ready != 1 {
			f.t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// An answer with a delivery has its length, so a client notices a missing part.
func TestDeliveryHasContentLength(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.push("q", "x")
	for _, body := range []string{`{"queues":["q"]}`, `{"queues":["none"]}`} {
		a := f.send("POST", "/v1/default/reserve", body)
		if got, want := a.header.Get("Content-Length"), strconv.Itoa(len(a.body)); a.status != 200 || got != want {
			t.Errorf("%s: %d, Content-Length %q of %s bytes", body, a.status, got, want)
		}
	}
}
