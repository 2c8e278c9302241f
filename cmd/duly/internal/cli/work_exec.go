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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/worker"
)

// exitSnooze is EX_TEMPFAIL of sysexits.h, a temporary failure. exitOverload is EX_UNAVAILABLE: the
// service that the command calls has no capacity.
const exitSnooze, exitOverload = 75, 69

// killAfter is the time between TERM and KILL.
const killAfter = 5 * time.Second

// startRetryDelay is the delay of a job whose command could not be started. That is a
// failure of this machine, so it uses no try.
const startRetryDelay = 10 * time.Second

// executor runs a command for each delivery.
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

// errStopping is the error of a command that is not started after killAll.
var errStopping = errors.New("duly is stopping")

// run handles the jobs of every queue. Each command leads a process group, so that the
// processes that it starts end with it.
func (x *executor) run(ctx context.Context, d *worker.Delivery) error {
	cmd := x.command(ctx)
	// Clip prevents that concurrent commands append to the same array.
	cmd.Env = append(slices.Clip(x.inherited), jobVariables(d)...)
	cmd.Stdin = bytes.NewReader(d.Body)
	// The end of the output is the error of the job, and most often names the cause.
	stderrTail := &tailWriter{limit: duly.MaxErrorText}
	cmd.Stderr = io.MultiWriter(stderrTail, x.env.Stderr)
	result := &headWriter{limit: duly.MaxResult}
	switch {
	case x.flags.result:
		cmd.Stdout = result
	case x.json: // standard output is for the log of jobs
		cmd.Stdout = x.env.Stderr
	default:
		cmd.Stdout = x.env.Stdout
	}

	// Without WaitDelay, Wait would block as long as any process holds the pipes.
	newProcessGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process, false) }
	cmd.WaitDelay = killAfter

	start := x.env.Clock.Now()
	if err := x.start(cmd); err != nil {
		return x.startFailed(d, err)
	}
	err := cmd.Wait()

	// The process has ended. Its number may belong to another process soon, so killAll must not use it.
	x.remove(cmd.Process)
	if ctx.Err() != nil {
		killGroup(cmd.Process, true) // processes that the command left running
	}
	x.log.recordResult(d, commandResult{
		exit: cmd.ProcessState.ExitCode(), took: x.env.Clock.Now().Sub(start),
		canceled: context.Cause(ctx) == duly.ErrCanceled,
	})
	if x.flags.result {
		_ = d.SetResult(result.kept) // it fails only if the result is too long
	}
	return x.outcome(err, stderrTail)
}

// command returns the command of a delivery.
func (x *executor) command(ctx context.Context) *exec.Cmd {
	// Without a shell, no part of a job can be a command.
	if argv := x.flags.argv; len(argv) > 0 {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	return shell(ctx, x.flags.exec)
}

// name returns the name of the command for errors.
func (x *executor) name() string {
	if x.flags.exec != "" {
		return x.flags.exec
	}
	return x.flags.argv[0]
}

// inherited returns the environment for commands. It leaves out the engine's URL
// and token, unless passURL is set.
func (a *app) inherited(s *session, passURL bool) []string {
	// The command gets the user's variables, but no right on the engine by itself.
	all := os.Environ()
	if a.env.Environ != nil {
		all = a.env.Environ()
	}
	if passURL {
		return append(slices.Clone(all), "DULY_URL="+s.url) // overrides an earlier value
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "DULY_URL" || name == "DULY_TOKEN" || name == "DULY_ADMIN_URL"
	})
}

// startFailed prints the error of a command that could not be started.
func (x *executor) startFailed(d *worker.Delivery, err error) error {
	fmt.Fprintf(x.env.Stderr, "duly: cannot run %s for %s: %s; the next try is in %s\n",
		oneLine(x.name()), d.ID, oneLine(err.Error()), shortDuration(startRetryDelay))
	return worker.Snooze(startRetryDelay)
}

// outcome converts the end of a command to the result of the handler.
func (x *executor) outcome(err error, tail *tailWriter) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		// ErrWaitDelay: the command succeeded, but a process that it started has its pipes.
		return nil
	// This status is a request to try later, and uses no try.
	case errors.As(err, &exit) && exit.ExitCode() == exitSnooze:
		return worker.Snooze(x.flags.snooze)
	}

	// The end of the output says more than "exit status 1".
	if text := tail.text(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if exit != nil && exit.ExitCode() == exitOverload {
		return worker.Overloaded(x.flags.overload, err)
	}
	return err
}

// start starts a command and adds it to the running ones in one step, so that killAll
// kills every command.
func (x *executor) start(cmd *exec.Cmd) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	// A command that starts now would outlive the program.
	if x.killed {
		return errStopping
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

// killAll kills every command. No command can be started afterwards.
func (x *executor) killAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.killed = true
	for _, p := range x.running {
		killGroup(p, true)
	}
}

// jobVariables returns the job's fields as environment variables. Unset times are empty.
func jobVariables(d *worker.Delivery) []string {
	vars := []string{
		"ID=" + d.ID, "QUEUE=" + d.Queue, "NAMESPACE=" + contract.NamespaceOr(d.Namespace), "RECEIPT=" + string(d.Receipt),
		"ATTEMPT=" + strconv.Itoa(d.Attempt), "TRIES=" + strconv.Itoa(d.Tries),
		"FAILURES=" + strconv.Itoa(d.Failures), "STALLS=" + strconv.Itoa(d.Stalls),
		"PRIORITY=" + strconv.Itoa(d.Priority), "ORDER_KEY=" + d.OrderKey,
		"DUE=" + stamp(d.Due), "PUSHED_AT=" + stamp(d.PushedAt),
		"EXPIRES_AT=" + stamp(d.ExpiresAt), "LEASE_END=" + stamp(d.LeaseEnd),
	}
	// A prefix keeps a header from being another variable, such as PATH.
	for name, value := range d.Headers {
		vars = append(vars, "HEADER_"+variableName(name)+"="+value)
	}
	for i := range vars {
		vars[i] = "DULY_JOB_" + vars[i]
	}
	return vars
}

// variableName converts a header's name to the name of a variable.
func variableName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// tailWriter keeps the last bytes.
type tailWriter struct {
	limit int
	kept  []byte
}

// Write implements io.Writer.
func (t *tailWriter) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b[max(0, len(b)-t.limit):]...)

	// The kept bytes move to the front, so that the buffer stays small.
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// text returns the kept text. It leaves room for the exit status before it.
func (t *tailWriter) text() string {
	// The end of a string says more than its beginning.
	const statusLen = 64
	kept := t.kept[max(0, len(t.kept)-(t.limit-statusLen)):]
	return strings.ToValidUTF8(strings.TrimSpace(string(kept)), "?")
}

// headWriter keeps the first bytes.
type headWriter struct {
	limit int
	kept  []byte
}

// Write implements io.Writer.
func (h *headWriter) Write(b []byte) (int, error) {
	h.kept = append(h.kept, b[:min(len(b), h.limit-len(h.kept))]...)
	return len(b), nil
}
