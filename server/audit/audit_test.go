package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/server/auth"
)

// rig is a log in a folder.
type rig struct {
	t     *testing.T
	clock *clock.Fake
	dir   string
	slog  *logtest.Log
	log   *Log
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(), dir: filepath.Join(t.TempDir(), "audit"), slog: new(logtest.Log)}
	r.restart()
	return r
}

// restart opens the folder again, as the next process does.
func (r *rig) restart() {
	r.t.Helper()
	var err error
	r.log, err = Open(Config{Dir: r.dir, Clock: r.clock, Logger: slog.New(slog.NewJSONHandler(r.slog, nil))})
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin writes an intent for a queue.
func (r *rig) begin(queue string) (end func(Outcome)) {
	r.t.Helper()
	end, err := r.log.Begin(Action{Caller: "account ada", Route: "POST /pause", Namespace: "shop", Queue: queue})
	if err != nil {
		r.t.Fatal(err)
	}
	return end
}

// lines returns all lines of the files.
func (r *rig) lines() (list []line) {
	r.t.Helper()
	paths, err := r.log.files.list()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		for row := range strings.Lines(string(text)) {
			var n line
			if err := json.Unmarshal([]byte(row), &n); err != nil {
				n.Phase = "broken"
			}
			list = append(list, n)
		}
	}
	return list
}

// shape returns the phases and results of all lines.
func (r *rig) shape() string {
	var parts []string
	for _, n := range r.lines() {
		parts = append(parts, strings.TrimSpace(n.Phase+" "+n.Result))
	}
	return strings.Join(parts, ", ")
}

// C14.57: each action has an intent before it and an outcome after it, and the process's log has the same lines. Only
// the owner can read the files.
func TestEachActionHasIntentAndOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log without lines has a folder: %v", err)
	}
	end := r.begin("mail")
	if got := r.shape(); got != "intent" {
		t.Fatalf("before the action the log has %q", got)
	}
	end(Outcome{Err: duly.ErrConflict, Done: 2, Failed: 1})
	lines := r.lines()
	if r.shape() != "intent, outcome conflict" || lines[0].ID != lines[1].ID || lines[0].Caller != "account ada" ||
		lines[0].Queue != "mail" || lines[1].Done != 2 || lines[1].Failed != 1 {
		t.Errorf("the lines are %+v", lines)
	}
	if n := strings.Count(r.slog.String(), `"msg":"audit"`); n != 2 {
		t.Errorf("the log of the process has %d lines", n)
	}
	info, err := os.Stat(r.log.files.path(1))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

// If a process ends before, within or after an action, the next process logs this.
func TestNextProcessLogsUnfinishedActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.begin("a")(Outcome{})
	r.begin("b")
	r.restart()
	if got := r.shape(); got != "intent, outcome ok, intent, outcome unknown" {
		t.Errorf("the log has %q", got)
	}
	r.restart()
	if n := len(r.lines()); n != 4 {
		t.Errorf("the second restart adds %d lines", n-4)
	}

	// The end of the process within a line leaves a part of it, and the next line begins on its own.
	f, err := os.OpenFile(r.log.files.path(1), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"20`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r.restart()
	r.begin("c")(Outcome{})
	if got := r.shape(); !strings.HasSuffix(got, "outcome unknown, broken, intent, outcome ok") {
		t.Errorf("the log has %q", got)
	}
}

// full is a file on a full disk: it takes a part of each line.
type full struct{ file }

func (f full) Write(b []byte) (int, error) {
	n, _ := f.file.Write(b[:len(b)/2])
	return n, syscall.ENOSPC
}

// C14.57: on a full disk Begin fails and leaves no part of a line. A loose call continues, and is counted.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	end := r.begin("a")
	r.log.files.open = func(path string) (file, error) {
		f, err := openFile(path)
		return full{f}, err
	}
	if _, err := r.log.Begin(Action{Queue: "b"}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an intent on a full disk: %v", err)
	}
	end(Outcome{})
	r.log.BeginLoose(Action{Queue: "c"})(Outcome{})
	if n := r.log.Failed(); n != 4 {
		t.Errorf("%d lines are counted as failed", n)
	}

	// There is room again.
	r.log.files.open = openFile
	r.begin("d")
	if got := r.shape(); got != "intent, intent" {
		t.Errorf("the log has %q", got)
	}
}

// C14.57: a full file is followed by the next one, which later processes continue. Old files and files beyond the bound
// are removed.
func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(number int, size int64, ago int) {
		path := r.log.files.path(number)
		if err := errors.Join(os.WriteFile(path, []byte("{}\n"), 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		at := r.clock.Now().AddDate(0, 0, -ago)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 3, 401)
	write(2, 3, 399)
	write(3, maxFile-10, 1)
	r.restart()
	r.begin("a")(Outcome{})
	list, err := r.log.files.list()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range list {
		names = append(names, strings.Trim(filepath.Base(path), "audit-.jsonl0"))
	}
	if got := fmt.Sprint(names); got != "[2 3 4]" {
		t.Errorf("the files are %s", got)
	}

	for n := 5; n < 5+maxFiles; n++ {
		write(n, maxFile-10, 0)
	}
	r.restart()
	r.begin("a")
	if list, err = r.log.files.list(); err != nil || len(list) != maxFiles {
		t.Errorf("%d files remain: %v", len(list), err)
	}
}

// Log entries contain neither a line break nor a token, even if a caller puts a token in the wrong field.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := auth.NewSecret()
	r.log.BeginLoose(Action{Namespace: secret, Queue: secret, Jobs: []string{secret, "a\nb"}, Caller: secret, Remote: secret})
	text := fmt.Sprint(r.lines()) + r.slog.String()
	if strings.Contains(text, secret) || !strings.Contains(text, "a?b") {
		t.Errorf("the lines are %s", text)
	}
}

// Without a folder only the log of the process has the lines.
func TestWithoutAFolderOnlyTheProcessLogHasTheLines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.dir = ""
	r.restart()
	r.begin("a")(Outcome{})
	if n := strings.Count(r.slog.String(), `"msg":"audit"`); n != 2 || r.log.Failed() != 0 {
		t.Errorf("the log has %d lines, %d failed", n, r.log.Failed())
	}
}

// A start writes no outcome for an action that may outlast the process. The next process ends it.
func TestLastingActionOutlastsTheProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.log.Begin(Action{Caller: "account ada", Queue: "mail", Lasting: "OP"}); err != nil {
		t.Fatal(err)
	}
	r.begin("orders")
	r.restart()
	r.restart()
	r.log.End("OP", Outcome{Result: "stopped", Done: 7}, true)

	var got []string
	for _, l := range r.lines() {
		got = append(got, fmt.Sprint(l.Phase, " ", l.ID == "OP", " ", l.Lasting != "", " ", l.Result, " ", l.Done))
	}
	want := "intent true true  0, intent false false  0, outcome false false unknown 0, outcome true false stopped 7"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the log has %s, want %s", text, want)
	}
}
