package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// Server is one Redis server, for one test. Its methods fail that test on an error.
type Server struct {
	t      testing.TB
	p      *process
	shared bool
}

// Need skips a test on a machine without redis-server, and fails it if CI=true. Every function
// that starts a server calls it first.
func Need(t testing.TB) {
	t.Helper()
	proctest.Need(t, program(), "sh")
}

// Single starts a server for this test only.
func Single(t testing.TB, opts ...Option) *Server {
	t.Helper()
	Need(t)
	return single(t, newSettings(opts))
}

func single(t testing.TB, settings settings) *Server {
	t.Helper()
	p, err := launch(settings)
	if err != nil {
		t.Fatal(err)
	}
	removeAll(t, []*process{p})
	return &Server{t: t, p: p}
}

// Replica starts a server that follows this one, for the same test, and waits until it does. The
// replica has the same password.
func (s *Server) Replica(opts ...Option) *Server {
	s.t.Helper()
	settings := newSettings(opts)
	// The replica needs the password to log in to its primary.
	settings.password = s.p.settings.password
	settings.lines = append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", s.p.port)}, settings.lines...)
	r := single(s.t, settings)
	await(s.t, "the replica follows", func(ctx context.Context) error { return following(ctx, s.p, []*Server{s, r}) })
	return r
}

var (
	sharedServer = sync.OnceValues(func() (*process, error) { return launch(newSettings(nil)) })
	lastPrefix   atomic.Uint32
)

// Shared returns the server that all tests of this process share, as Single without options starts
// it, and a prefix for this call's keys. No prefix of another call begins with this prefix. A test
// may neither stop nor reconfigure the server, nor use commands on all keys, such as FLUSHALL.
func Shared(t testing.TB) (s *Server, prefix string) {
	t.Helper()
	Need(t)
	p, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return &Server{t: t, p: p, shared: true}, newPrefix()
}

func newPrefix() string { return fmt.Sprintf("t%06d", lastPrefix.Add(1)) }

// Addr returns the server's address, as host:port.
func (s *Server) Addr() string { return s.p.address() }

// Socket returns the path of its unix socket.
func (s *Server) Socket() string { return s.p.socket() }

// Folder returns the folder of its files.
func (s *Server) Folder() string { return s.p.folder }

// Log returns the end of its log.
func (s *Server) Log() string { return s.p.tail() }

// URL returns redis://127.0.0.1:PORT, with the password if there is one, and rediss: with TLS.
func (s *Server) URL() string { return s.url("", s.p.settings.password) }

// UserURL is like URL but with the name and password of a user from the option User.
func (s *Server) UserURL(name string) string {
	s.t.Helper()
	password, ok := s.p.settings.users[name]
	if !ok {
		s.t.Fatalf("the server was started without the user %s", name)
	}
	return s.url(name, password)
}

func (s *Server) url(name, password string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.p.trust != nil {
		u.Scheme = "rediss"
	}
	if password != "" {
		u.User = url.UserPassword(name, password)
	}
	return u.String()
}

// SocketURL returns redis+unix:///PATH, with the password if there is one.
func (s *Server) SocketURL() string {
	u := url.URL{Scheme: "redis+unix", Path: s.Socket()}
	if password := s.p.settings.password; password != "" {
		u.User = url.UserPassword("", password)
	}
	return u.String()
}

// CAFile returns the file of the authority that signed the certificate of a server with TLS.
func (s *Server) CAFile() string { return s.trust().caFile }

// TLSConfig returns the configuration of a client for a server with TLS.
func (s *Server) TLSConfig() *tls.Config { return s.trust().client() }

func (s *Server) trust() *certificate {
	s.t.Helper()
	if s.p.trust == nil {
		s.t.Fatal("the server was started without TLS")
	}
	return s.p.trust
}

// Dial connects through the unix socket, as the default user.
func (s *Server) Dial(ctx context.Context) (*resp.Conn, error) { return s.p.dial(ctx) }

// Do sends one command on a new connection, as the default user. The reply has the types of
// package resp. A refusal is a resp.Error.
func (s *Server) Do(ctx context.Context, args ...any) (any, error) { return s.p.do(ctx, args...) }

// Must is like Do, for a command that can't fail while the server runs.
func (s *Server) Must(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := s.Do(ctx, args...)
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Kill ends the server as kill -9 does: unwritten data is lost.
func (s *Server) Kill() { s.t.Helper(); s.own((*process).kill) }

// Stop ends the server as SIGTERM does, and waits until it has ended.
func (s *Server) Stop() { s.t.Helper(); s.own((*process).stop) }

// Pause suspends the process. The process keeps its connections, and the system accepts new ones,
// but no request is answered.
func (s *Server) Pause() { s.t.Helper(); s.own((*process).pause) }

// Continue ends a Pause.
func (s *Server) Continue() { s.t.Helper(); s.own((*process).proceed) }

// Restart starts the server again on the same port, with the data in its folder. A running server
// is stopped first. The call returns when the server has loaded its data and answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.own((*process).stop)
	s.own((*process).start)
}

// own runs an operation that only the server's own test may do.
func (s *Server) own(do func(*process) error) {
	s.t.Helper()
	if s.shared {
		s.t.Fatal("a shared server belongs to all tests: use Single to stop one")
	}
	if err := do(s.p); err != nil {
		s.t.Fatal(err)
	}
}

// RewriteLog rewrites the append-only file and waits until it is written. A server that was
// killed in the middle of a script's changes truncates the file after the last whole command, so
// the script's MULTI stays without its EXEC. A second load of that file would apply half of the
// script.
func (s *Server) RewriteLog() {
	s.t.Helper()
	// The server refuses while it rewrites the log on its own. That rewrite may have begun before
	// the caller's changes.
	Await(s.t, "the server begins to rewrite its log", func() bool {
		_, err := s.Do(s.t.Context(), "BGREWRITEAOF")
		if err != nil && !strings.Contains(err.Error(), "already in progress") {
			s.t.Fatal(err)
		}
		return err == nil
	})

	Await(s.t, "the log is rewritten", func() bool {
		info, _ := s.Must("INFO", "persistence").(string)
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
	})
}
