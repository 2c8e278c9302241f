//go:build unix

package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
)

// newLiveRig returns a rig whose engine uses the real clock, because processes do.
func newLiveRig(t *testing.T) *rig {
	r := newRig(t)
	r.engine = model.New(model.Config{})
	t.Cleanup(func() { r.engine.Close() })
	return r
}

// workUntil runs `duly work` until it has printed that many lines, and stops it with a
// signal.
func (r *rig) workUntil(lines int, args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	out, errs := newLineCounter(lines), newLineCounter(1<<30)
	env := r.env(out, errs, append([]string{"work"}, args...)...)
	env.Clock = clock.System()
	signals := make(chan os.Signal, 2)
	env.Signals = signals
	done := make(chan int)
	go func() { done <- Run(r.t.Context(), env) }()
	select {
	case <-out.full:
		signals <- syscall.SIGTERM
		code = <-done
	case code = <-done:
	}
	return code, out.String(), errs.String()
}

// job reads a job by its ID.
func (r *rig) job(id string) (j struct {
	State     string `json:"state"`
	Failures  int    `json:"failures"`
	LastError string `json:"last_error"`
	Result    string `json:"result"`
}) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.ok("job", "get", "q", id, "--json")), &j); err != nil {
		r.t.Fatal(err)
	}
	return j
}

// C15.14: exit status 0 is an ack, 75 a snooze, and any other status a nack with the end of
// the command's standard error.
func TestWorkSettlesByExitStatus(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "0", "--id", "good", "--retain", "1h")
	r.ok("push", "q", "75", "--id", "later")
	r.ok("push", "q", "3", "--id", "bad", "--backoff", "fixed:1h")
	code, out, errs := r.workUntil(3, "q", "--snooze", "1h", "--json",
		"--exec", `read code; echo to stdout; echo "line one
it broke" >&2; exit $code`)
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}

	for id, want := range map[string]string{
		"good": `"as":"ack","exit":0`, "later": `"as":"release","exit":75`,
		"bad": `"as":"nack","exit":3`,
	} {
		if !strings.Contains(out, `"id":"`+id+`","queue":"q","attempt":1,`+want) {
			t.Errorf("no line for %s in %s", id, out)
		}
	}

	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("with --json, standard output has %q", line)
		}
	}

	if j := r.job("good"); j.State != "done" || j.Result != "" {
		t.Errorf("good: %+v", j)
	}
	if j := r.job("later"); j.State != "delayed" || j.Failures != 0 {
		t.Errorf("later: %+v", j)
	}
	if j := r.job("bad"); j.State != "delayed" || j.Failures != 1 || j.LastError != "exit status 3: line one\nit broke" {
		t.Errorf("bad: %+v", j)
	}
	if !strings.Contains(errs, "it broke") || !strings.Contains(errs, "to stdout") {
		t.Errorf("the command's output is not on standard error: %q", errs)
	}
}

// C4.97: the command of a job that is removed gets TERM, and the log says canceled.
func TestWorkPrintsCanceled(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "gone")
	started := filepath.Join(t.TempDir(), "started")
	type end struct {
		code      int
		out, errs string
	}
	ended := make(chan end, 1)
	go func() {
		code, out, errs := r.workUntil(1, "q", "--exec", "touch "+started+"; exec sleep 60")
		ended <- end{code, out, errs}
	}()

	eventually.True(t, "the command starts", func() bool { _, err := os.Stat(started); return err == nil })
	r.ok("job", "delete", "q", "gone")

	e := <-ended
	if !strings.Contains(e.out, "  canceled  q  gone  attempt 1  no exit status  ") ||
		strings.Contains(e.out, "lease_lost") || e.code != exitOK {
		t.Errorf("exit %d, %q, %s", e.code, e.out, e.errs)
	}
}

// C15.13: the command gets the body on standard input and the fields as DULY_JOB_*
// variables.
func TestWorkPassesJobToCommand(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "two\nlines", "--id", "one", "--priority", "7", "--tries", "3", "--order-key", "k", "--header",
		"Trace-ID=a b", "--ttl", "1h", "--retain", "1h")
	code, out, errs := r.workUntil(1, "q", "--concurrency", "4", "--result", "--exec",
		`cat; echo; env | grep ^DULY_JOB_ | sort | sed 's/=.*Z$/=TIME/'`)
	if code != exitOK || !strings.Contains(out, "  ack  q  one  attempt 1  exit 0  ") {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	want := `two
lines
DULY_JOB_ATTEMPT=1
DULY_JOB_DUE=TIME
DULY_JOB_EXPIRES_AT=TIME
DULY_JOB_FAILURES=0
DULY_JOB_HEADER_TRACE_ID=a b
DULY_JOB_ID=one
DULY_JOB_LEASE_END=TIME
DULY_JOB_NAMESPACE=default
DULY_JOB_ORDER_KEY=k
DULY_JOB_PRIORITY=7
DULY_JOB_PUSHED_AT=TIME
DULY_JOB_QUEUE=q
DULY_JOB_RECEIPT=RECEIPT
DULY_JOB_STALLS=0
DULY_JOB_TRIES=3
`
	result := r.job("one").Result
	_, receipt, _ := strings.Cut(result, "DULY_JOB_RECEIPT=")
	receipt, _, _ = strings.Cut(receipt, "\n")
	if got := strings.Replace(result, "="+receipt+"\n", "=RECEIPT\n", 1); got != want ||
		!strings.HasPrefix(receipt, "q:0:") {
		t.Errorf("the command printed\n%s\nwant\n%s", got, want)
	}
}

