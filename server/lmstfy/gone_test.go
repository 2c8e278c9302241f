package lmstfy_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// trials returns the number of trials of a test that depends on timing.
func trials(long int) int {
	if os.Getenv("DULY_LONG") != "" {
		return long
	}
	return long / 10
}

// dial sends a consume and returns its connection.
func (p *play) dial(target, token string) net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.api.Listener.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() }) // the server's Close waits for its connections
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-Token: %s\r\n\r\n", target, token)
	return conn
}

func (p *play) push(queue string, n int) {
	p.t.Helper()
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = duly.Job{Namespace: "ns", Queue: queue, Tries: 10, MaxStalls: duly.None, Backoff: duly.Fixed(0)}
	}
	results, err := p.engine.Push(p.t.Context(), jobs)
	if err != nil || results[0].Err != nil {
		p.t.Fatal(err, results)
	}
}

// Fault P4: a client that has disconnected 20 ms before a push gets no job of that push. On a busy
// machine the test waits until the server has noticed. The engine's clock does not
// advance, so a job that was leased to that client would not come back.
func TestClientDisconnectedBeforePushGetsNoJob(t *testing.T) {
	t.Parallel()
	for name, begin := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangUpBefore(t, begin(t))
		})
	}
}

func hangUpBefore(t *testing.T, on *stage) {
	const atOnce = 50
	p := open(t, on, nil)
	token := p.token("ns")
	all, slowest := max(trials(1000), atOnce), time.Duration(0)

	for gone := 0; gone < all; gone += atOnce {
		conns := make([]net.Conn, atOnce)
		for i := range conns {
			conns[i] = p.dial("/api/ns/q?timeout=600&ttr=600", token)
			<-p.gate.waiting
		}
		grace := time.NewTimer(20 * time.Millisecond)
		begin := clock.Monotonic()
		for _, c := range conns {
			c.Close()
		}
		for range conns { // until the server has noticed that they disconnected
			<-p.gate.left
		}
		slowest = max(slowest, clock.Monotonic()-begin)
		<-grace.C
		p.push("q", atOnce)
		a := p.send("GET", "/api/ns/q?count=50&ttr=600", "", "X-Token", token)
		if n := strings.Count(a.body, `"remain_tries":9`); a.status != http.StatusOK || n != atOnce {
			t.Fatalf("%d of %d jobs are there: %d", n, atOnce, a.status)
		}
	}

	t.Logf("%d clients have gone, 0 jobs were delayed; all were noticed within %s", all, slowest)
}

// Fault P4: if clients disconnect within 5 ms before or after a push, each job comes back, at the latest
// when its lease ends.
func TestClientDisconnectedDuringPushLosesNoJob(t *testing.T) {
	t.Parallel()
	for name, begin := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangUpInTheMoment(t, begin(t))
		})
	}
}

func hangUpInTheMoment(t *testing.T, on *stage) {
	p := open(t, on, nil)
	token := p.token("ns")
	n := trials(1000)

	for i := range n { // each client has its own queue, so that all of them wait
		conn := p.dial(fmt.Sprintf("/api/ns/q%d?timeout=600&ttr=10", i), token)
		<-p.gate.waiting
		hangUp := time.AfterFunc(rand.N(10*time.Millisecond), func() { conn.Close() })
		pushed := time.NewTimer(5 * time.Millisecond)
		<-pushed.C
		p.push(fmt.Sprintf("q%d", i), 1)
		<-time.NewTimer(5 * time.Millisecond).C
		hangUp.Stop()
		conn.Close()
	}

	until(t, "every caller is answered or gone", func() bool {
		log := p.log.String() // status 404 means that the client disconnected before it got a job
		return strings.Count(log, `"status":404`)+strings.Count(log, `"status":499`)+
			strings.Count(log, `"status":200`) == n
	})
	ready, leased := p.readyAndLeased(n)
	if ready+leased != n {
		t.Fatalf("%d + %d of %d jobs", ready, leased, n)
	}
	t.Logf("%d clients have gone within 5 ms of the push; %d jobs came back at once, %d wait for the end of their "+
		"lease", n, ready, leased)
	p.advance(10 * time.Second)

	for i := range n {
		a := p.send("GET", fmt.Sprintf("/api/ns/q%d?ttr=600", i), "", "X-Token", token)
		if a.status != http.StatusOK {
			t.Errorf("job %d is not back: %d %s", i, a.status, a.body)
		}
	}
}

// The server cannot distinguish a client that closes only its half of the connection from one that
// has disconnected. It reserves no job for it and answers 404.
func TestWaitingClientThatClosesItsHalfIsAnswered(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)

	for _, target := range []string{"/api/ns/q?timeout=600&ttr=600", "/api/ns/q,r?timeout=600&count=5"} {
		conn := p.dial(target, p.token("ns"))
		defer conn.Close()
		<-p.gate.waiting
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusNotFound || string(body) != `{"msg":"no job available"}` || err != nil {
			t.Errorf("%s: %d %s %v", target, resp.StatusCode, body, err)
		}
	}

	p.push("q", 1)
	if a := p.send("GET", "/api/ns/q", "", "X-Token", p.token("ns")); a.status != http.StatusOK {
		t.Errorf("the next client is answered %d %s", a.status, a.body)
	}
}

// readyAndLeased counts the jobs of n queues.
func (p *play) readyAndLeased(n int) (ready, leased int) {
	for i := range n {
		s, err := p.engine.Stats(p.t.Context(), duly.QueueRef{Namespace: "ns", Name: fmt.Sprintf("q%d", i)})
		if err != nil {
			p.t.Fatal(err)
		}
		ready, leased = ready+int(s.Sizes.Ready), leased+int(s.Sizes.Leased)
	}
	return ready, leased
}
