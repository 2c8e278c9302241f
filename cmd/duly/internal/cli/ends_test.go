package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
)

// C15.34: the exit status is 1 for a command that failed, and 2 for a usage error. C15.35:
// an error is one line on standard error with a hint.
func TestErrorsAreOneLineWithAHint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x", "--id", "a", "--lease", "1h")
	r.ok("push", "q", "x", "--id", "b", "--tries", "1")
	r.do()
	r.transcript.Reset() // another test checks the help

	for _, args := range [][]string{
		{"pusch"},
		{"frobnicate", "--json"},
		{"push"},
		{"push", "q", "two", "words"},
		{"push", "q", "--no-such-flag"},
		{"push", "q", "x", "--delay", "soon"},
		{"push", "q", "x", "--delay", "-5s"},
		{"push", "q", "x", "--ttl", "0s"},
		{"push", "q", "x", "--tries", "many"},
		{"push", "q", "x", "--tries", "70000", "--max-stalls", "70000", "--priority", "5000", "--backoff", "sometimes"},
		{"push", "q", "x", "--delay", "5s", "--due", "2031-01-01T00:00:00Z"},
		{"push", "q", "x", "--merge-key", "k", "--merge-max-wait", "1m"},
		{"push", "q", "x", "--header", "nothing"},
		{"push", "q/../x", "x"},
		{"push", "q", "x", "--json", "--priority", "5000"},
		{"push", "q", strings.Repeat("x", 1<<20+1)},
		{"reserve", "q", "--max", "1001"},
		{"reserve", "q", "--timeout", "1s"},
		{"ack", "no-receipt"},
		{"ack", "no-receipt", "--json"},
		{"stats", "q", "r"},
		{"peek", "empty"},
		{"version", "now"},
		{"completion", "csh"},
		{"token", "create"},
		{"token", "create", "--rights", "everything"},
		{"dead", "requeue", "q", "a"},
		{"work", "q"},
		{"backup", "no/such/folder/file"},
		{"queues", "--url", "http://s3cret-token@127.0.0.1:1/shop"},
		{"check", "--url", "http://s3cret-token@127.0.0.1:1/shop"},
		{"queues", "--namespace", "a/b"},
	} {
		r.do(args...)
	}

	text := r.transcript.String()
	text = strings.ReplaceAll(text, "--url http://s3cret-token@", "--url http://TOKEN@")
	if strings.Contains(text, "s3cret") {
		t.Errorf("a secret was printed: %s", text)
	}
	r.transcript.Reset()
	r.transcript.WriteString(strings.ReplaceAll(text, strings.Repeat("x", 1<<20+1), "(1 MiB and a byte)"))
	r.golden("errors")
}

// Every code has a hint, and an error is always one line.
func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	a := &app{env: Env{Args: []string{"duly"}, Stderr: &strings.Builder{}}, started: true}
	for _, code := range duly.Codes() {
		out := &strings.Builder{}
		a.env.Stderr = out
		a.report(&cobra.Command{Use: "duly"}, contract.Errorf(code, "two\nlines \x1b[31m"))
		if n := strings.Count(out.String(), "\n"); n != 1 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: printed %q", code, out)
		}
		if codeHint(code, "duly") == "" && code != duly.CodeInvalid {
			t.Errorf("%s has no hint", code)
		}
	}
}

// C15.36: a command ends without an error after its output was closed.
func TestClosedOutputIsNoError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"version"}, {"stats", "q"}, {"queues", "--json"}, {"job", "list", "q", "--json"},
		{"push", "q", "more"},
	} {
		r := newRig(t)
		r.ok("push", "q", "x")
		var errs strings.Builder
		code := Run(t.Context(), r.env(closedPipe{}, &errs, args...))
		if code != exitOK || errs.String() != "" {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}

// C15.36: reserve releases jobs that it cannot print.
func TestReserveClosedPipeReleasesJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")
	var errs strings.Builder
	if code := Run(t.Context(), r.env(closedPipe{}, &errs, "reserve", "q")); code != exitOK || errs.String() != "" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
	if out := r.ok("reserve", "q", "--receipts"); out == "" {
		t.Error("the job was not released")
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// C15.37: the first INT or TERM ends a waiting command.
func TestSignalEndsWaitingReserve(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	signals := make(chan os.Signal, 2)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "reserve", "q", "--wait")
	env.Signals = signals
	signals <- syscall.SIGTERM
	if code := Run(t.Context(), env); code != exitFailed || errs.String() != "duly: interrupted\n" || out.String() != "" {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// C15.37: the second signal ends the program at once. A signal that follows the first one
// immediately belongs to it: it may be sent to the process and to its group.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	signals := make(chan os.Signal)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "queues")
	release := make(chan struct{})
	defer close(release)
	env.Open = func(ctx context.Context, _ string, _ ...open.Option) (contract.Engine, error) {
		<-ctx.Done()
		<-release // ignores its context
		return nil, duly.ErrClosed
	}
	env.Signals = signals
	ended := make(chan int, 1)
	go func() { ended <- Run(t.Context(), env) }()

	// The channel has no buffer, so a signal was handled when the next one is received.
	for _, after := range []time.Duration{0, 0, signalGap - time.Millisecond, 0} {
		r.clock.Advance(after)
		select {
		case signals <- syscall.SIGTERM:
		case code := <-ended:
			t.Fatalf("exit %d by a signal right behind the first", code)
		}
	}

	r.clock.Advance(time.Millisecond)
	select {
	case signals <- syscall.SIGTERM:
	case code := <-ended: // the signal before was handled after the clock advanced
		ended <- code
	}
	if code := <-ended; code != exitFailed {
		t.Errorf("exit %d", code)
	}
}

// C15.33: colours are used only on a terminal, and not with NO_COLOR.
func TestColourOnlyOnTerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")

	for _, tt := range []struct {
		name   string
		tty    bool
		vars   map[string]string
		colour bool
	}{
		{"pipe", false, nil, false},
		{"terminal", true, nil, true},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"dumb terminal", true, map[string]string{"TERM": "dumb"}, false},
	} {
		r.tty = tt.tty
		r.vars = map[string]string{"DULY_URL": "model:"}
		for name, value := range tt.vars {
			r.vars[name] = value
		}
		if out := r.ok("queues"); strings.Contains(out, "\x1b[") != tt.colour {
			t.Errorf("%s: printed %q", tt.name, out)
		}
	}

	if out := r.ok("queues", "--json"); strings.Contains(out, "\x1b[") {
		t.Errorf("JSON in colours: %q", out)
	}
}

