package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/auth"
)

func bare(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	e := model.New(model.Config{Clock: clock.NewFake()})
	cfg := Config{
		Engine: e, Store: Store{Registry: e, Maintainer: e}, Clock: clock.NewFake(),
		Listen: Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
	}
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.unbind)
	return s
}

func TestFirstStartWritesTokenAndAddresses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := bare(t, func(c *Config) { c.Listen.DataDir = folder })
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{auth.URLFile: s.URL(), auth.AdminURLFile: s.AdminURL()} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || strings.TrimSpace(string(b)) != want || !strings.HasPrefix(want, "http://127.0.0.1:") {
			t.Errorf("%s: %q %v, want %q", name, b, err, want)
		}
	}

	token, err := os.ReadFile(filepath.Join(folder, auth.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Guard().Check(t.Context(), auth.Credentials{Header: "Bearer " + strings.TrimSpace(string(token))},
		auth.Operator, "x"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(folder, auth.TokenFile)); err != nil ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

// C9.12: a server that can't write its address files, for instance on a full disk, logs the error
// and starts.
func TestServerStartsWithoutAddressFiles(t *testing.T) {
	t.Parallel()
	folder, log := t.TempDir(), new(logtest.Log)
	s := bare(t, func(c *Config) { c.Listen.DataDir, c.Logger = folder, log.Logger() })
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.unbind()
	for _, name := range []string{auth.URLFile, auth.AdminURLFile} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in the way"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}

	if err := s.Listen(t.Context()); err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	if s.URL() == "" || log.Count("the server's address can't be written") != 2 {
		t.Errorf("it listens on %q and logs %s", s.URL(), log.String())
	}
}

// Fault X8: an address that is not on the loopback needs a token.
func TestPublicAddressWithoutTokenIsRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){
		func(c *Config) { c.Listen.Addr = "0.0.0.0:0" }, func(c *Config) { c.Listen.Addr = ":0" },
		func(c *Config) { c.Listen.Addr = "[::]:0" }, func(c *Config) { c.Listen.AdminAddr = "0.0.0.0:0" },
	} {
		folder := t.TempDir()
		s := bare(t, func(c *Config) { c.Listen.DataDir = folder; change(c) })
		if err := s.Listen(t.Context()); duly.CodeOf(err) != duly.CodeInvalid ||
			!strings.Contains(err.Error(), "token create") {
			t.Errorf("%s, %s: %v", s.cfg.Listen.Addr, s.cfg.Listen.AdminAddr, err)
		}
		if s.URL() != "" || s.AdminURL() != "" {
			t.Error("it is still bound")
		}
		if _, err := os.Stat(filepath.Join(folder, auth.TokenFile)); err == nil {
			t.Error("a token was left for an address that others can reach")
		}
		if _, _, err := s.Guard().Create(t.Context(),
			contract.Token{Namespace: "*", Rights: contract.RightAdmin}); err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(t.Context()); err != nil {
			t.Errorf("with a token: %v", err)
		}
	}
}

func TestUsedAddressChangesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	folder := t.TempDir()
	s := bare(t, func(c *Config) { c.Listen.DataDir, c.Listen.AdminAddr = folder, taken.Addr().String() })
	if err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("%v", err)
	}
	if files, _ := os.ReadDir(folder); len(files) != 0 || s.URL() != "" {
		t.Errorf("it left %v, bound %q", files, s.URL())
	}
}

func TestBadConfigurationIsRefusedWithAllFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Listen: Listen{Addr: "nowhere"}, Limits: Limits{MaxBody: -1}, Settings: Settings{Drain: -1},
	})
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{"engine", "registry", "addr", "max_body", "drain"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not name %s: %v", want, err)
		}
	}
}

// sweeps is an engine that counts sweeps.
type sweeps struct {
	contract.Maintainer
	n   atomic.Int64
	err error
}

func (s *sweeps) Sweep(context.Context) error {
	s.n.Add(1)
	return s.err
}

