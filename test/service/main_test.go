package service

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{servertest.RoleName: servertest.Role(nil)})
}

// served is a running server.
type served struct {
	t          *testing.T
	process    *proctest.Process
	url, admin string
	address    string // host and port of url
	token      string
	receipt    string // receipt of the last delivery
	stopped    bool
}

// patience bounds everything that a server does at once, on a busy machine.
const patience = 60 * time.Second

// serve starts a server on an engine. It is stopped, without an error, when the test ends.
func serve(t *testing.T, engine string, args ...string) *served {
	t.Helper()
	return serveAs(t, proctest.Options{}, engine, args...)
}

// serveAs is like serve for a process with options.
func serveAs(t *testing.T, o proctest.Options, engine string, args ...string) *served {
	t.Helper()
	one := servertest.StartAs(t, o, engine, args...)
	s := &served{t: t, process: one.Process, url: one.URL, admin: one.AdminURL, address: one.Address(), token: one.Token}
	t.Cleanup(s.stop)
	return s
}

// stop stops the server with SIGTERM.
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

// memory returns the resident memory of the process in bytes.
func (s *served) memory(t *testing.T) int64 { t.Helper(); return proctest.Memory(t, s.process.Pid()) }

// cpu returns the CPU time that the process has used.
func (s *served) cpu(t *testing.T) time.Duration { t.Helper(); return proctest.CPU(t, s.process.Pid()) }

// onFile returns the URL of a new file.
func onFile(t *testing.T) string {
	return open.File(filepath.Join(t.TempDir(), "duly.db"))
}

// counts returns the count for the short or the long form. It returns less under the race
// detector.
func counts(short, long int) int {
	switch {
	case proctest.Long():
		return long
	case testing.Short():
		return max(1, short/3)
	}
	return short
}
