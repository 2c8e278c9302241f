package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

func TestMain(m *testing.M) {
	proctest.Main(leakChecked{m}, proctest.Roles{"owner": runOwner})
}

// leakChecked fails the tests if they leave a goroutine behind. The shared servers keep running,
// but have no goroutines.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestSingleRunsUntilItsTestEnds(t *testing.T) {
	t.Parallel()
	var folder, address string
	t.Run("Answers", func(t *testing.T) {
		s := Single(t)
		folder, address = s.Folder(), s.Addr()
		if got := s.Must("SET", "k", "a\r\nb\x00"); got != "OK" {
			t.Errorf("SET answers %v", got)
		}
		if got := s.Must("GET", "k"); got != "a\r\nb\x00" {
			t.Errorf("GET answers %q", got)
		}
		if got := s.Must("CONFIG", "GET", "save"); fmt.Sprint(got) != "[save ]" {
			t.Errorf("snapshots are on: %v", got)
		}
		if _, err := s.Do(t.Context(), "NOSUCH"); !strings.HasPrefix(string(refusal(t, err)), "ERR unknown command") {
			t.Errorf("an unknown command answers %v", err)
		}
		over(t, s.Addr(), nil)
		if got, want := s.SocketURL(), "redis+unix://"+s.Socket(); got != want || !strings.HasPrefix(s.Socket(), "/") {
			t.Errorf("URL %s, want %s", got, want)
		}
	})

	if t.Failed() || t.Skipped() || address == "" {
		return
	}
	gone(t, address, folder)
}

// over sends a request through TCP, as a client does.
func over(t *testing.T, address string, config *tls.Config) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		config.ServerName = "localhost"
		nc = tls.Client(nc, config)
	}
	c := resp.NewConn(nc)
	defer c.Close()
	if got, err := c.Do(t.Context(), "PING"); got != "PONG" {
		t.Errorf("PING over %s answers %v, %v", address, got, err)
	}
}

func gone(t *testing.T, address, folder string) {
	t.Helper()
	Await(t, "nobody listens on "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	Await(t, folder+" is removed", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
}

func refusal(t *testing.T, err error) resp.Error {
	t.Helper()
	var e resp.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return e
}

func TestSharedReturnsOneServerAndAPrefixPerTest(t *testing.T) {
	t.Parallel()
	a, one := Shared(t)
	b, two := Shared(t)
	if a.Addr() != b.Addr() {
		t.Errorf("two servers, at %s and %s", a.Addr(), b.Addr())
	}
	if one == two || strings.HasPrefix(one, two) || strings.HasPrefix(two, one) {
		t.Errorf("prefixes %s and %s", one, two)
	}
	for what, do := range map[string]func(*Server){"Kill": (*Server).Kill, "Stop": (*Server).Stop,
		"Pause": (*Server).Pause, "Restart": (*Server).Restart} {
		if f := failing(t, func(t testing.TB) { do(&Server{t: t, p: a.p, shared: true}) }); !f.failed {
			t.Errorf("%s of the shared server was allowed", what)
		}
	}
	a.Must("SET", one, "still there")
}

// failing runs f as a separate test that may fail.
func failing(t *testing.T, f func(testing.TB)) *failed {
	tb := &failed{TB: t}
	done := make(chan struct{})
	go func() { // runs in a goroutine, because Fatal ends the goroutine
		defer close(done)
		f(tb)
	}()
	<-done
	return tb
}

type failed struct {
	testing.TB
	failed bool
	text   string
}

func (f *failed) Errorf(format string, args ...any) {
	f.failed, f.text = true, fmt.Sprintf(format, args...)
}
func (f *failed) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
func (f *failed) Fatal(args ...any) {
	f.Errorf("%s", fmt.Sprint(args...))
	runtime.Goexit()
}
func (f *failed) Skipf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *failed) Helper() {}

func TestAMissingServerProgramSkipsTheTest(t *testing.T) {
	t.Setenv("DULY_REDIS_SERVER", "no-such-server")
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		f := failing(t, func(t testing.TB) { Single(t) })
		if f.failed != (ci == "true") || !strings.Contains(f.text, "no-such-server") {
			t.Errorf("CI=%s: failed %t, with %q", ci, f.failed, f.text)
		}
	}
}

func TestWritesSurviveAsTheOptionsPromise(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		opts     []Option
		end      func(*Server)
		survives bool
	}{
		{"AlwaysKilled", []Option{AOF("always")}, (*Server).Kill, true},
		{"EverysecStopped", []Option{AOF("everysec")}, (*Server).Stop, true},
		{"NothingKilled", nil, (*Server).Kill, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Single(t, tt.opts...)
			address := s.Addr()
			s.Must("SET", "k", "v")
			tt.end(s)
			if _, err := s.Do(t.Context(), "PING"); err == nil {
				t.Error("it answered after its end")
			}

			tt.end(s) // may be called repeatedly
			s.Restart()
			if s.Addr() != address {
				t.Errorf("was at %s, is at %s", address, s.Addr())
			}
			if got := s.Must("GET", "k"); (got == "v") != tt.survives {
				t.Errorf("GET answers %v", got)
			}
		})
	}
}

