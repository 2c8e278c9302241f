package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// Stub is a server in the test process with scripted answers, which a real server can't give, or
// not on this machine. It uses protocol 3 for a client that asks for it with HELLO.
type Stub struct {
	t       testing.TB
	l       net.Listener
	version string
	answer  func(args []string) any
	lastID  atomic.Int64
	end     chan struct{} // closed at the end of the test
	wg      sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	seen  [][]string
}

// These are possible answers of the function, in addition to the values of package resp.
type (
	// Usual leaves the answer to the stub. It answers like an idle server of its version, which
	// knows only the commands that clients send to introduce themselves.
	Usual struct{}
	// Silence answers neither this request nor later requests on the same connection, which stays
	// open.
	Silence struct{}
	// HangUp closes the connection.
	HangUp struct{}
	// Late answers when the channel is closed. Until then this connection answers no request. Other
	// connections do.
	Late struct {
		When   <-chan struct{}
		Answer any
	}
)

// NewStub starts a stub with this version, such as "7.2.4". The function answers each request, with
// its name as the client wrote it. All connections call it concurrently, each in the order of its
// requests. The function must not block; use Late to delay an answer.
func NewStub(t testing.TB, version string, answer func(args []string) any) *Stub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stub{t: t, l: l, version: version, answer: answer, end: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		// end closes first, so that no connection enters after Drop.
		close(s.end)
		l.Close()
		s.Drop()
		s.wg.Wait()
	})
	return s
}

// Addr returns the stub's address, as host:port.
func (s *Stub) Addr() string { return s.l.Addr().String() }

// URL returns redis://HOST:PORT.
func (s *Stub) URL() string { return "redis://" + s.Addr() }

// Seen returns all requests so far, in the order of their arrival.
func (s *Stub) Seen() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Count returns how many requests with this name have come so far.
func (s *Stub) Count(name string) int {
	n := 0
	for _, args := range s.Seen() {
		if strings.EqualFold(args[0], name) {
			n++
		}
	}
	return n
}

// Drop closes all connections. New connections are accepted.
func (s *Stub) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *Stub) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			// The listener was closed.
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			if !s.enter(c) {
				return
			}
			defer s.leave(c)
			if err := s.serve(c); err != nil && !parted(err) {
				s.t.Errorf("a client of the stub: %v", err)
			}
		})
	}
}

// enter registers a connection, so that Drop closes it. It returns false after the end of the
// test.
func (s *Stub) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.end:
		return false
	default:
		s.conns[c] = true
		return true
	}
}

func (s *Stub) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// parted reports whether an error is only the end of a connection.
func parted(err error) bool {
	var n net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &n)
}

// stubConn is one connection of a client.
type stubConn struct {
	stub    *Stub
	id      int64
	version int // version of the protocol
	silent  bool
	out     io.Writer
}

func (s *Stub) serve(c net.Conn) error {
	conn := &stubConn{stub: s, id: s.lastID.Add(1), version: 2, out: c}
	in := resp.NewReader(c)
	for {
		args, err := in.ReadCommand()
		if err != nil {
			return err
		}
		s.mu.Lock()
		// The request is recorded even if it gets no reply.
		s.seen = append(s.seen, args)
		s.mu.Unlock()

		// A silent connection still reads, so that the client's writes do not block.
		if conn.silent {
			continue
		}
		if err := conn.reply(args, s.answer(args)); err != nil {
			return err
		}
	}
}

func (c *stubConn) reply(args []string, answer any) error {
	switch a := answer.(type) {
	case Silence:
		c.silent = true
		return nil
	case HangUp:
		return io.EOF
	case Late:
		select {
		case <-a.When:
			return c.reply(args, a.Answer)
		case <-c.stub.end:
			return io.EOF
		}
	case Usual:
		answer = c.usual(args)
	}
	_, err := c.out.Write(resp.Append(nil, answer, c.version))
	return err
}

// usual answers as an idle server does.
func (c *stubConn) usual(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return c.hello(args[1:])
	case "PING":
		if len(args) > 1 {
			return args[1]
		}
		return resp.Simple("PONG")
	case "AUTH", "SELECT", "READONLY", "QUIT":
		return resp.Simple("OK")
	case "CLIENT":
		if len(args) > 1 && strings.EqualFold(args[1], "ID") {
			return c.id
		}
		// The answer to SETINFO, SETNAME, TRACKING, CACHING, NO-TOUCH and so on.
		return resp.Simple("OK")
	case "CLUSTER":
		return resp.Error("ERR This instance has cluster support disabled")
	case "INFO":
		return fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n# "+
			"Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"+
			"# Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# "+
			"Cluster\r\ncluster_enabled:0\r\n", c.stub.version)
	}

	return resp.Error(fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: ", args[0]))
}

func (c *stubConn) hello(args []string) any {
	if len(args) > 0 {
		switch args[0] {
		case "2":
			c.version = 2
		case "3":
			c.version = 3
		default:
			return resp.Error("NOPROTO unsupported protocol version")
		}
	}
	return resp.Map{
		"server", "redis", "version", c.stub.version, "proto", c.version, "id", c.id,
		"mode", "standalone", "role", "master", "modules", []any{},
	}
}