// The end of a command's standard error and the beginning of its result are bounded.
func TestCommandOutputIsBounded(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "bad", "--backoff", "fixed:1h")
	r.ok("push", "q", "", "--id", "good", "--retain", "1h")
	code, _, errs := r.workUntil(2, "q", "--result", "--exec",
		`i=0; while [ $i -lt 3000 ]; do echo "line $i of many more lines than are kept" >&2; i=$((i+1)); done
head -c 100000 /dev/zero | tr '\0' x; test -z "$(cat)"`)
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	j := r.job("bad")
	if len(j.LastError) > 4096 || !strings.HasPrefix(j.LastError, "exit status 1: ") ||
		!strings.HasSuffix(j.LastError, "line 2999 of many more lines than are kept") {
		t.Errorf("last error has %d bytes: %q", len(j.LastError), j.LastError)
	}
	if n := len(r.job("good").Result); n != 64<<10 {
		t.Errorf("the result has %d bytes", n)
	}
}

// piped runs `duly work` with a pipe as its standard output, which the
// commands and all that they start hold open: at its end they are gone.
func (r *rig) piped(args ...string) (signals chan os.Signal, ended func() int) {
	r.t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	env := r.env(write, io.Discard, append([]string{"work"}, args...)...)
	env.Clock = clock.System()
	signals = make(chan os.Signal, 2)
	env.Signals = signals
	done := make(chan int, 1)
	go func() {
		code := Run(r.t.Context(), env)
		write.Close()
		done <- code
	}()
	first := make([]byte, 8)
	if _, err := io.ReadFull(read, first); err != nil || string(first) != "started\n" {
		r.t.Fatalf("the command printed %q, %v", first, err)
	}
	return signals, func() int {
		code := <-done
		read.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, read); err != nil {
			r.t.Errorf("processes of the command are still there: %v", err)
		}
		return code
	}
}

// C15.37: INT and TERM drain. After the drain time, the process groups of running commands
// are killed, and their jobs released.
func TestDrainTimeoutKillsProcessGroup(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one")
	signals, ended := r.piped("q", "--drain", "0s", "--exec", `sleep 1000 & echo started; wait`)
	signals <- os.Interrupt
	if code := ended(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if j := r.job("one"); j.State != "ready" || j.Failures != 0 {
		t.Errorf("the job is %+v", j)
	}
}

// C15.37: a drain waits for running commands.
func TestDrainWaitsForCommands(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one", "--retain", "1h")
	r.ok("push", "q", "x", "--id", "two")
	open := t.TempDir() + "/go"
	signals, ended := r.piped("q", "--exec", `echo started; while [ ! -e `+open+` ]; do sleep 0.01; done`)
	signals <- os.Interrupt
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := ended(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if j := r.job("one"); j.State != "done" {
		t.Errorf("the job is %+v", j)
	}
}

// C15.37: the second signal ends the program at once and kills the commands, even if they
// ignore TERM.
func TestSecondSignalKillsCommands(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one")
	signals, ended := r.piped("q", "--exec", `trap '' TERM; sleep 1000 & echo started; while :; do sleep 1; done`)
	enough := make(chan struct{})
	go func() { // until the program has ended
		for clock.Sleep(t.Context(), clock.System(), signalGap/5) == nil {
			select {
			case signals <- os.Interrupt:
			case <-enough:
				return
			}
		}
	}()
	if code := ended(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	close(enough)
}

// A timeout kills the process group of the command. The try counts as failed.
func TestTimeoutKillsProcessGroup(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one", "--backoff", "fixed:1h")
	code, out, errs := r.workUntil(1, "q", "--timeout", "50ms", "--exec", `sleep 1000 & wait`)
	if code != exitOK || !strings.Contains(out, "  nack  q  one  ") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if j := r.job("one"); j.Failures != 1 || !strings.Contains(j.LastError, "timeout") {
		t.Errorf("the job is %+v", j)
	}
}

// C15.36: work ends without an error after its output was closed.
func TestWorkClosedPipe(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one")
	errs := newLineCounter(1 << 30)
	env := r.env(closedPipe{}, errs, "work", "q", "--exec", "true", "--json")
	env.Clock = clock.System()
	if code := Run(t.Context(), env); code != exitOK || errs.String() != "" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