// C15.33: with --json, standard output has only JSON, one value per line.
func TestJSONOutputIsOneValuePerLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = "a\nb\n"

	for _, args := range [][]string{
		{"push", "q", "--lines"}, {"push", "q", "x", "--id", "one"}, {"reserve", "q", "--max", "2"}, {"peek", "q"},
		{"queues"},
		{"queues", "--names"}, {"stats", "q"}, {"job", "get", "q", "one"}, {"job", "list", "q"},
		{"job", "update", "q", "one", "--tries", "3"},
		{"job", "promote", "q", "one"}, {"queue", "set", "q", "--tries", "3"}, {"pause", "q"}, {"resume", "q"},
		{"dead", "requeue", "q", "one"},
		{"queue", "purge", "q", "--state", "dead", "--yes"}, {"job", "delete", "q", "one", "two"},
		{"ack", "q:0:01J0000000000000000000000A:1"}, {"check"},
		{"token", "create", "--rights", "produce"}, {"queue", "destroy", "q", "--yes"}, {"version"},
	} {
		_, out, errs := r.run(append(args, "--json")...)
		if out == "" {
			t.Errorf("%v: printed nothing, %s", args, errs)
		}
		for line := range strings.Lines(out + errs) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%v: printed %q", args, line)
			}
		}
	}
}

// C15.31: completion for shells, queues and states.
func TestCompletionOffersQueuesAndStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "emails", "x")
	r.ok("push", "reports", "x")

	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := r.ok("completion", shell); !strings.Contains(out, "duly") {
			t.Errorf("%s: printed %q", shell, out)
		}
	}

	if out := r.ok("__complete", "job", "list", "emails", "--state", "d"); !strings.Contains(out, "delayed\n") {
		t.Errorf("states: %q", out)
	}

	for flag, server := range map[string]bool{"queues --url": true, "serve --engine": false} { // a server can't be served
		out := r.ok(append(append([]string{"__complete"}, strings.Fields(flag)...), "")...)
		if !strings.Contains(out, "sqlite:\n") || !strings.Contains(out, "redis+sentinel://\n") ||
			strings.Contains(out, "https://\n") != server {
			t.Errorf("%s: %q", flag, out)
		}
	}

	env := r.env(&strings.Builder{}, &strings.Builder{})
	env.Getenv = func(name string) string { return map[string]string{"DULY_URL": "http://t@host/shop"}[name] }
	env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) {
		return unclosable{r.engine}, nil
	}

	for name, asked := range map[string]struct {
		args []string
		want string
	}{
		"queues":              {[]string{"stats", ""}, ""}, // none of that namespace
		"nothing after queue": {[]string{"stats", "emails", ""}, ""},
	} {
		var out strings.Builder
		env.Stdout, env.Args = &out, append([]string{"duly", "__complete"}, asked.args...)
		if code := Run(t.Context(), env); code != exitOK || strings.Contains(out.String(), "emails") {
			t.Errorf("%s: exit %d, %q", name, code, out.String())
		}
	}

	env.Args = []string{"duly", "__complete", "stats", "e"}

	for url, want := range map[string]string{
		"http://t@host": "emails\n:", "redis://host": "emails\n:",
		"sqlite:jobs.db": ":",
	} {
		env.Getenv = func(name string) string { return map[string]string{"DULY_URL": url}[name] }
		var out strings.Builder
		env.Stdout = &out
		if code := Run(t.Context(), env); code != exitOK || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: exit %d, %q", url, code, out.String())
		}
	}
}

