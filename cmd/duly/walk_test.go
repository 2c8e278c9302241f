//go:build unix

package main_test

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A new user tries the commands of README, help and docs in a shell, and makes common
// mistakes. Every step is one line of a shell and its expected output.
func TestCommandsOfThePagesWorkInAShell(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.serve()
	for _, step := range []struct {
		line string
		code int
		want string // a pattern in the output
	}{
		// Pipes, and the queue that a push creates.
		{`echo 'hello world' | duly push mail`, 0, `created in mail, due now\ncreated queue mail\n$`},
		{`duly peek mail`, 0, `hello world`},
		{`duly push mial x --id typo`, 0, `created queue mial; did you mean mail\?\n$`},
		{`duly job cancel mial typo && duly queue destroy mial --yes`, 0, `canceled job typo\ndestroyed mial\n$`},

		// Names that do not exist.
		{`duly stats maill`, 1, `no such queue maill in namespace default; did you mean mail\?\n$`},
		{`duly job list mial`, 1, `no such queue mial in namespace default; did you mean mail\?\n$`},
		{`duly queue destroy mial --yes`, 1, `no such queue mial in namespace default; did you mean mail\?\n$`},

		// Workers, with the variables that the help names.
		{`duly work --help | grep -o 'DULY_JOB_ATTEMPT' | head -1`, 0, `^DULY_JOB_ATTEMPT\n$`},
		{`DULY_TOKEN= duly work mail --once --exec 'cat; ` +
			`echo "try $DULY_JOB_ATTEMPT of $DULY_JOB_TRIES, $DULY_URL$DULY_TOKEN."'`, 0,
			`^hello world\ntry 1 of 16, \.\n.*  ack  mail  `},
		{`duly push mail body --id two --tries 2 --backoff fixed:1h && duly work mail --until-empty -- false`, 0,
			`attempt 1  exit 1  .*  again in (1h|59m)`},
		{`duly job promote mail two && duly work mail --once -- false`, 0,
			`attempt 2  exit 1  .*  dead after 2 of 2 tries\n$`},
		{`duly job get mail two --json`, 0, `"attempt":2,`},
		{`duly work mail --once --until-empty -- true`, 0, `^$`},

		// Jobs by hand.
		{`duly push hand x --tries 1 && duly nack $(duly reserve hand --receipts) --reason 'no route'`, 0,
			`nacked 1 job, dead after 1 of 1 tries\n$`},
		{`duly push hand x --id own --tries 2 --backoff fixed:1h && duly nack $(duly reserve hand --receipts)`, 0,
			`nacked 1 job, again in (1h|59m)`},
		{`duly job promote hand own && duly bury $(duly reserve hand --receipts)`, 0,
			`buried 1 job, dead after 1 of 2 tries\n$`},
		{`duly push hand x --id own2 && duly release $(duly reserve hand --receipts) --delay 2h && ` +
			`duly cancel hand own2`, 0,
			`released 1 job, again in (2h|1h59m)\ncanceled job own2\n$`},
		{`duly push hand x --id later --delay 1h && duly job reschedule hand later --delay 2h`, 0,
			`rescheduled job later\n$`},
		{`duly cancel hand later && duly ls --names`, 0, `canceled job later\nhand\nmail\n$`},

		// A malformed receipt is invalid, not a lost lease.
		{`duly ack foo`, 1, `^duly: invalid: foo: receipt cannot be decoded`},
		{`duly nack foo --reason x --json`, 1, `"code":"invalid"`},
		{`duly push hand x && r=$(duly reserve hand --receipts) && duly ack $r && duly ack $r`, 1, `(?m)^duly: lease_lost: `},

		// top marks queues that hold jobs back, and does not call the frozen view a pause.
		{`duly push slow one && duly push slow two && duly top --once`, 0, `(?m)^slow  +2 `},
		{`duly pause slow && duly top --once`, 0, `(?m)^slow \[paused\]  +2 `},
		{`duly top --once --json | grep slow`, 0, `"name":"slow".*"paused":true`},
		{`duly resume slow && duly queue set slow --max-leased 1`, 0, `max leased +1\n`},
		{`duly reserve slow && duly top --once`, 0, `(?m)^slow \[limited\]  +1 `},
		{`duly top --help | grep Keys`, 0, `the space bar freezes the view`},
		{`duly top --help | grep Keys | grep -i pause`, 1, `^$`},

		// Long lists.
		{`seq 155 | duly push many --lines`, 0, `155 lines: 155 created`},
		{`duly jobs many 2>&1 >/dev/null`, 0, `^… 55 more \(--limit none, --cursor ready:.*\)\n$`},
		{`duly queue purge many --state ready --limit 5 --yes`, 0, `removed 5 ready jobs of many\n$`},
		{`duly queue set many --retain 7d`, 0, `retain +7d\n`},

		// restore refuses a store that a server has open.
		{`duly backup copy.db`, 0, `^wrote copy.db, `},
		{`duly restore copy.db`, 1, `duly.db is open in another process \(\d+\); stop it, then restore\n$`},
	} {
		code, out := h.shell(step.line)
		if code != step.code || !regexp.MustCompile(step.want).MatchString(out) {
			t.Errorf("$ %s\n%s[exit %d]; want %s and exit %d", step.line, out, code, step.want, step.code)
		}
	}
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("serve: exit %d, %s", code, s.errs.String())
	}

	code, out := h.shell("duly restore copy.db")
	if code != 0 || !strings.HasPrefix(out, "restored ") || !strings.Contains(out, "duly.db.before-restore-") {
		t.Errorf("restore without a server: exit %d, %s", code, out)
	}
}

// shell runs a line in a shell that finds duly in its path, and returns the output.
func (h *home) shell(line string) (code int, out string) {
	h.t.Helper()
	cmd := h.command("/bin/sh", "-c", line)
	cmd.Env = []string{"PATH=" + h.dir + "/bin:" + os.Getenv("PATH"), "HOME=" + h.dir}
	text, err := cmd.CombinedOutput()
	return exitOf(h.t, err), string(text)
}

// C15.54: a server prints when it drains and when it has stopped.
func TestServeSaysThatItDrainsAndStops(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command("./bin/duly", "serve", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })

	printed := ""
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if strings.HasPrefix(scan.Text(), "Ctrl-C") {
			cmd.Process.Signal(syscall.SIGTERM)
			printed = ""
			continue
		}
		printed += fmt.Sprintln(scan.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve: %v", err)
	}
	if want := "draining: running requests may finish; a second signal ends them at once\nstopped\n"; printed != want {
		t.Errorf("serve printed %q, want %q", printed, want)
	}
}
