package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// Commands that read or change jobs refuse a file that does not exist, and create none.
func TestMissingFileIsNotCreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "copi.db")

	for _, args := range [][]string{
		{"stats", "q"}, {"queues"}, {"queues", "--namespaces"}, {"peek", "q"}, {"job", "get", "q", "x"},
		{"job", "list", "q"}, {"dead", "list", "q"},
		{"reserve", "q"}, {"reserve", "q", "--wait"}, {"work", "q", "--exec", "true"},
		{"ack", "q:0:01J0000000000000000000000A:1"}, {"nack", "q:0:01J0000000000000000000000A:1"},
		{"extend", "q:0:01J0000000000000000000000A:1", "--lease", "1m"},
		{"job", "update", "q", "x", "--tries", "3"}, {"job", "promote", "q", "x"}, {"job", "delete", "q", "x"},
		{"dead", "requeue", "q", "x"},
		{"pause", "q"}, {"queue", "purge", "q", "--state", "dead", "--yes"}, {"queue", "destroy", "q", "--yes"},
		{"check"}, {"check", "--repair"}, {"backup", "-"},
	} {
		code, out, errs := r.real(append(args, "--url", open.File(path)+"?synchronous=normal")...)
		want := "duly: not_found: no such file " + path + "; check the path; duly push or serve creates a file\n"
		if code != exitFailed || out != "" || errs != want {
			t.Errorf("%v: exit %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("created %v, %v", left, err)
	}
}

// Commands with which a store can begin create the file.
func TestCommandsThatCreateFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, args := range [][]string{
		{"push", "q", "x"}, {"push", "q", "--lines"}, {"queue", "set", "q", "--tries", "3"},
		{"token", "create", "--rights", "admin"},
	} {
		path := filepath.Join(t.TempDir(), "new", "jobs.db")
		r.stdin = "one\n"
		if code, _, errs := r.real(append(args, "--url", open.File(path))...); code != exitOK {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
		if code, _, errs := r.real("queues", "--url", open.File(path)); code != exitOK {
			t.Errorf("stats after %v: exit %d, %s", args, code, errs)
		}
	}
}

// Hints for a server that is not running, and for a call to the wrong one of its addresses.
func TestWrongAddressHints(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	left, err := readEndpoint(r.vars["DULY_DATA"])
	if err != nil {
		t.Fatal(err)
	}
	with := func(url string) string { return strings.Replace(url, "://", "://"+left.token+"@", 1) }

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"push", "q", "x", "--url", "http://127.0.0.1:1"},
			"check that http://127.0.0.1:1/default is right and that the server runs: duly serve\n"},
		{[]string{"push", "q", "x", "--url", with(left.adminURL)}, "/default is the API's address, not the admin address\n"},
		{[]string{"check", "--admin-url", with(left.url)}, "is the server's admin address\n"},
	} {
		code, out, errs := r.runRemote(tt.args...)
		if code != exitFailed || out != "" || !strings.HasSuffix(errs, tt.want) || strings.Contains(errs, left.token) {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args[:2], code, out, errs, tt.want)
		}
	}
}

// On a terminal, an empty list prints a note.
func TestEmptyListNoteOnTerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "q", "--tries", "3")
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

