// Package proctest runs parts of a test in separate processes, so that the test can kill,
// trace or starve them.
//
// A test binary names its roles in TestMain:
//
//	func TestMain(m *testing.M) { proctest.Main(m, proctest.Roles{"store": runStore}) }
//
// Start then runs the same binary in one of these roles. The test checks what the child
// printed to standard output. A line that was printed before a kill is never lost. Only
// processes that Start started are signalled, by process ID.
package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roleVariable is the environment variable with the role of a child process.
const roleVariable = "DULY_PROCTEST_ROLE"

// Roles maps the name of a role to its function. If the function returns an error, the
// process prints it and exits with status 1.
type Roles map[string]func(args []string) error

// Main runs the role of this process if it has one, and the tests otherwise. m is a
// testing.M or a wrapper of one.
func Main(m interface{ Run() int }, roles Roles) {
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "proctest: no role %q\n", name)
		os.Exit(2)
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Need skips a test if one of the tools is not installed. It fails the test instead if
// CI=true, where every tool must be installed.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("needs %s, which is not installed; scripts/install-test-tools installs it", tool)
		}
		t.Skipf("needs %s, which is not installed; scripts/install-test-tools installs it", tool)
	}
}

// NeedRoot skips a test that needs root. It fails the test instead if CI=true.
func NeedRoot(t testing.TB) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("needs root, to make a mount namespace")
	default:
		t.Skip("needs root, to make a mount namespace")
	}
}

// Long reports whether the suites run at full length.
func Long() bool { return os.Getenv("DULY_LONG") == "1" }

// Process is a running child.
type Process struct {
	cmd   *exec.Cmd
	done  chan struct{}
	err   error
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced at every line
}

// Environ returns the environment of a test binary that is started in a role. Under the race
// detector a process sleeps for a second before it exits; Environ turns that off unless
// GORACE is already set.
func Environ(role string) []string {
	return append([]string{"GORACE=atexit_sleep_ms=0"}, append(os.Environ(), roleVariable+"="+role)...)
}

// Options changes how a child is started.
type Options struct {
	// Before is a command that runs the child, such as strace with its flags.
	Before []string
	// Prepare may change the command, for example its namespaces.
	Prepare func(*exec.Cmd)
}

// Start runs the test binary in a role. It kills the child when the test ends.
func Start(t testing.TB, o Options, role string, args ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	line := append(append(append([]string{}, o.Before...), self), args...)
	p := &Process{cmd: exec.Command(line[0], line[1:]...), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env = Environ(role)
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = 10 * time.Second
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.Prepare != nil {
		o.Prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	go p.read(out)

	return p
}

func (p *Process) read(out io.Reader) {
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // a line that a kill has cut off does not count
		}
		p.mu.Lock()
		p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// Kill ends the child like kill -9 and waits until it is gone. Kill may be called repeatedly.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Stop sends SIGTERM to the child and does not wait.
func (p *Process) Stop() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// Pid returns the child's process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait waits until the child exits and returns its error.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		return errors.New("the process has not ended in " + limit.String())
	}
}

// Lines returns the lines that the child has printed so far.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Await waits until the child has printed n lines with a prefix. It returns false if the
// child exits or the limit passes first.
func (p *Process) Await(prefix string, n int, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		p.mu.Lock()
		found, more := 0, p.more
		for _, line := range p.lines {
			if strings.HasPrefix(line, prefix) {
				found++
			}
		}

		p.mu.Unlock()
		if found >= n {
			return true
		}
		select {
		case <-more:
		case <-p.done:
			return false
		case <-timeout:
			return false
		}
	}
}
