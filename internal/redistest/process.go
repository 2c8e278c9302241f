package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// process is one server: a folder, a port, and a pid while the server runs.
type process struct {
	settings settings
	leash    *leash
	folder   string
	port     int
	bus      int // port of the cluster bus
	claims   []io.Closer
	trust    *certificate
	front    string // host:port of the proxy that the other servers connect to

	mu      sync.Mutex
	cmd     *exec.Cmd // nil while the server is not running
	output  *os.File  // standard output and error of the server
	stopped bool      // whether the server was suspended by SIGSTOP
}

// running reports whether the server was started and not ended, killed or suspended.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && !p.stopped
}

func (p *process) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// known returns the address by which the other servers know this server.
func (p *process) known() string { return cmp.Or(p.front, p.address()) }

func (p *process) socket() string { return filepath.Join(p.folder, "socket") }
func (p *process) conf() string   { return filepath.Join(p.folder, "conf") }
func (p *process) log() string    { return filepath.Join(p.folder, "log") }

// start starts the server in its folder, on its port, and returns when it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return errors.New("the server is already running")
	}

	// A file that exists belongs to the server. Sentinels rewrite their own configuration files,
	// and those of the servers that they promote or demote.
	if _, err := os.Stat(p.conf()); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(p.conf(), []byte(p.configuration()), 0o600); err != nil {
			return err
		}
	}

	// A killed server leaves its socket behind.
	os.Remove(p.socket())
	args := slices.Concat(p.settings.under, []string{program(), p.conf()})
	if p.settings.sentinel {
		args = append(args, "--sentinel")
	}

	cmd := exec.Command(args[0], args[1:]...)
	var err error
	if cmd.Env, err = p.environment(); err != nil {
		return err
	}
	if err := p.spawn(cmd); err != nil {
		return err
	}
	if err := p.ready(); err != nil {
		p.end()
		return fmt.Errorf("%s did not start: %w; the end of its log:\n%s", program(), err, p.tail())
	}

	return nil
}

func (p *process) spawn(cmd *exec.Cmd) error {
	output, its, err := os.Pipe()
	if err != nil {
		return err
	}

	// Only the server keeps the writing end, so the end of its output is its own end.
	defer its.Close()
	cmd.Stdout, cmd.Stderr = its, its
	if err := cmd.Start(); err != nil {
		return errors.Join(err, output.Close())
	}
	p.cmd, p.output, p.stopped = cmd, output, false
	if err := p.leash.hold(cmd.Process.Pid); err != nil {
		p.end()
		return err
	}
	return nil
}

// ready waits until the server answers, or has ended.
func (p *process) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var complaint []byte
	for {
		err := p.ping(ctx)
		if err == nil && len(p.settings.first) > 0 {
			_, err = p.do(ctx, p.settings.first...)
		}
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			return fmt.Errorf("no answer in %v: %w %s", patience, err, complaint)
		}

		// The end of its output is the end of the process. Waiting briefly for it also is the
		// pause between two tries.
		p.output.SetReadDeadline(time.Now().Add(time.Millisecond))
		more, err := io.ReadAll(p.output)
		complaint = append(complaint, more...)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("the server has ended: %s", complaint)
		}
	}
}

// ping checks that the server answers and has its data. A refusal for a missing password also
// counts as an answer.
func (p *process) ping(ctx context.Context) error {
	c, err := p.dial(ctx)
	if err == nil {
		defer c.Close()
		_, err = c.Do(ctx, "PING")
	}
	var answer resp.Error
	if errors.As(err, &answer) && !strings.HasPrefix(string(answer), "LOADING") {
		return nil
	}
	return err
}

// dial connects through the unix socket, as the default user.
func (p *process) dial(ctx context.Context) (*resp.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", p.socket())
	if err != nil {
		return nil, err
	}
	c := resp.NewConn(nc)
	if p.settings.password == "" {
		return c, nil
	}
	if _, err := c.Do(ctx, "AUTH", p.settings.password); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// do sends one command on a new connection.
func (p *process) do(ctx context.Context, args ...any) (any, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

// tail returns the end of the server's log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// kill ends the server as kill -9 does. It may be called repeatedly.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	return p.end()
}

// end kills and reaps the process. The caller holds the lock. end takes the pid off the leash
// before it reaps the process, because the system can reuse a reaped pid.
func (p *process) end() error {
	p.cmd.Process.Kill()
	err := p.leash.release(p.cmd.Process.Pid)
	// The exit status of a killed process is not an error here.
	p.cmd.Wait()
	p.cmd = nil
	return errors.Join(err, p.output.Close())
}

// stop ends the server as SIGTERM does, and waits until it has ended.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	// A suspended process would not handle the signal.
	if err := p.resume(); err != nil {
		return err
	}
	if err := terminate(p.cmd.Process); err != nil {
		return err
	}
	p.output.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, p.output); err != nil {
		return errors.Join(fmt.Errorf("the server did not end within %v; the end of its log:\n%s", patience, p.tail()),
			p.end())
	}
	return p.end()
}

func (p *process) pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New("the server is not running")
	}
	p.stopped = true
	return suspend(p.cmd.Process)
}

func (p *process) proceed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New("the server is not running")
	}
	return p.resume()
}

func (p *process) resume() error {
	if !p.stopped {
		return nil
	}
	p.stopped = false
	return resume(p.cmd.Process)
}