// C15.49: a misspelled queue is an error with the nearest name, in every command.
func TestUnknownQueueSuggestsName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "emails", "x")
	r.ok("push", "invoices", "x")

	for _, args := range [][]string{
		{"stats", "emials"}, {"job", "list", "emials"}, {"jobs", "emials"}, {"dead", "list", "emials"}, {"peek", "emials"},
		{"job", "get", "emials", "x"}, {"job", "update", "emials", "x", "--priority", "1"}, {"job", "promote", "emials", "x"},
		{"job", "reschedule", "emials", "x", "--delay", "1h"}, {"job", "cancel", "emials", "x"}, {"cancel", "emials", "x"},
		{"dead", "requeue", "emials"}, {"dead", "purge", "emials", "--yes"},
		{"queue", "purge", "emials", "--state", "ready", "--yes"},
		{"queue", "destroy", "emials", "--yes"}, {"pause", "emials"}, {"resume", "emials"}, {"top", "emials", "--once"},
		{"queue", "set", "emials", "--reopen"}, {"schedule", "list", "emials"},
	} {
		code, out, errs := r.run(args...)
		const want = "duly: not_found: no such queue emials in namespace default; did you mean emails?\n"
		if code != exitFailed || out != "" || errs != want {
			t.Errorf("%v: exit %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}

	if _, _,
		errs := r.run("stats",
		"reports"); errs != "duly: not_found: no such queue reports in namespace default; see the queues: duly queues\n" {
		t.Errorf("printed %q", errs)
	}
	if code, _, errs := r.run("reserve", "emials"); code != exitOK ||
		errs != "no such queue emials yet; did you mean emails?\n" {
		t.Errorf("reserve: exit %d, %q", code, errs)
	}

	for _, args := range [][]string{
		{"stats", "emails"}, {"job", "list", "emails"}, {"pause", "emails"}, {"queue", "set", "emails", "--reopen"},
		{"schedule", "list", "emails"}, {"queue", "destroy", "emails", "--yes"},
	} {
		if code, _, errs := r.run(args...); code != exitOK || errs != "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

// A queue that was configured and never used exists.
func TestUnusedQueueExists(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "emails", "--tries", "3")
	for _, args := range [][]string{
		{"stats", "emails"}, {"job", "list", "emails"},
		{"queue", "destroy", "emails", "--yes"},
	} {
		if code, _, errs := r.run(args...); code != exitOK || errs != "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	r.tty = true
	if out := r.once(0, "-n", "other", "--once"); !strings.Contains(out, "there are no queues in namespace other\n") {
		t.Errorf("top: %q", out)
	}
}

// C15.50: push prints a note if it created the queue, with the nearest name.
func TestPushNotesCreatedQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "quiet", "--tries", "3")

	for _, tt := range []struct {
		args []string
		in   string
		want string
	}{
		{[]string{"push", "mail", "x"}, "", "created queue mail\n"},
		{[]string{"push", "mail", "x"}, "", ""},
		{[]string{"push", "mial", "x"}, "", "created queue mial; did you mean mail?\n"},
		{[]string{"push", "malls", "--lines"}, "a\nb\n", "created queue malls; did you mean mail?\n"},
		{[]string{"push", "malls", "--lines"}, "a\nb\n", ""},
		{[]string{"push", "quiet", "x"}, "", ""},
		{[]string{"push", "fresh", "x", "--json"}, "", ""},
		{[]string{"queue", "set", "quite", "--tries", "3"}, "", "created queue quite; did you mean quiet?\n"},
		{[]string{"queue", "set", "quite", "--tries", "4"}, "", ""},
	} {
		r.stdin = tt.in
		if code, _, errs := r.run(tt.args...); code != exitOK || errs != tt.want {
			t.Errorf("%v: exit %d, %q, want %q", tt.args, code, errs, tt.want)
		}
	}
}

// C15.51: push reads a piped body without "-".
func TestPushReadsPipedBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		in   string
		args []string
		want string
	}{
		{"piped", nil, "piped"}, {"piped", []string{"given"}, "given"}, {"piped", []string{""}, ""}, {"", nil, ""},
		{"piped", []string{"-"}, "piped"},
	} {
		r.stdin = tt.in
		r.ok(append([]string{"push", "q", "--id", "one"}, tt.args...)...)
		if got := r.ok("job", "get", "q", "one", "--body"); got != tt.want {
			t.Errorf("%q into push %q: the body is %q, want %q", tt.in, tt.args, got, tt.want)
		}
		r.ok("cancel", "q", "one")
	}
}

// C15.52: a list with a limit prints the number of further jobs and the cursor.
func TestLimitedListNotesMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = strings.Repeat("x\n", 150)
	r.ok("push", "q", "--lines")
	r.ok("push", "q", "x", "--id", "late", "--delay", "1h")
	for line := range strings.Lines(r.ok("reserve", "q", "--limit", "40", "--receipts")) {
		r.ok("bury", strings.TrimSpace(line))
	}

	_, out, errs := r.run("job", "list", "q")
	if n := strings.Count(out, "\n"); n != 1+100 || !strings.HasPrefix(errs, "… 51 more (--limit none, --cursor ready:") {
		t.Fatalf("%d lines, %q", n, errs)
	}
	_, rest, _ := strings.Cut(strings.TrimSuffix(errs, ")\n"), "--cursor ")
	code, out, errs := r.run("job", "list", "q", "--cursor", rest, "--limit", "11", "--json")
	if n := strings.Count(out, `"state":"ready"`); code != exitOK || n != 11 ||
		!strings.HasPrefix(errs, `{"more":{"cursor":"dead:`) {
		t.Errorf("exit %d, %d ready jobs, %q", code, n, errs)
	}
	for _, args := range [][]string{
		{"job", "list", "q", "--limit", "none"}, {"job", "list", "q", "--limit", "151"},
		{"dead", "list", "q"},
	} {
		if code, _, errs := r.run(args...); code != exitOK || errs != "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if _, _, errs := r.run("dead", "list", "q", "--limit", "30", "--json"); !strings.HasPrefix(errs,
		`{"more":{"jobs":10,"cursor":"dead:`) {
		t.Errorf("dead list: %q", errs)
	}
	if code, _, errs := r.run("dead", "list", "q", "--cursor", rest); code != exitUsage ||
		!strings.Contains(errs, "--cursor belongs to another list") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// C15.52: the hint for the next list has the direction and the moment of this one.
func TestListHintKeepsDirectionAndMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = strings.Repeat("x\n", 6)
	r.ok("push", "q", "--lines")
	for line := range strings.Lines(r.ok("reserve", "q", "--limit", "6", "--receipts")) {
		r.ok("bury", strings.TrimSpace(line))
		r.clock.Advance(time.Minute + time.Microsecond)
	}
	all := listedIDs(r.ok("dead", "list", "q", "--newest", "--from", "2m"))

	_, first, errs := r.run("dead", "list", "q", "--newest", "--from", "2m", "--limit", "2")
	_, hint, _ := strings.Cut(strings.TrimSuffix(errs, ")\n"), "--limit none, ")
	if !strings.HasPrefix(hint, "--newest --from "+stamp(r.clock.Now().Add(-2*time.Minute))+" --cursor dead:") {
		t.Errorf("the hint is %q", errs)
	}
	r.clock.Advance(time.Hour)
	rest := r.ok(append([]string{"dead", "list", "q"}, strings.Fields(hint)...)...)
	if got := listedIDs(first) + " " + listedIDs(rest); got != all {
		t.Errorf("both lists have %q, want %q", got, all)
	}

	_, _, errs = r.run("dead", "list", "q", "--newest", "--limit", "2", "--json")
	if !strings.HasPrefix(errs, `{"more":{"jobs":4,"newest":true,"cursor":"dead:`) {
		t.Errorf("the hint in JSON is %q", errs)
	}
	_, _, errs = r.run("dead", "list", "q", "--from", "2h", "--limit", "2", "--json")
	if !strings.Contains(errs, `"from":"`) || strings.Contains(errs, "newest") {
		t.Errorf("the hint in JSON is %q", errs)
	}
}

// dead requeue prints a hint if no job has the error of --group.
func TestRequeueOfUnknownGroupHasHint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")
	r.ok("bury", firstWord(r.ok("reserve", "q", "--receipts")), "--reason", "boom")
	const want = "no dead job has this error; see: duly dead list q --groups\n"
	if code, out, errs := r.run("dead", "requeue", "q", "--group", "0123456789ab"); code != exitOK ||
		out != "requeued 0 jobs\n" || errs != want {
		t.Errorf("exit %d, %q, %q; want %q", code, out, errs, want)
	}
}

// C15.48: nack, release and bury print the next state of the job, with and without an ID of
// its own.
func TestSettlePrintsNextState(t *testing.T) {
	t.Parallel()
	for name, id := range map[string][]string{
		"WithoutID": nil, "WithID": {"--id", "order-1"}, "WithIDOfANumber": {"--id", "01J0000000000000000000000A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aftermathsOf(newRig(t), id)
		})
	}
}

// aftermathsOf ends deliveries of jobs that are pushed with these flags.
func aftermathsOf(r *rig, flags []string) {
	t := r.t
	t.Helper()
	push := func(more ...string) { r.ok(append(append([]string{"push", "q", "x"}, flags...), more...)...) }
	end := func(want, as string, more ...string) {
		t.Helper()
		receipt := firstWord(r.ok("reserve", "q", "--receipts"))
		if out := r.ok(append([]string{as, receipt}, more...)...); !strings.Contains(out, want) {
			t.Errorf("%s printed %q, want %q", as, out, want)
		}
	}
	push("--tries", "2", "--backoff", "fixed:4s")
	end("nacked 1 job, again in 4s\n", "nack")
	r.clock.Advance(4 * time.Second)
	end("nacked 1 job, dead after 2 of 2 tries\n", "nack")
	if out := r.ok("dead", "list", "q", "--json"); !strings.Contains(out, `"attempt":2,`) {
		t.Errorf("the dead job is %s", out)
	}

	r.ok("dead", "purge", "q", "--yes")
	push()
	end("released 1 job, again in 1h\n", "release", "--delay", "1h")
	r.clock.Advance(time.Hour)
	end(`"ok":true,"state":"dead"`, "bury", "--json")
}

