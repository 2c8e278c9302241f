//go:build unix

package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// ends runs `duly work`, which must end by itself.
func (r *rig) ends(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	out, errs := newLineCounter(1<<30), newLineCounter(1<<30)
	env := r.env(out, errs, append([]string{"work"}, args...)...)
	env.Clock = clock.System()
	done := make(chan int, 1)
	go func() { done <- Run(r.t.Context(), env) }()
	select {
	case code = <-done:
	case <-time.After(20 * time.Second):
		r.t.Fatalf("duly work %s does not end: %s", strings.Join(args, " "), errs)
	}
	return code, out.String(), errs.String()
}

// C15.46: --once runs one job and exits.
func TestWorkOnceRunsOneJob(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "one")
	r.ok("push", "q", "x", "--id", "two")
	code, out, errs := r.ends("q", "--once", "--concurrency", "4", "--exec", "true")
	if code != exitOK || strings.Count(out, "\n") != 1 || !strings.Contains(out, "  ack  q  one  ") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if j := r.job("two"); j.State != "ready" {
		t.Errorf("two is %s", j.State)
	}
}

// C15.46: with --until-empty, --once does not wait for a job.
func TestWorkOnceUntilEmptyWithoutJob(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "later", "--delay", "1h")
	if code, out, errs := r.ends("q", "--once", "--until-empty", "--exec", "true"); code != exitOK || out != "" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}

// C15.46: a group that does not exist has no jobs, so --until-empty ends.
func TestWorkUntilEmptyWithoutItsGroup(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("topic", "create", "events")
	for _, args := range [][]string{{"--until-empty"}, {"--once", "--until-empty"}} {
		code, out, errs := r.ends(append([]string{"events@mailer", "--exec", "true"}, args...)...)
		if code != exitOK || out != "" || !strings.Contains(errs, "duly topic group create events mailer") {
			t.Errorf("%v: exit %d, %q, %s", args, code, out, errs)
		}
	}
}

// C15.46: --until-empty runs all jobs that are due, and no others.
func TestWorkUntilEmpty(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		r.ok("push", "q", "good", "--id", id)
	}
	r.ok("push", "other", "good", "--id", "f")
	r.ok("push", "q", "bad", "--id", "again", "--backoff", "fixed:1h")
	r.ok("push", "q", "good", "--id", "later", "--delay", "1h")
	code, out, errs := r.ends("q", "other", "--until-empty", "--concurrency", "2", "--exec",
		`test "$(cat)" = good || { sleep 0.05; exit 1; }`)
	if code != exitOK || strings.Count(out, "  ack  ") != 6 || strings.Count(out, "  nack  ") != 1 {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if j := r.job("later"); j.State != "delayed" {
		t.Errorf("later is %s", j.State)
	}
}

// C15.46: --until-empty waits for jobs that a limit holds back, but not for those of a
// paused queue.
func TestWorkUntilEmptyWaitsForLimitButNotPause(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("queue", "set", "q", "--rate", "20", "--burst", "1")
	for range 4 {
		r.ok("push", "q", "x")
	}
	r.ok("push", "paused", "x")
	r.ok("pause", "paused")
	code, out, errs := r.ends("q", "paused", "--until-empty", "--exec", "true")
	if code != exitOK || strings.Count(out, "  ack  q  ") != 4 || strings.Contains(out, "paused") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}

// C15.13: the arguments after "--" are a program and its arguments, without a shell.
func TestWorkRunsProgramAfterDash(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "body", "--id", "one", "--retain", "1h")
	code, out, errs := r.ends("q", "--once", "--result", "--", "/bin/sh", "-c",
		`printf '%s|' "$0" "$1" "$(cat)" "$DULY_JOB_ID"`, "$HOME", "a b")
	if code != exitOK || r.job("one").Result != "$HOME|a b|body|one|" {
		t.Errorf("exit %d, %q, %s; the result is %q", code, out, errs, r.job("one").Result)
	}
	for _, args := range [][]string{{"q"}, {"q", "--"}, {"q", "--exec", "true", "--", "true"}, {"--", "true"}} {
		if code, _, errs := r.run(append([]string{"work"}, args...)...); code != exitUsage {
			t.Errorf("work %v: exit %d, %s", args, code, errs)
		}
	}
}

// C15.47: the command gets the engine's URL and token only with --pass-url.
func TestWorkPassesURLOnlyWithPassURL(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.vars["DULY_TOKEN"], r.vars["DULY_ADMIN_URL"], r.vars["KEPT"] = "secret-1", "http://secret-2@host", "yes"
	r.vars["PATH"] = os.Getenv("PATH")
	const show = `echo "$DULY_URL,$DULY_TOKEN,$DULY_ADMIN_URL,$KEPT"`

	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, ",,,yes\n"},
		{[]string{"--pass-url"}, "model:,secret-1,http://secret-2@host,yes\n"},
	} {
		r.ok("push", "q", "x", "--id", "one", "--retain", "1h")
		code, _, errs := r.ends(append([]string{"q", "--once", "--result", "--exec", show}, tt.args...)...)
		if got := r.job("one").Result; code != exitOK || got != tt.want {
			t.Errorf("%v: exit %d, the command sees %q, want %q; %s", tt.args, code, got, tt.want, errs)
		}
		r.ok("job", "delete", "q", "one")
	}
}

// C15.48: the line of a failed try says whether and when the job is tried again.
func TestWorkPrintsNextState(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "1", "--id", "again", "--tries", "2", "--backoff", "fixed:1h")
	r.ok("push", "q", "1", "--id", "last", "--tries", "1")
	r.ok("push", "q", "75", "--id", "snoozed")
	code, out, errs := r.ends("q", "--until-empty", "--snooze", "2h", "--exec", `exit $(cat)`)
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for id, want := range map[string]string{
		"again": "again in 1h", "last": "dead after 1 of 1 tries",
		"snoozed": "again in 2h",
	} {
		if !linesWith(out, "  "+id+"  ", "  "+want) {
			t.Errorf("no %q for %s in\n%s", want, id, out)
		}
	}

	r.ok("job", "promote", "q", "again")
	_, out, errs = r.ends("q", "--once", "--json", "--exec", "false")
	if !strings.Contains(out, `"as":"nack","exit":1`) || !strings.Contains(out, `"state":"dead"`) {
		t.Errorf("printed %q, %s", out, errs)
	}
}

// linesWith reports whether a line has all of the parts.
func linesWith(text string, parts ...string) bool {
	for line := range strings.Lines(text) {
		missing := 0
		for _, part := range parts {
			if !strings.Contains(line, part) {
				missing++
			}
		}
		if missing == 0 {
			return true
		}
	}
	return false
}
