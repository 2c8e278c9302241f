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

// NeedClocks skips a test of servers with separate clocks (Ahead) if the machine can't provide such
// clocks. They need Linux and a C compiler. With CI=true a missing compiler fails the test.
func NeedClocks(t testing.TB) {
	t.Helper()
	Need(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, to give a server a separate clock")
	}
	proctest.Need(t, "cc")
}

// environment returns the server's environment, or nil for that of this process. If the options
// want a separate clock, it adds the clock.
func (p *process) environment() ([]string, error) {
	if !p.settings.ownClock {
		return nil, nil
	}
	source, library := filepath.Join(p.folder, "clock.c"), filepath.Join(p.folder, "clock.so")

	// A server that starts again finds its library.
	if _, err := os.Stat(library); err != nil {
		if err := os.WriteFile(source, clockSource, 0o600); err != nil {
			return nil, err
		}
		if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the clock library: %w: %s", err, out)
		}
	}
	// If the file exists, the clock was set before, and the server starts again.
	if _, err := os.Stat(p.clock()); err != nil {
		if err := p.setClock(p.settings.ahead); err != nil {
			return nil, err
		}
	}
	return append(os.Environ(), "LD_PRELOAD="+library, "DULY_CLOCK="+p.clock()), nil
}

func (p *process) clock() string { return filepath.Join(p.folder, "clock") }

// setClock writes the offset that the server reads whenever it uses its clock.
func (p *process) setClock(ahead time.Duration) error {
	// The file is not truncated, because the server may read it at any time.
	f, err := os.OpenFile(p.clock(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead)))
	return errors.Join(err, f.Close())
}

// SetClock sets the clock of a server with Ahead. From now on it is ahead of the machine's clock by
// d, or behind it if d is negative.
func (s *Server) SetClock(ahead time.Duration) {
	s.t.Helper()
	s.own(func(p *process) error {
		if !p.settings.ownClock {
			return errors.New("the server uses the machine's clock; start it with Ahead to set it")
		}
		return p.setClock(ahead)
	})
}