// C15.53: short names of commands, and old names of flags.
func TestShortAndOldNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		r.ok("push", "q", "x", "--id", id)
	}

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cancel", "q", "a"}, "canceled job a\n"},
		{[]string{"job", "cancel", "q", "b"}, "canceled job b\n"},
		{[]string{"ls", "--names"}, "q\n"},
		{[]string{"jobs", "q", "--json", "--limit", "1"}, `"id":"c"`},
		{[]string{"job", "reschedule", "q", "d", "--delay", "1h"}, "rescheduled job d\n"},
		{[]string{"job", "get", "q", "d", "--json"}, `"state":"delayed"`},
		{[]string{"reserve", "q", "--max", "1", "--receipts"}, "q:0:"},
		{[]string{"reserve", "q", "--limit", "1", "--receipts"}, "q:0:"},
		{[]string{"queue", "purge", "q", "--state", "ready", "--first", "1", "--yes"}, "removed 1 ready job of q\n"},
		{[]string{"dead", "purge", "q", "--oldest", "1", "--yes"}, "removed 0 dead jobs of q\n"},
	} {
		if out := r.ok(tt.args...); !strings.Contains(out, tt.want) {
			t.Errorf("%v: %q, want %q", tt.args, out, tt.want)
		}
	}

	if code, _, errs := r.run("job", "reschedule", "q", "d"); code != exitUsage ||
		!strings.Contains(errs, "the time is missing; give --delay 1h") {
		t.Errorf("exit %d, %q", code, errs)
	}

	for _, args := range [][]string{{"reserve"}, {"dead", "purge"}, {"dead", "requeue"}, {"queue", "purge"}, {"nack"}} {
		if help := r.ok(append(args, "--help")...); strings.Contains(help, "--max ") || strings.Contains(help, "--oldest") ||
			strings.Contains(help, "--first") || strings.Contains(help, "--error") {
			t.Errorf("the help of %v shows an old name:\n%s", args, help)
		}
	}
}

// C15.22: a queue has a default for retain.
func TestQueueSetRetain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "q", "--retain", "7d")
	r.ok("push", "q", "x", "--id", "one")
	if out := r.ok("stats", "q"); !strings.Contains(out, "retain      7d\n") {
		t.Errorf("stats:\n%s", out)
	}
	if out := r.ok("job", "get", "q", "one"); !strings.Contains(out, "retain    7d\n") {
		t.Errorf("job get:\n%s", out)
	}
}

// A repeated error is printed once, on one line.
func TestMessageJoinsErrors(t *testing.T) {
	t.Parallel()
	gone := contract.Errorf(duly.CodeUnavailable, "nobody answers")
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

// The error for 0s has the bounds of the flag.
func TestZeroDurationErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, args := range map[string][]string{
		`--lease cannot be "0s": it must be between 100ms and 366d`: {"push", "q", "x", "--lease", "0s"},
		`--limit-per cannot be "0s": it must be between 1s and 366d`: {"token", "create", "--rights", "produce",
			"--limit-produce", "1", "--limit-per", "0s"},
		`--interval cannot be "0s": it must be at least 100ms`: {"top", "--interval", "0s"},
		`--ttl cannot be "0s": it must be at least 1ms`:        {"push", "q", "x", "--ttl", "0s"},
		`--delay and --due are both set, give one of them`: {"push", "q", "x", "--delay", "1s", "--due",
			"2030-01-01T00:00:00Z"},
		`--tries is 65536, must be between 1 and 65535; see: duly qu`: {"queue", "set", "q", "--tries", "65536"},
	} {
		if code, _, errs := r.run(args...); code != exitUsage || !strings.HasPrefix(errs, "duly: invalid: "+want) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, want)
		}
	}
}

// The error for an invalid number has the bounds of the flag.
func TestInvalidNumberErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, args := range map[string][]string{
		`--priority cannot be "high": write a whole number between -1000 and 1000;`: {"push", "q", "x", "--priority", "high"},
		`--max-jobs cannot be "0": write a number of at least 1, or none;`:          {"queue", "set", "q", "--max-jobs", "0"},
		`--tries cannot be "0": write a number of at least 1;`:                      {"queue", "set", "q", "--tries", "0"},
	} {
		if code, _, errs := r.run(args...); code != exitUsage || !strings.HasPrefix(errs, "duly: invalid: "+want) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, want)
		}
	}
}

