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
	return serveAs(t, proctest.Options{}, engine, args...)
}

// serveAs is serve for a process with options.
func serveAs(t *testing.T, o proctest.Options, engine string, args ...string) *served {
	t.Helper()
	one := servertest.StartAs(t, o, engine, args...)
	s := &served{t: t, process: one.Process, url: one.URL, admin: one.AdminURL, address: one.Address(), token: one.Token}
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
