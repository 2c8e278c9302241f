package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// exitSnooze is EX_TEMPFAIL of sysexits.h: try again, it is not the job's fault.
const exitSnooze = 75

// killAfter is how long a command that was told to end may take.
const killAfter = 5 * time.Second

// startAgain is how long a job waits whose command could not be started: the
// fault is this machine's, so no try is used.
const startAgain = 10 * time.Second

// executor runs a command per delivery.
type executor struct {
	flags *workFlags
	log   *jobLog
	env   Env
	json  bool
	// inherited is the environment of the commands, without the job's fields.
	inherited []string

	mu      sync.Mutex
	running []*os.Process
	killed  bool
}

// errEnding is why no command is started any more.
var errEnding = errors.New("duly is ending")

// run is the handler of every queue. Each command leads a process group of its
// own, so that what it has started ends with it.
func (x *executor) run(ctx context.Context, d *worker.Delivery) error {
	cmd := x.command(ctx)
	cmd.Env = append(slices.Clip(x.inherited), jobVariables(d)...)
	cmd.Stdin = bytes.NewReader(d.Body)
	tail := &tailWriter{most: duly.MaxErrorText}
	cmd.Stderr = io.MultiWriter(tail, x.env.Stderr)
	result := &headWriter{most: duly.MaxResult}
	switch {
	case x.flags.result:
		cmd.Stdout = result
	case x.json: // standard output is for the lines of the log
		cmd.Stdout = x.env.Stderr
	default:
		cmd.Stdout = x.env.Stdout
	}
	ownGroup(cmd)
	cmd.Cancel = func() error { return endGroup(cmd.Process, false) }
	cmd.WaitDelay = killAfter
	begun := x.env.Clock.Now()
	if err := x.start(cmd); err != nil {
		return x.notStarted(d, err)
	}
	err := cmd.Wait()
	x.remove(cmd.Process)
	if ctx.Err() != nil {
		endGroup(cmd.Process, true) // what the command has left behind
	}
	x.log.ran(d, run{
		exit: cmd.ProcessState.ExitCode(), took: x.env.Clock.Now().Sub(begun),
		canceled: context.Cause(ctx) == duly.ErrCanceled,
	})
	if x.flags.result {
		_ = d.SetResult(result.kept) // never longer than it may be
	}
	return x.outcome(err, tail)
}

// command makes the process of one delivery.
func (x *executor) command(ctx context.Context) *exec.Cmd {
	if argv := x.flags.argv; len(argv) > 0 {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	return shell(ctx, x.flags.exec)
}

// name returns the command's name for errors.
func (x *executor) name() string {
	if x.flags.exec != "" {
		return x.flags.exec
	}
	return x.flags.argv[0]
}

// inherited returns the environment for commands. It leaves out the engine's URL
// and token, unless passURL is set.
func (a *app) inherited(s *session, passURL bool) []string {
	all := os.Environ()
	if a.env.Environ != nil {
		all = a.env.Environ()
	}
	if passURL {
		return append(slices.Clone(all), "DULY_URL="+s.url) // the last of several values counts
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "DULY_URL" || name == "DULY_TOKEN" || name == "DULY_ADMIN_URL"
	})
}

func (x *executor) notStarted(d *worker.Delivery, err error) error {
	fmt.Fprintf(x.env.Stderr, "duly: %s could not be run for %s: %s; it is tried again in %s\n",
		oneLine(x.name()), d.ID, oneLine(err.Error()), roughly(startAgain))
	return worker.Snooze(startAgain)
}

// outcome turns how the command ended into what becomes of the job.
func (x *executor) outcome(err error, tail *tailWriter) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it ended well; something it started holds its pipes
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == exitSnooze:
		return worker.Snooze(x.flags.snooze)
	}
	if text := tail.text(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// start is one step with the note of it, so that killAll misses nothing.
func (x *executor) start(cmd *exec.Cmd) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.killed {
		return errEnding
	}
	err := cmd.Start()
	if err == nil {
		x.running = append(x.running, cmd.Process)
	}
	return err
}

func (x *executor) remove(p *os.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running = slices.DeleteFunc(x.running, func(o *os.Process) bool { return o == p })
}

// killAll ends every command at once, and lets none begin.
func (x *executor) killAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.killed = true
	for _, p := range x.running {
		endGroup(p, true)
	}
}

// jobVariables are the job's fields for the command. Times that do not apply
// are empty.
func jobVariables(d *worker.Delivery) []string {
	vars := []string{
		"ID=" + d.ID, "QUEUE=" + d.Queue, "NAMESPACE=" + duly.NamespaceOr(d.Namespace), "RECEIPT=" + string(d.Receipt),
		"ATTEMPT=" + strconv.Itoa(d.Attempt), "TRIES=" + strconv.Itoa(d.Tries),
		"FAILURES=" + strconv.Itoa(d.Failures), "STALLS=" + strconv.Itoa(d.Stalls),
		"PRIORITY=" + strconv.Itoa(d.Priority), "ORDER_KEY=" + d.OrderKey,
		"DUE=" + stamp(d.Due), "PUSHED_AT=" + stamp(d.PushedAt), "EXPIRES_AT=" + stamp(d.ExpiresAt), "LEASE_END=" + stamp(d.LeaseEnd),
	}
	for name, value := range d.Headers {
		vars = append(vars, "HEADER_"+variableName(name)+"="+value)
	}
	for i := range vars {
		vars[i] = "DULY_JOB_" + vars[i]
	}
	return vars
}

// variableName is a header's name in the letters of a variable.
func variableName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// tailWriter keeps the end of what is written.
type tailWriter struct {
	most int
	kept []byte
}

// Write implements io.Writer.
func (t *tailWriter) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b[max(0, len(b)-t.most):]...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// text leaves room for the exit status in front of it.
func (t *tailWriter) text() string {
	const status = 64
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept[max(0, len(t.kept)-(t.most-status)):])), "?")
}

// headWriter keeps the beginning of what is written.
type headWriter struct {
	most int
	kept []byte
}

// Write implements io.Writer.
func (h *headWriter) Write(b []byte) (int, error) {
	h.kept = append(h.kept, b[:min(len(b), h.most-len(h.kept))]...)
	return len(b), nil
}