// C15.35: errors name the bounds and the flags of the command, and say which argument is bad.
func TestErrorsNameBoundsAndFlags(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")
	r.ok("topic", "create", "t")
	for command, want := range map[string]string{
		"schedule put q n @daily x --jitter -1s":       `--jitter cannot be "-1s": it must be between 0s and 1d;`,
		"topic set t --keep -1h":                       `--keep cannot be "-1h": it must be at least 1ms, or none;`,
		"topic set t --keep 0":                         `--keep cannot be "0": it must be at least 1ms, or none;`,
		"release R --slow -1s":                         `--slow cannot be "-1s": it must be between 0s and 1h;`,
		"work q --exec true --overload -1s":            `--overload cannot be "-1s": it must be between 1ms and 1h;`,
		"work q --exec true --drain -1s":               `--drain cannot be "-1s": it must be at least 0s, or none;`,
		"queue set q --max-jobs 1000000000001":         "it is too large; write a number between 1 and 1000000000000;",
		"job list q --cursor foo":                      "--cursor is not a cursor; copy it from the list before;",
		"job list q --state dead --cursor ready:x":     "--cursor belongs to another list;",
		"topic group create ev!ents mailer":            `topic is "ev!ents", may contain only`,
		"topic group create events mai!ler":            `group is "mai!ler",`,
		"queue set q --adapt 0.5":                      "give --rate or --max-leased too, or give --adapt none;",
		"queue set q --push-url https://crm.test/hook": "give --delivery push, or leave it out;",
	} {
		code, out, errs := r.run(strings.Fields(command)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %s; want %s", command, code, out, errs, want)
		}
	}
}

// C15.35: an empty --state, as from an unset shell variable, does not select every state.
func TestEmptyStateIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x", "--id", "one")
	for _, args := range [][]string{
		{"job", "delete", "q", "one", "--state", ""}, {"job", "list", "q", "--state", ""}, {"jobs", "q", "--state="},
	} {
		code, out, errs := r.run(args...)
		const want = `duly: invalid: --state cannot be "": write one of delayed, ready, blocked, leased, dead, done, ` +
			"or leave the flag out;"
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, want) {
			t.Errorf("%v: exit %d, %q, %s; want %s", args, code, out, errs, want)
		}
	}
	r.ok("job", "get", "q", "one")
}

// queue set refuses a burst without a rate, because it would limit nothing.
func TestBurstNeedsRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refused := func(args ...string) {
		t.Helper()
		if code, _, errs := r.run(args...); code != exitUsage || !strings.Contains(errs, "--burst needs a rate") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	refused("queue", "set", "q", "--burst", "5")
	r.ok("queue", "set", "q", "--rate", "2")
	r.ok("queue", "set", "q", "--burst", "5")
	refused("queue", "set", "q", "--rate", "none", "--burst", "5")
}

// Only similar commands are suggested. Short words accept one different letter.
func TestOnlySimilarCommandsAreSuggested(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for word, want := range map[string]string{
		"foo": `no such command "foo"; see: `, "pusch": `"pusch", did you mean push?; see: `,
		"tops": `"tops", did you mean top or jobs or topic?; see: `, "to": `"to", did you mean top`,
		"chek": `"chek", did you mean peek or check?`,
	} {
		if code, _, errs := r.run(word); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, want %q", word, code, errs, want)
		}
	}
}

// Values that a flag or an argument cannot have are refused before any call, with the bound.
func TestBadValuesNameTheBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"push", "q", "x", "--tries", "99999999999999999999"},
			"too large; write a number between 1 and 1000000000000"},
		{[]string{"push", "q", "x", "--id", ""}, "--id cannot be \"\": it is empty"},
		{[]string{"push", "q", "x", "--order-key", ""}, "--order-key cannot be \"\": it is empty"},
		{[]string{"topic", "publish", "t", "x", "--key", ""}, "--key cannot be \"\": it is empty"},
		{[]string{"work", "q", "--exec", "true", "--overload", "2h"}, "it must be between 1ms and 1h"},
		{[]string{"release", "q:0:01J0000000000000000000000A:1", "--slow", "2h"}, "it must be between 0s and 1h"},
		{[]string{"target", "delete", ""}, "NAME is empty; duly target delete needs one"},
		{[]string{"queue", "set", "q", "--rate", "5000000"}, "is 5000000 a second, must be between 0.000001 and 1000000"},
	} {
		code, out, errs := r.real(append(c.args, "--url", open.File(filepath.Join(t.TempDir(), "duly.db")))...)
		if code == exitOK || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, %q, %q; want %q", c.args, code, out, errs, c.says)
		}
	}
}
