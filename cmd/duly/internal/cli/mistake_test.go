package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// A misspelled path is not a storage without jobs: what looks, takes or changes
// refuses it, and makes nothing.
func TestAMisspelledPathIsRefusedAndMakesNoFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "copi.db")
	for _, args := range [][]string{
		{"stats", "q"}, {"queues"}, {"queues", "--namespaces"}, {"peek", "q"}, {"job", "get", "q", "x"}, {"job", "list", "q"}, {"dead", "list", "q"},
		{"reserve", "q"}, {"reserve", "q", "--wait"}, {"work", "q", "--exec", "true"}, {"ack", "x"}, {"nack", "x"}, {"extend", "x", "--lease", "1m"},
		{"job", "update", "q", "x", "--tries", "3"}, {"job", "promote", "q", "x"}, {"job", "delete", "q", "x"}, {"dead", "requeue", "q", "x"},
		{"pause", "q"}, {"queue", "purge", "q", "--state", "dead", "--yes"}, {"queue", "destroy", "q", "--yes"},
		{"check"}, {"check", "--repair"}, {"backup", "-"},
	} {
		code, out, errs := r.real(append(args, "--url", open.File(path)+"?synchronous=normal")...)
		want := "duly: not_found: there is no file " + path + "; mind the path; duly push or serve makes a new one\n"
		if code != exitFailed || out != "" || errs != want {
			t.Errorf("%v: exit %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// What a storage may begin with makes the file.
func TestWhatAStorageBeginsWithMakesTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, args := range [][]string{
		{"push", "q", "x"}, {"push", "q", "--lines"}, {"queue", "set", "q", "--tries", "3"}, {"token", "create", "--rights", "admin"},
	} {
		path := filepath.Join(t.TempDir(), "new", "jobs.db")
		r.stdin = "one\n"
		if code, _, errs := r.real(append(args, "--url", open.File(path))...); code != exitOK {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
		if code, _, errs := r.real("stats", "q", "--url", open.File(path)); code != exitOK {
			t.Errorf("stats after %v: exit %d, %s", args, code, errs)
		}
	}
}

// The advice fits the mistake: a server that does not run, and one that was
// called at the other one of its addresses.
func TestAWrongAddressIsNamed(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	left, err := readPlace(r.vars["DULY_DATA"])
	if err != nil {
		t.Fatal(err)
	}
	with := func(url string) string { return strings.Replace(url, "://", "://"+left.token+"@", 1) }
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"push", "q", "x", "--url", "http://127.0.0.1:1"}, "check that http://127.0.0.1:1/default is right and that the server runs: duly serve\n"},
		{[]string{"push", "q", "x", "--url", with(left.adminURL)}, "/default is the API's address, not the admin one\n"},
		{[]string{"check", "--admin-url", with(left.url)}, "is the server's admin address\n"},
	} {
		code, out, errs := r.run1(tt.args...)
		if code != exitFailed || out != "" || !strings.HasSuffix(errs, tt.want) || strings.Contains(errs, left.token) {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args[:2], code, out, errs, tt.want)
		}
	}
}

// A person is told that a list is empty; a program reads nothing.
func TestAnEmptyListSaysSoOnATerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tty := range []bool{true, false} {
		r.tty = tty
		for want, args := range map[string][]string{
			"there are no jobs in q\n":      {"job", "list", "q"},
			"there are no dead jobs in q\n": {"dead", "list", "q"},
		} {
			if !tty {
				want = ""
			}
			if code, out, errs := r.run(args...); code != exitOK || out != "" || errs != want {
				t.Errorf("terminal %v, %v: exit %d, %q, %q", tty, args, code, out, errs)
			}
		}
	}
}

