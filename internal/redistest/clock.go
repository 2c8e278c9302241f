package redistest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
)

//go:embed testdata/clock.c
var clockSource []byte

// NeedClocks skips a test that gives servers clocks of their own (Ahead) where
// that can't be done: it takes Linux and a C compiler. Where CI=true a missing
// compiler fails it.
func NeedClocks(t testing.TB) {
	t.Helper()
	Need(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, to give a server a clock of its own")
	}
	proctest.Need(t, "cc")
}

// environment is the server's, nil for ours: with a clock of its own where the
// options ask for one.
func (p *process) environment() ([]string, error) {
	if !p.settings.ownClock {
		return nil, nil
	}
	source, library := filepath.Join(p.folder, "clock.c"), filepath.Join(p.folder, "clock.so")
	if _, err := os.Stat(library); err != nil {
		if err := os.WriteFile(source, clockSource, 0o600); err != nil {
			return nil, err
		}
		if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cc: %w: %s", err, out)
		}
	}
	if _, err := os.Stat(p.clock()); err != nil { // else it was set, and the server starts again
		if err := p.setClock(p.settings.ahead); err != nil {
			return nil, err
		}
	}
	return append(os.Environ(), "LD_PRELOAD="+library, "DULY_CLOCK="+p.clock()), nil
}

func (p *process) clock() string { return filepath.Join(p.folder, "clock") }

// setClock writes what the server reads each time that it looks at its clock.
func (p *process) setClock(ahead time.Duration) error {
	f, err := os.OpenFile(p.clock(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead)))
	return errors.Join(err, f.Close())
}

// SetClock sets the clock of a server with Ahead, so that it is that much ahead
// of the machine's from now on, or behind it.
func (s *Server) SetClock(ahead time.Duration) {
	s.t.Helper()
	s.own(func(p *process) error {
		if !p.settings.ownClock {
			return errors.New("the server goes by the machine's clock: start it with Ahead")
		}
		return p.setClock(ahead)
	})
}