// C15.1: one binary. C15.32: version. Every command has a help with examples.
func TestCommandsHaveExamples(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		for _, sub := range cmd.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			walk(sub, append(path, sub.Name()))
		}
		if cmd.HasSubCommands() || len(path) == 0 {
			return
		}
		if !strings.Contains(cmd.Example, "duly "+strings.Join(path, " ")) {
			t.Errorf("%v: no example", path)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%v: short text %q", path, cmd.Short)
		}
		if cmd.Args == nil {
			t.Errorf("%v: accepts any arguments", path)
		}
	}
	r := newRig(t)
	walk(newRoot(&app{env: r.env(nil, nil)}), nil)
	if out := r.ok("help", "push"); !strings.Contains(out, "Examples:") || !strings.Contains(out, "--order-key") {
		t.Errorf("help of push: %s", out)
	}
	v := (&app{}).version()
	if out := r.ok("version"); out != fmt.Sprintf("duly v0.0.0-test, %s, %s\n", v.Go, v.Platform) {
		t.Errorf("version: %q", out)
	}
}

// lostAnswers is an engine that executes a push and loses its answer.
type lostAnswers struct{ unclosable }

func (l lostAnswers) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	l.unclosable.Push(ctx, jobs)
	return nil, duly.ErrUnavailable
}

// broken is an engine whose connection breaks during a write.
type broken struct{ unclosable }

func (broken) Stats(context.Context, duly.QueueRef) (duly.Stats, error) {
	return duly.Stats{}, &duly.Error{Code: duly.CodeUnavailable, Message: "no answer",
		Cause: &net.OpError{Op: "write", Err: syscall.EPIPE}}
}

// C15.36: a broken connection to the engine is an error, unlike a closed output.
func TestBrokenConnectionIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "stats", "q")
	env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) {
		return broken{unclosable{r.engine}}, nil
	}
	if code := Run(t.Context(), env); code != exitFailed || out.String() != "" ||
		!strings.Contains(errs.String(), "no answer") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// A push whose answer is lost prints the ID with which it can be repeated.
func TestPushWithoutAnswerNamesID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "push", "q", "x")
	env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) {
		return lostAnswers{unclosable{r.engine}}, nil
	}
	env.Clock = firedTimers{r.clock}
	if code := Run(t.Context(), env); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	id := ulid.FindString(errs.String())
	if !strings.Contains(errs.String(), "repeat it with --id "+id+",") {
		t.Fatalf("printed %q", errs.String())
	}
	if out := r.ok("push", "q", "x", "--id", id); !strings.Contains(out, "exists already") {
		t.Errorf("the repeat printed %q", out)
	}

	errs.Reset()
	env.Args = []string{"duly", "push", "q", "--lines"}
	env.Stdin = strings.NewReader("a\nb\n")
	if code := Run(t.Context(), env); code != exitFailed || !strings.Contains(errs.String(), "stopped after 0 lines") ||
		!strings.Contains(errs.String(), "tail -n +1") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// firedTimers is a clock whose timers have fired.
type firedTimers struct{ clock.Clock }

func (h firedTimers) NewTimer(time.Duration) *clock.ChanTimer {
	c := make(chan time.Time, 1)
	c <- h.Now()
	return &clock.ChanTimer{C: c, Timer: h.AfterFunc(0, func() {})}
}

// The hint for damage names check before restore, because restore works only for files.
func TestCorruptHintNamesCheckFirst(t *testing.T) {
	t.Parallel()
	hint := codeHint(duly.CodeCorrupt, "duly")
	check, restore := strings.Index(hint, " check;"), strings.Index(hint, "if it is a file")
	if check < 0 || restore < check {
		t.Errorf("the hint is %q", hint)
	}
}

// The hint of a failed push names the ID for a repeat, even if the last try did nothing,
// because an earlier try may have stored the job.
func TestPushHintNamesID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := &app{env: r.env(nil, nil)}
	s := &session{Engine: unclosable{r.engine}, endpoint: endpoint{url: "model:", namespace: "default"}}
	for code, want := range map[duly.Code]string{
		duly.CodeUnavailable: "repeat it with --id one, which creates no second job",
		duly.CodeNotDurable:  "repeat it with --id one",
	} {
		err := a.withPushHint(t.Context(), s, contract.Errorf(code, "failed"), &duly.Job{Queue: "q", ID: "one"})
		if got := a.hint(nil, code, err); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}

// The hint of a full store depends on the bound that was reached.
func TestFullHintNamesBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "bounded", "--max-jobs", "1")
	r.ok("push", "bounded", "x")
	r.ok("push", "free", "x")
	a := &app{env: r.env(nil, nil)}
	s := &session{Engine: unclosable{r.engine}, endpoint: endpoint{url: "model:", namespace: "default"}}
	for queue, want := range map[string]string{
		"bounded": "to raise it: duly queue set bounded --max-jobs N; to make room: duly queue purge bounded",
		"free":    codeHint(duly.CodeFull, "duly"),
		"new":     "see duly queues, and: duly queue destroy QUEUE",
	} {
		err := a.withFullHint(t.Context(), s, contract.Errorf(duly.CodeFull, "full"), queue)
		if got := a.hint(nil, duly.CodeFull, err); got != want {
			t.Errorf("%s: %q, want %q", queue, got, want)
		}
	}
}
