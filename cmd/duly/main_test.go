//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/release"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// binary is the program under test, built once, with the stamp of a release.
var binary string

var source = release.Stamp{
	Version: "v0.0.0-test", Commit: "0123456789abcdef0123456789abcdef01234567", Date: "2026-11-26T01:35:46Z",
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "duly-life-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "duly")
	cmd := exec.Command("go", "build", "-ldflags", source.LDFlags(), "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// home is a folder with the binary in bin/duly, like a clone of the repository. Its
// commands get no other variables of this machine than PATH.
type home struct {
	t   *testing.T
	dir string

	transcript strings.Builder
	ulids      map[string]string // replacements in the transcript
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir(), ulids: map[string]string{}}
	if err := os.Mkdir(filepath.Join(h.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(binary, filepath.Join(h.dir, "bin", "duly")); err != nil {
		if err := os.Symlink(binary, filepath.Join(h.dir, "bin", "duly")); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *home) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), name, args...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir}
	return cmd
}

// duly runs the binary and returns its exit status and output.
func (h *home) duly(stdin string, args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	cmd := h.command("./bin/duly", args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	return exitOf(h.t, cmd.Run()), out.String(), errs.String()
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return -1
}

// server is a running `duly serve`.
type server struct {
	cmd    *exec.Cmd
	banner string
	errs   logtest.Log
}

// serve starts a server and waits until it listens.
func (h *home) serve(args ...string) *server {
	h.t.Helper()
	return h.serveBy([]string{"./bin/duly"}, args...)
}

// serveBy is like serve, but duly is run by the given command.
func (h *home) serveBy(program []string, args ...string) *server {
	h.t.Helper()
	words := slices.Concat(program, []string{"serve", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, args)

	s := &server{cmd: h.command(words[0], words[1:]...)}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })

	// The banner ends with the line about Ctrl-C.
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		s.banner += scan.Text() + "\n"
		if strings.HasPrefix(scan.Text(), "Ctrl-C") {
			go io.Copy(io.Discard, out)
			return s
		}
	}
	s.cmd.Wait()
	h.t.Fatalf("serve ended: %s%s", s.banner, s.errs.String())
	return nil
}

// awaitLog waits until the server's log contains a string.
func (s *server) awaitLog(t *testing.T, text string) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%q in the log", text), func() bool { return s.errs.Count(text) > 0 })
}

// end sends a signal to the server and returns its exit status, which is -1 if the
// signal killed it.
func (s *server) end(t *testing.T, sig os.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return exitOf(t, s.cmd.Wait())
}

// do runs a command and adds it to the transcript.
func (h *home) do(args ...string) (stdout string) {
	h.t.Helper()
	return h.doWith("", args...)
}

func (h *home) doWith(stdin string, args ...string) (stdout string) {
	h.t.Helper()
	code, stdout, stderr := h.duly(stdin, args...)
	fmt.Fprintf(&h.transcript, "$ duly %s\n%s", h.stable(strings.Join(args, " ")), h.stable(stdout))
	for line := range strings.Lines(stderr) {
		fmt.Fprintf(&h.transcript, "! %s", h.stable(line))
	}
	if code != 0 {
		fmt.Fprintf(&h.transcript, "[exit %d]\n", code)
	}
	fmt.Fprintln(&h.transcript)
	return stdout
}

// comment adds a line to the transcript.
func (h *home) comment(text string) { fmt.Fprintf(&h.transcript, "# %s\n\n", text) }

var (
	ulid    = regexp.MustCompile(`0[0-9A-HJKMNP-TV-Z]{25}`)
	stamp   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	token   = regexp.MustCompile(`duly_[A-Za-z0-9_-]{20,}`)
	port    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	process = regexp.MustCompile(`another process \(\d+\)`)
	size    = regexp.MustCompile(`\d+(\.\d)? [KM]iB`)
)

// stable replaces everything in a string that differs from run to run.
func (h *home) stable(text string) string {
	text = ulid.ReplaceAllStringFunc(text, func(n string) string {
		if _, ok := h.ulids[n]; !ok {
			h.ulids[n] = fmt.Sprintf("ULID-%021d", len(h.ulids)+1)
		}
		return h.ulids[n]
	})
	text = strings.ReplaceAll(text, h.dir, "HOME")
	text = stamp.ReplaceAllString(text, "TIME")
	text = token.ReplaceAllString(text, "duly_SECRET")
	text = port.ReplaceAllString(text, "127.0.0.1:PORT")
	text = process.ReplaceAllString(text, "another process (PID)")
	text = size.ReplaceAllString(text, "SIZE")
	return text
}

// golden compares the transcript with a file.
func (h *home) golden(name string) {
	h.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := h.transcript.String()
	if *update {
		err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644))
		if err != nil {
			h.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatalf("%v; write it with go test -update", err)
	}
	if got != string(want) {
		h.t.Errorf("%s differs, see git diff after go test -update; the transcript is:\n%s", path, got)
	}
}

// The stamp of the release's build is what the binary prints.
func TestVersionPrintsStamp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	code, out, errs := h.duly("", "version")
	want := "duly v0.0.0-test (commit 0123456789ab, 2026-11-26T01:35:46Z), go1."
	if code != 0 || !strings.HasPrefix(out, want) {
		t.Errorf("version: exit %d, %q, %s; want the prefix %q", code, out, errs, want)
	}
	if code, flagged, _ := h.duly("", "--version"); code != 0 || flagged != out {
		t.Errorf("--version: exit %d, %q, want %q", code, flagged, out)
	}

	code, out, errs = h.duly("", "version", "--json")
	for _, want := range []string{source.Version, source.Commit, source.Date} {
		if code != 0 || !strings.Contains(out, `"`+want+`"`) {
			t.Errorf("version --json: exit %d, %s, %s; want %s", code, out, errs, want)
		}
	}
}
