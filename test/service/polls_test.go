package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/bench/gaugetest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// call sends one request with the server's token and returns the response.
func (s *served) call(method, url, body string) (status int, answer string, header http.Header) {
	s.t.Helper()
	status, answer, header, err := s.try(method, url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, answer, header
}

// try is like call, but returns an error instead of failing the test, so any goroutine may use it.
func (s *served) try(method, url, body string) (status int, answer string, header http.Header, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("X-Token", s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header, err
}

// polls are long polls on one queue, each on its own connection.
type polls struct {
	s       *served
	conns   []net.Conn
	answers chan string // the first line of an answer, or the error
}

// opening is how many connections are opened concurrently.
const opening = 32

// poll opens n long polls and returns when all of them wait in the server.
func (s *served) poll(t *testing.T, queue string, n int) *polls {
	t.Helper()
	return s.hold(t, queue, s.token, n)
}

// hold is like poll but with another token.
func (s *served) hold(t *testing.T, queue, token string, n int) *polls {
	t.Helper()
	p := &polls{s: s, conns: make([]net.Conn, n), answers: make(chan string, n)}
	t.Cleanup(p.close)
	turns := make(chan struct{}, opening)
	var all sync.WaitGroup
	for i := range p.conns {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Error(err)
				return
			}
			p.conns[i] = conn
			fmt.Fprintf(conn, "GET /api/ns/%s?timeout=600&ttr=600 HTTP/1.1\r\nHost: x\r\nX-Token: %s\r\n\r\n", queue, token)
			go p.read(conn)
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	redistest.Await(t, "every long poll to wait", func() bool { return s.waiting() == n })
	return p
}

func (p *polls) read(conn net.Conn) {
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		p.answers <- err.Error()
		return
	}
	b, _ := io.ReadAll(resp.Body)
	p.answers <- resp.Status + " " + string(b)
}

// next returns the next answer.
func (p *polls) next(t *testing.T) string {
	t.Helper()
	select {
	case got := <-p.answers:
		return got
	case <-time.After(patience):
		t.Fatalf("no poll was answered within %s", patience)
		return ""
	}
}

func (p *polls) close() {
	for _, conn := range p.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

var group = regexp.MustCompile(`(?m)^(\d+) @ `)

// waiting returns how many polls wait in the server, from its goroutines.
func (s *served) waiting() (n int) {
	s.t.Helper()
	_, text, _ := s.call("GET", s.admin+"/debug/pprof/goroutine?debug=1", "")
	for stack := range strings.SplitSeq(text, "\n\n") {
		if m := group.FindStringSubmatch(stack); m != nil && strings.Contains(stack, "poll.(*Poll).wait+") {
			k, _ := strconv.Atoi(m[1])
			n += k
		}
	}
	return n
}

// publish publishes a job as lmstfy's clients do.
func (s *served) publish(t *testing.T, queue string) {
	t.Helper()
	if status, body, _ := s.call("PUT", s.url+"/api/ns/"+queue, "x"); status != http.StatusCreated {
		t.Fatalf("publish: %d %s", status, body)
	}
}

// The bounds of idle long polls.
const (
	memoryOfAPoll = 40 << 10
	garbage       = 2 << 20 // of the process, which varies from run to run
	callsOfAPush  = 3       // to Redis, besides the push itself
)

// TestIdleLongPolls opens thousands of idle long polls (fault R6). They use little memory, almost no
// CPU time, and no more connections to Redis than a few polls. One publish wakes one of them and
// causes at most three calls.
func TestIdleLongPolls(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		idlePolls(t, serve(t, onFile(t)), nil, counts(500, 5000))
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Single(t)
		idlePolls(t, serve(t, redis.URL()), redis, counts(500, 10_000))
	})
}

func idlePolls(t *testing.T, s *served, redis *redistest.Server, n int) {
	s.publish(t, "idle") // creates the queue
	s.call("GET", s.url+"/api/ns/idle", "")
	few := s.poll(t, "idle", 50) // allocates what is needed only once
	memory, connections := s.memory(t), clients(redis)
	few.close()
	redistest.Await(t, "the few to be gone", func() bool { return s.waiting() == 0 })
	p := s.poll(t, "idle", n)
	grown := s.memory(t) - memory
	if now := clients(redis); now > connections {
		t.Errorf("%d connections to Redis with 50 polls, %d with %d", connections, now, n)
	}
	rest := time.Duration(counts(2, 30)) * time.Second
	proctest.AwaitRest(t, s.process.Pid()) // garbage collection has run
	before := s.cpu(t)
	time.Sleep(rest) // the measured time
	used := s.cpu(t) - before
	t.Logf("%d idle long polls: %.1f KiB each (at most 40); %s of CPU time in %s (at most 1 %%); "+
		"%d connections to Redis", n, float64(grown)/float64(n-50)/1024, used, rest, connections)
	if most := memoryOfAPoll*int64(n-50) + garbage; grown > most && !testing.Short() { // the race detector uses more
		t.Errorf("%d idle long polls take %d bytes, want at most %d", n-50, grown, most)
	}
	if proctest.Long() && used > rest/100 {
		t.Errorf("%d idle long polls used %s of CPU time in %s", n, used, rest)
	}
	wakesOne(t, p, redis)
}

// clients returns the number of connections to a Redis server.
func clients(redis *redistest.Server) int {
	if redis == nil {
		return 0
	}
	text, _ := redis.Must("INFO", "clients").(string)
	_, rest, _ := strings.Cut(text, "connected_clients:")
	n, _, _ := strings.Cut(rest, "\r\n")
	k, _ := strconv.Atoi(n)
	return k
}

// wakesOne publishes jobs one after another. Each must be delivered to one poll.
func wakesOne(t *testing.T, p *polls, redis *redistest.Server) {
	t.Helper()
	const jobs = 5
	least := int64(1 << 30)
	for range jobs {
		calls := caused(t, redis, func() {
			p.s.publish(t, "idle")
			if got := p.next(t); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"msg":"new job"`) {
				t.Errorf("a poll was answered %s", got)
			}
			time.Sleep(100 * time.Millisecond) // so that calls after the answer are counted too
		})
		least = min(least, calls)
	}
	if redis != nil {
		t.Logf("one publish caused %d more calls to Redis (at most %d)", least-1, callsOfAPush)
		if least-1 > callsOfAPush { // the lowest count, because polls and renewals happen in between
			t.Errorf("one publish with many long polls caused %d calls", least-1)
		}
	}
	select {
	case got := <-p.answers:
		t.Errorf("a second poll was answered %s", got)
	default:
	}
}

// caused counts the requests to Redis while do runs.
func caused(t *testing.T, redis *redistest.Server, do func()) int64 {
	t.Helper()
	if redis == nil {
		do()
		return 1
	}
	return gaugetest.Requests(t, redis.URL(), do)
}
