package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/open"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rig runs commands with an in-memory engine and a fake clock.
type rig struct {
	t      *testing.T
	clock  *clock.Fake
	engine *model.Engine
	vars   map[string]string
	stdin  string                   // standard input of the next command
	tty    bool                     // whether the streams are terminals
	more   map[string]*model.Engine // further engines, by their URLs
	open   func() contract.Engine   // opens an engine instead of the rig's; may be nil

	transcript strings.Builder
	ulids      map[string]string
}

func newRig(t *testing.T) *rig {
	c := clock.NewFake()
	r := &rig{t: t, clock: c, engine: model.New(model.Config{Clock: c, Manual: true}), ulids: map[string]string{}}
	r.vars = map[string]string{"DULY_URL": "model:", "DULY_DATA": filepath.Join(t.TempDir(), "none")}
	t.Cleanup(func() { r.engine.Close() })
	return r
}

// unclosable is the engine of a rig. Commands cannot close it.
type unclosable struct{ *model.Engine }

// Close implements duly.Engine.
func (unclosable) Close() error { return nil }

// env returns the Env of a command.
func (r *rig) env(stdout, stderr io.Writer, args ...string) Env {
	vars := maps.Clone(r.vars) // a server reads them concurrently with the test
	return Env{
		Args: append([]string{"duly"}, args...), Stdin: strings.NewReader(r.stdin), Stdout: stdout, Stderr: stderr,
		Getenv: func(name string) string { return vars[name] }, Environ: func() []string { return environ(vars) },
		Terminal: func(any) bool { return r.tty },
		Piped:    func(any) bool { return r.stdin != "" },
		Open: func(_ context.Context, url string, _ ...open.Option) (contract.Engine, error) {
			if e := r.more[url]; e != nil {
				return unclosable{e}, nil
			}
			if url != "model:" {
				return nil, contract.Errorf(duly.CodeUnavailable, "nobody listens there")
			}
			if r.open != nil {
				return r.open(), nil
			}
			return unclosable{r.engine}, nil
		},
		Clock: r.clock, Build: Build{Version: "v0.0.0-test"},
	}
}

func environ(vars map[string]string) (all []string) {
	for name, value := range vars {
		all = append(all, name+"="+value)
	}
	return all
}

// run runs a command and returns its exit status and output.
func (r *rig) run(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, errs logtest.Log // commands of work write concurrently
	code = Run(r.t.Context(), r.env(&out, &errs, args...))
	r.stdin = ""
	return code, out.String(), errs.String()
}

// ok runs a command that must succeed.
func (r *rig) ok(args ...string) (stdout string) {
	r.t.Helper()
	code, stdout, stderr := r.run(args...)
	if code != exitOK {
		r.t.Fatalf("duly %s: exit %d, %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// do runs a command and adds it to the transcript. Lines of standard error begin with
// "! ". An exit status other than 0 is in brackets.
func (r *rig) do(args ...string) (stdout string) {
	r.t.Helper()
	fmt.Fprintf(&r.transcript, "$ duly")
	for _, a := range args {
		fmt.Fprintf(&r.transcript, " %s", r.stable(shellQuote(a)))
	}
	if r.stdin != "" {
		fmt.Fprintf(&r.transcript, "   <<< %q", r.stdin)
	}
	code, stdout, stderr := r.run(args...)
	fmt.Fprintf(&r.transcript, "\n%s", r.stable(stdout))
	for line := range strings.Lines(stderr) {
		fmt.Fprintf(&r.transcript, "! %s", r.stable(line))
	}
	if code != exitOK {
		fmt.Fprintf(&r.transcript, "[exit %d]\n", code)
	}
	fmt.Fprintln(&r.transcript)
	return stdout
}

// advance advances the clock.
func (r *rig) advance(d time.Duration) {
	r.clock.Advance(d)
	fmt.Fprintf(&r.transcript, "# %s later\n\n", duly.FormatDuration(d))
}

var cursor = regexp.MustCompile(`--cursor ([a-z]+):[^)]*\)`)

var ulid = regexp.MustCompile(`0[0-9A-HJKMNP-TV-Z]{25}`)

// token is the last part of the receipt of a message.
var token = regexp.MustCompile(`(@[a-z]+:[0-9]+:ULID-[0-9]{21}):[0-9]+`)

// stable replaces random values by numbers of the same width, and removes the properties of
// this machine.
func (r *rig) stable(text string) string {
	v := (&app{}).version()
	text = strings.NewReplacer(v.Go, "GO", v.Platform, "OS/ARCH").Replace(text)
	text = cursor.ReplaceAllString(text, "--cursor $1:…)")
	text = ulid.ReplaceAllStringFunc(text, func(n string) string {
		if _, ok := r.ulids[n]; !ok {
			r.ulids[n] = fmt.Sprintf("ULID-%021d", len(r.ulids)+1)
		}
		return r.ulids[n]
	})
	return token.ReplaceAllString(text, "$1:TOKEN")
}

// lineCounter is an output that closes a channel when it has a number of lines.
type lineCounter struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines int
	full  chan struct{}
}

func newLineCounter(lines int) *lineCounter {
	return &lineCounter{lines: lines, full: make(chan struct{})}
}

// Write implements io.Writer.
func (w *lineCounter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.lines
	w.lines -= bytes.Count(b, []byte("\n"))
	if before > 0 && w.lines <= 0 {
		close(w.full)
	}
	return w.text.Write(b)
}

func (w *lineCounter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// golden compares the transcript with testdata/NAME.txt.
func (r *rig) golden(name string) {
	r.t.Helper()
	compareGolden(r.t, name, r.transcript.String())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test -update", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")

	for i := range gotLines {
		if i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Errorf("%s, line %d:\n got %s\nwant %s", path, i+1, gotLines[i], line(wantLines, i))
			return
		}
	}

	t.Errorf("%s has %d lines, the transcript %d", path, len(wantLines), len(gotLines))
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// read returns a file's text and permissions.
func read(t *testing.T, path string) (string, os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), info.Mode().Perm()
}