// A person is told that a name may be misspelled; a program reads what it asked
// for.
func TestAQueueThatNobodyKnowsIsSaidOnATerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "emails", "x")
	for _, tt := range []struct {
		tty  bool
		args []string
		want string
	}{
		{true, []string{"stats", "emials"}, "nothing was ever pushed to default/emials\n"},
		{true, []string{"stats", "emials", "--json"}, ""},
		{true, []string{"stats", "emails"}, ""},
		{false, []string{"stats", "emials"}, ""},
	} {
		r.tty = tt.tty
		if code, _, errs := r.run(tt.args...); code != exitOK || errs != tt.want {
			t.Errorf("terminal %v, %v: exit %d, %q", tt.tty, tt.args, code, errs)
		}
	}
	r.tty = true
	for want, args := range map[string][]string{"there is no such queue in namespace default\n": {"emials"}, "there are no queues in namespace other\n": {"-n", "other"}} {
		if out := r.once(0, append(args, "--once")...); !strings.HasSuffix(out, want) && !strings.HasPrefix(out, want) {
			t.Errorf("top %v: %q, want %q", args, out, want)
		}
	}
}

// What goes wrong for many queues in the same way is said once, and in one line.
func TestOneFaultOfManyIsSaidOnce(t *testing.T) {
	t.Parallel()
	gone := duly.Errorf(duly.CodeUnavailable, "nobody answers")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.Join(gone, gone, gone), "nobody answers"},
		{errors.Join(gone, errors.New("a disk is full"), gone), "nobody answers; a disk is full"},
		{errors.New("one\ntwo"), "one; two"},
	} {
		if got := new(app).message(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// What is wrong with 0s is told with the bound of the flag, not of durations.
func TestADurationOfNothingIsToldItsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, args := range map[string][]string{
		`--lease can't be "0s": it must be between 100ms and 366d`:    {"push", "q", "x", "--lease", "0s"},
		`--limit-per can't be "0s": it must be between 1s and 366d`:   {"token", "create", "--rights", "produce", "--limit-produce", "1", "--limit-per", "0s"},
		`--interval can't be "0s": it must be at least 100ms`:         {"top", "--interval", "0s"},
		`--ttl can't be "0s": it must be at least 1ms`:                {"push", "q", "x", "--ttl", "0s"},
		`--delay and --due are both set, give one of them`:            {"push", "q", "x", "--delay", "1s", "--due", "2030-01-01T00:00:00Z"},
		`--tries is 65536, must be between 1 and 65535; see: duly qu`: {"queue", "set", "q", "--tries", "65536"},
	} {
		if code, _, errs := r.run(args...); code != exitMisuse || !strings.HasPrefix(errs, "duly: invalid: "+want) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, want)
		}
	}
}

// What is no number is told the flag's bounds, in words that are not Go's.
func TestWhatIsNoNumberIsToldItsBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, args := range map[string][]string{
		`--priority can't be "high": write a whole number between -1000 and 1000;`: {"push", "q", "x", "--priority", "high"},
		`--max-jobs can't be "0": write a number from 1 on, or none;`:              {"queue", "set", "q", "--max-jobs", "0"},
		`--tries can't be "0": write a number from 1 on;`:                          {"queue", "set", "q", "--tries", "0"},
	} {
		if code, _, errs := r.run(args...); code != exitMisuse || !strings.HasPrefix(errs, "duly: invalid: "+want) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, want)
		}
	}
}

// A burst bounds nothing on a queue without a rate, and is not taken silently.
func TestABurstGoesWithARate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refused := func(args ...string) {
		t.Helper()
		if code, _, errs := r.run(args...); code != exitMisuse || !strings.Contains(errs, "--burst goes with a rate") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	refused("queue", "set", "q", "--burst", "5")
	r.ok("queue", "set", "q", "--rate", "2")
	r.ok("queue", "set", "q", "--burst", "5")
	refused("queue", "set", "q", "--rate", "none", "--burst", "5")
}

// What was meant is guessed where it is near; of three letters two are not few.
func TestOnlyWhatIsNearIsSuggested(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for word, want := range map[string]string{
		"foo": `there is no command "foo"; see: `, "pusch": `"pusch", did you mean push?; see: `, "tops": `"tops", did you mean top?; see: `, "to": `"to", did you mean top`, "chek": `"chek", did you mean peek or check?`,
	} {
		if code, _, errs := r.run(word); code != exitMisuse || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, want %q", word, code, errs, want)
		}
	}
}
