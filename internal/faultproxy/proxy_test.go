package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dulymq/duly/internal/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends each line back and keeps everything it received.
type echo struct {
	net.Listener
	mu    sync.Mutex
	lines []string
	ends  int // number of connections that the client has closed
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	e := &echo{Listener: l}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			wg.Go(func() {
				defer stop()
				defer c.Close()
				e.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		wg.Wait()
	})

	return e
}

func (e *echo) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		e.mu.Lock()
		if err == nil {
			e.lines = append(e.lines, strings.TrimSpace(line))
		} else {
			e.ends++
		}
		e.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}

func (e *echo) got() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, " ")
}

func (e *echo) finished() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ends
}

// caller is a client of the echo server.
type caller struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

func call(t *testing.T, p *Proxy) *caller {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t, c.(*net.TCPConn), bufio.NewReader(c)}
}

func (c *caller) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Error(err)
	}
}

func (c *caller) receive(want string) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if got, err := c.in.ReadString('\n'); got != want+"\n" {
		c.t.Errorf("received %q, %v, want %q", got, err, want)
	}
}

func (c *caller) receivesNothing() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if got, err := c.in.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("received %q, %v", got, err)
	}
}

func (c *caller) ends(want error) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if got, err := c.in.ReadString('\n'); !errors.Is(err, want) {
		c.t.Errorf("received %q, %v, want %v", got, err, want)
	}
}

func TestNewForwardsBytes(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := New(t, e.Addr().String())
	c := call(t, p)
	long := strings.Repeat("x", 1<<20)
	for _, line := range []string{"a", "", long} {
		c.send(line)
		c.receive(line)
	}

	p.Delay(20 * time.Millisecond) // with the delay, a close that overtakes the data would be noticed
	c.send("last")
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}

	c.receive("last") // the server answers lines that were sent before the end
	c.ends(io.EOF)
	eventually.True(t, "the connection is forgotten", func() bool { return p.Open() == 0 })
	if p.Accepted() != 1 {
		t.Errorf("accepted %d", p.Accepted())
	}
}

func TestDelayDelaysOnlyReplies(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := New(t, e.Addr().String())
	c := call(t, p)
	const delay = 50 * time.Millisecond
	p.Delay(delay)
	begun := time.Now()
	for i := range 20 {
		c.send(fmt.Sprint(i))
	}

	eventually.True(t, "the requests arrive", func() bool { return strings.HasSuffix(e.got(), "19") })
	for i := range 20 {
		c.receive(fmt.Sprint(i))
	}
	took := time.Since(begun)
	if took < delay {
		t.Errorf("answered after %v", took)
	}
	if took > 10*delay { // the delays of several lines must not add up
		t.Errorf("20 lines took %v", took)
	}
	p.Delay(time.Hour)
	c.send("still arrives")
	eventually.True(t, "the request arrives", func() bool { return strings.HasSuffix(e.got(), "still arrives") })
}

func TestCutHoldsBytesBackUntilHeal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cut  Direction
		got  string
	}{{"ToServer", ToServer, "before"}, {"ToClient", ToClient, "before held"}, {"Both", Both, "before"}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			p := New(t, e.Addr().String())
			c := call(t, p)
			c.send("before")
			c.receive("before")
			p.Cut(tt.cut)
			c.send("held")
			c.receivesNothing()
			eventually.True(t, "the server has got "+tt.got, func() bool { return e.got() == tt.got })
			late := call(t, p) // the connection is accepted, but the call is not answered
			late.receivesNothing()
			p.Heal()
			c.receive("held")
			late.send("late")
			late.receive("late")
		})
	}
}

func TestResetBreaksConnections(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := New(t, e.Addr().String())
	c := call(t, p)
	c.send("a")
	c.receive("a")
	p.Reset()
	c.ends(syscall.ECONNRESET)
	eventually.True(t, "the server sees its end", func() bool { return e.finished() == 1 })
	again := call(t, p)
	again.send("b")
	again.receive("b")
}

// TestResumeWaitsForItsPort keeps a listener at the port of a stopped proxy, as a process does that
// is being started and has a copy of the old listener.
func TestResumeWaitsForItsPort(t *testing.T) {
	t.Parallel()
	p := New(t, newEcho(t).Addr().String())
	p.Stop()
	old, err := net.Listen("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}

	resumed := make(chan struct{})
	go func() {
		p.Resume()
		close(resumed)
	}()
	old.Close()
	eventually.Receive(t, "the end of Resume", resumed)
	c := call(t, p)
	c.send("a")
	c.receive("a")
}

func TestStopRefusesUntilResume(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	p := New(t, e.Addr().String())
	c := call(t, p)
	c.send("a")
	c.receive("a")
	p.Stop()
	p.Stop()
	c.ends(syscall.ECONNRESET)
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a stopped proxy: %v", err)
	}
	if claim, err := net.ListenPacket("udp", p.Addr()); err == nil {
		claim.Close()
		t.Error("the port of a stopped proxy is free for others")
	}

	at := p.Addr()
	p.Resume()
	p.Resume()
	if p.Addr() != at {
		t.Errorf("was at %s, is at %s", at, p.Addr())
	}
	c = call(t, p)
	c.send("b")
	c.receive("b")
}

func TestRetargetMovesNewConnections(t *testing.T) {
	t.Parallel()
	gone, other := newEcho(t), newEcho(t)
	p := New(t, gone.Addr().String())
	gone.Close()
	// The reset may come before the connection is complete.
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		// A reset before the first read is reported as the end.
		if got, err := bufio.NewReader(c).ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("received %q, %v, want the end of the connection", got, err)
		}
		c.Close()
	}
	p.Retarget(other.Addr().String())
	c := call(t, p)
	c.send("a")
	c.receive("a")
	if got := other.got(); got != "a" {
		t.Errorf("the other server got %q", got)
	}
}
