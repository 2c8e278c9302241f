package service

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{"server": runServer})
}

// runServer is a server until it is told to stop. Its one line of output says
// where it is, and a token for everything where it was not given one.
func runServer(args []string) error {
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	engine := f.String("engine", "", "")
	addr := f.String("addr", "127.0.0.1:0", "")
	delay := f.Duration("drain-delay", 0, "")
	token := f.Bool("token", true, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.DiscardHandler)
	e, err := open.Engine(ctx, *engine, open.Log(log), open.Gather())
	if err != nil {
		return err
	}
	defer e.Close()
	c := server.Config{Engine: e, Addr: *addr, AdminAddr: "127.0.0.1:0", DrainDelay: *delay, Logger: log}
	c.Maintainer, _ = e.(duly.Maintainer)
	c.Registry, _ = e.(duly.Registry)
	c.Watcher, _ = e.(duly.Watcher)
	c.Limiter, _ = e.(duly.Limiter)
	c.Backuper, _ = e.(duly.Backuper)
	s, err := server.New(c)
	if err == nil {
		err = s.Listen(ctx)
	}
	if err != nil {
		return err
	}
	secret := "-"
	if *token {
		if secret, _, err = s.Guard().Create(ctx, duly.Token{Namespace: duly.AllNamespaces, Rights: duly.RightAdmin}); err != nil {
			return err
		}
	}
	fmt.Println("serving", s.URL(), s.AdminURL(), secret)
	return s.Serve(ctx)
}

// served is a running server.
type served struct {
	t          *testing.T
	process    *proctest.Process
	url, admin string
	address    string // of the url
	token      string
	receipt    string // of the last delivery
	stopped    bool
}

// patience is how long anything may take that a server does at once, on a
// machine that is busy with something else.
const patience = 60 * time.Second

// serve starts a server on an engine; it is stopped, and must end well, when the
// test ends.
func serve(t *testing.T, engine string, args ...string) *served {
	t.Helper()
	s := &served{t: t, process: proctest.Start(t, proctest.Options{}, "server", append([]string{"-engine", engine}, args...)...)}
	if !s.process.Await("serving ", 1, patience) {
		t.Fatal("the server did not come up")
	}
	words := strings.Fields(s.process.Lines()[0])
	s.url, s.admin, s.token = words[1], words[2], words[3]
	s.address = strings.TrimPrefix(s.url, "http://")
	t.Cleanup(s.stop)
	return s
}

// stop stops the server, as SIGTERM does.
func (s *served) stop() {
	s.t.Helper()
	if s.stopped {
		return
	}
	s.stopped = true
	if err := s.process.Stop(); err != nil {
		s.t.Error(err)
	}
	if err := s.process.Wait(patience); err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
}

// memory is what the process has in RAM, in bytes.
func (s *served) memory(t *testing.T) int64 { t.Helper(); return proctest.Memory(t, s.process.Pid()) }

// cpu is the processor time that the process has used.
func (s *served) cpu(t *testing.T) time.Duration { t.Helper(); return proctest.CPU(t, s.process.Pid()) }

// onFile is the URL of a fresh file.
func onFile(t *testing.T) string {
	return open.File(filepath.Join(t.TempDir(), "duly.db"))
}

// counts chooses between the short and the long form. Under the race detector
// the short one is shorter still.
func counts(short, long int) int {
	switch {
	case proctest.Long():
		return long
	case testing.Short():
		return max(1, short/3)
	}
	return short
}