// C4.75: the server sweeps at its start and every 30 s, and at the end of a lease of its own deliveries.
func TestServerSweepsInTimeAndWhenLeasesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, m := clock.NewFake(), &sweeps{}
		s := bare(t, func(c *Config) { c.Clock, c.Store.Maintainer = fake, m })
		swept := int64(0)
		s.sweep.swept = func(context.Context) { swept++ }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.sweep.run(ctx); close(done) }()

		// advance advances the clock by d, and expects n sweeps in total.
		advance := func(d time.Duration, n int64) {
			t.Helper()
			synctest.Wait()
			fake.Advance(d)
			synctest.Wait()
			if got := m.n.Load(); got != n || swept != n {
				t.Errorf("%s past the epoch it has swept %d times and said so %d times, want %d",
					fake.Now().Sub(clock.Epoch), got, swept, n)
			}
		}

		advance(0, 1)
		advance(29*time.Second, 1)
		advance(time.Second, 2)
		s.sweep.leased(5 * time.Second)
		s.sweep.leased(20 * time.Second)
		advance(4*time.Second, 2)
		advance(time.Second, 3)
		s.sweep.leased(time.Millisecond) // allows at most one sweep a second
		advance(time.Second-time.Millisecond, 3)
		advance(time.Millisecond, 4)
		s.sweep.leased(time.Hour)
		advance(29*time.Second, 4)
		advance(time.Second, 5)
		stop()
		<-done
	})
}

func TestFailedSweepIsLoggedOnce(t *testing.T) {
	t.Parallel()
	m := &sweeps{err: duly.ErrUnavailable}
	f := serve(t, func(c *Config) { c.Store.Maintainer = m })
	f.sweep.swept = func(context.Context) { t.Error("a sweep that failed is said to be done") }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.sweep.run(ctx); close(done) }()
	for i := range int64(3) { // the first sweep is at the start
		if i > 0 {
			f.clockUntilTimer()
			f.clock.Advance(30 * time.Second)
		}
		until(t, "it has swept", func() bool { return m.n.Load() == i+1 })
	}
	stop()
	<-done
	if n := strings.Count(f.log.String(), "were not swept"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// Faults R1, R2, R4: a slow head is cut off, but not a long poll.
func TestSlowHeadIsCutOffButNotALongPoll(t *testing.T) {
	t.Parallel()
	s := bare(t, func(*Config) {})
	hs := s.httpServer(s.api, nil)
	if hs.ReadHeaderTimeout <= 0 || hs.ReadHeaderTimeout > 10*time.Second || hs.IdleTimeout <= 0 {
		t.Errorf("a head may take %s, a connection idle for %s", hs.ReadHeaderTimeout, hs.IdleTimeout)
	}
	if hs.ReadTimeout != 0 || hs.WriteTimeout != 0 {
		t.Error("a long poll would be cut")
	}
	if hs.MaxHeaderBytes+(4<<10) > 16<<10 {
		t.Errorf("a head may have %d bytes and 4 KiB", hs.MaxHeaderBytes)
	}
	hs.ReadHeaderTimeout = 100 * time.Millisecond // makes the test short
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go hs.Serve(l)
	defer hs.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stop := make(chan struct{})

	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				conn.Write([]byte("G"))
			}
		}
	}()

	b, _ := io.ReadAll(conn) // returns after the server has closed the connection
	close(stop)
	if len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 4") {
		t.Errorf("it was answered %q", b)
	}
}

// Fault R3: many large requests at the same time share a bounded memory, and all of them succeed.
func TestManyLargeRequestsShareTheirMemory(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	body := `{"jobs":[{"queue":"q","body":"` + strings.Repeat("x", 900<<10) + `"}]}`
	answers := make(chan answer)
	const n = 60
	for range n {
		go func() { answers <- f.send("POST", "/v1/default/push", body) }()
	}
	for range n {
		if a := <-answers; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if ready := f.sizes("q").Ready; ready != n {
		t.Errorf("%d of %d jobs", ready, n)
	}
}

// Listen refuses a data folder that other users can write to, because another user could put an
// operator's token in it.
func TestListenRefusesDataFolderWritableByOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("folders have no mode")
	}

	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	s := bare(t, func(c *Config) { c.Listen.DataDir = folder })
	if err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "written to by others") {
		t.Errorf("mode 0777: %v", err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Errorf("mode 0755: %v", err)
	}
	s.unbind()
}