func TestRestartOfARunningServerKeepsItsData(t *testing.T) {
	t.Parallel()
	s := Single(t, AOF("no"))
	was := s.Must("INFO", "server")
	s.Must("SET", "k", "v")
	s.Restart()
	if s.Must("INFO", "server") == was || s.Must("GET", "k") != "v" {
		t.Error("not restarted, or not with its data")
	}
}

func TestPauseAnswersNothingUntilContinue(t *testing.T) {
	t.Parallel()
	s := Single(t)
	c, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Pause()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Do(soon, "PING"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server answers %v", err)
	}
	if err := c.Send("PING"); err != nil {
		t.Error(err)
	}

	s.Continue()
	if got, err := c.Receive(); got != "PONG" {
		t.Errorf("after Continue: %v, %v", got, err)
	}
	s.Pause()
	s.Stop() // a paused server can be stopped
	s.Restart()
	s.Pause() // a paused server ends with its test
}

func TestOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	s := Single(t, Password("geheim"), MaxMemory("3mb", "allkeys-lru"), User("half", "pw:@/?", "~duly:*", "+@read"),
		Config("slowlog-max-len %d", 7))
	for parameter, want := range map[string]string{"maxmemory": "3145728", "maxmemory-policy": "allkeys-lru",
		"slowlog-max-len": "7"} {
		if got := s.Must("CONFIG", "GET", parameter); fmt.Sprint(got) != fmt.Sprintf("[%s %s]", parameter, want) {
			t.Errorf("CONFIG GET %s: %v", parameter, got)
		}
	}

	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := resp.NewConn(nc)
	defer c.Close()
	if _, err := c.Do(t.Context(), "PING"); refusal(t, err) != "NOAUTH Authentication required." {
		t.Errorf("without a password: %v", err)
	}
	if _, err := c.Do(t.Context(), "AUTH", "half", "pw:@/?"); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), "GET", "duly:x"); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), "SET", "duly:x", "1"); !strings.HasPrefix(string(refusal(t, err)), "NOPERM") {
		t.Errorf("a user with read access wrote: %v", err)
	}
	if got, want := s.URL(), "redis://:geheim@"+s.Addr(); got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
	if got, want := s.SocketURL(), "redis+unix://:geheim@"+s.Socket(); got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
	if got, want := s.UserURL("half"), "redis://half:pw%3A%40%2F%3F@"+s.Addr(); got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
}

func TestReplicaReceivesWrites(t *testing.T) {
	t.Parallel()
	s := Single(t, Password("geheim"))
	r := s.Replica()
	s.Must("SET", "k", "v")
	if got := s.Must("WAIT", 1, patience.Milliseconds()); got != int64(1) || r.Must("GET", "k") != "v" {
		t.Errorf("%v replicas have it", got)
	}
	if _, err := r.Do(t.Context(), "SET", "k", "w"); !strings.HasPrefix(string(refusal(t, err)), "READONLY ") {
		t.Errorf("a replica accepted a write: %v", err)
	}
}

func TestOnlyTheTCPPortUsesTLS(t *testing.T) {
	t.Parallel()
	s := Single(t, TLS())
	over(t, s.Addr(), s.TLSConfig())
	if _, err := os.Stat(s.CAFile()); err != nil {
		t.Error(err)
	}
	if want := "rediss://" + s.Addr(); s.URL() != want {
		t.Errorf("URL %s, want %s", s.URL(), want)
	}
	nc, err := tls.Dial("tcp", s.Addr(), &tls.Config{ServerName: "localhost"})
	if err == nil {
		nc.Close()
		t.Error("the test's authority is trusted without being configured")
	}
	if got := s.Must("PING"); got != "PONG" {
		t.Errorf("the unix socket answers %v", got)
	}
}

func TestAServerThatFailsToStartReportsTheReason(t *testing.T) {
	t.Parallel()
	Need(t)
	for _, tt := range []struct{ name, line, want string }{
		{"BeforeItHasALog", "no-such-setting 1", "no-such-setting"},
		{"InItsLog", "aclfile /no/such/file", "/no/such/file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := failing(t, func(t testing.TB) { Single(t, Config("%s", tt.line)) })
			if !f.failed || !strings.Contains(f.text, tt.want) {
				t.Errorf("failed %t, with %q", f.failed, f.text)
			}
		})
	}
}

// A port that another program took before the start is not a failure, because another port is
// tried.
func TestATakenPortIsRecognizedAtTheStart(t *testing.T) {
	t.Parallel()
	s := Single(t)
	if _, err := launchAt(newSettings(nil), s.p.port, io.NopCloser(nil)); err == nil || !taken(err) {
		t.Errorf("a second server on %s: %v", s.Addr(), err)
	}
}

// runOwner starts servers and waits to be killed.
func runOwner([]string) error {
	for range 2 {
		p, err := launch(newSettings(nil))
		if err != nil {
			return err
		}
		fmt.Println("server", p.address(), p.folder)
	}
	p, err := launch(newSettings(nil))
	if err != nil {
		return err
	}
	if err := p.remove(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-time.After(time.Hour)
	return nil
}

func TestServersEndWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	Need(t)
	p := proctest.Start(t, proctest.Options{}, "owner")
	if !p.Await("ready", 1, patience) {
		t.Fatal("the owner has started no server:", p.Lines())
	}
	p.Kill()
	for _, line := range p.Lines()[:2] {
		words := strings.Fields(line)
		gone(t, words[1], words[2])
	}
}
