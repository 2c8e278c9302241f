package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
)

// Fault D1: a server starts on a full disk, although it cannot write its address there. Its
// log says so. Workers can empty the queues, which then accept jobs again.
//
// C9.11, C9.12
func TestServeStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	proctest.NeedRoot(t)
	proctest.Need(t, "mount", "nsenter")
	d := newSmallDisk(t, "24m")

	s := d.serve()
	pushed := d.fill(s)
	s.end(t, syscall.SIGKILL)
	d.fillRest()

	s = d.serve()
	s.awaitLog(t, "the server's address can't be written for the other commands; give them --url")
	left, err := os.ReadFile(filepath.Join(d.seen, "url"))
	if err == nil && string(left) != "http://"+d.address(s)+"\n" {
		t.Errorf("the folder still has the address of the earlier server: %s", left)
	}
	if code, _, errs := d.duly(d.body(), s, "push", "q"); code != 1 || !strings.HasPrefix(errs, "duly: full: ") {
		t.Errorf("a push on a full disk: exit %d, %s", code, errs)
	}
	if status, body := d.ready(s); status != http.StatusOK || body != `{"status":"degraded","full":["default"]}` {
		t.Errorf("readyz: %d %s", status, body)
	}

	code, out, errs := d.duly("", s, "work", "q", "--until-empty", "--exec", "true")
	if acked := strings.Count(out, "  ack  "); code != 0 || acked != pushed {
		t.Fatalf("%d of %d jobs were acked, exit %d, %s", acked, pushed, code, errs)
	}
	eventually.True(t, "a push after the drain", func() bool {
		code, _, _ := d.duly(d.body(), s, "push", "q")
		return code == 0
	})
	if status, body := d.ready(s); status != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("readyz after the drain: %d %s", status, body)
	}
}

// smallDisk is a data folder on a file system of its own, which is mounted only in
// its mount namespace.
type smallDisk struct {
	*home
	data   string   // path of the folder in the namespace
	seen   string   // path of the folder outside the namespace
	inside []string // command that runs duly in the namespace
}

// newSmallDisk mounts the file system until the test ends.
func newSmallDisk(t *testing.T, size string) *smallDisk {
	t.Helper()
	d := &smallDisk{home: newHome(t)}
	d.data = filepath.Join(d.dir, "data")
	if err := os.Mkdir(d.data, 0o700); err != nil {
		t.Fatal(err)
	}

	// The namespace exists as long as this process, which waits for the end of its input.
	holder := d.command("sh", "-c",
		`mount -t tmpfs -o mode=700,size="$1" none "$0" && echo mounted && read forever`, d.data, size)
	holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}

	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); holder.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Fatalf("mounting the disk failed: %q, %v", line, err)
	}

	namespace := fmt.Sprintf("/proc/%d", holder.Process.Pid)
	d.seen = filepath.Join(namespace, "root", d.data)
	d.inside = []string{"nsenter", "--mount=" + namespace + "/ns/mnt", filepath.Join(d.dir, "bin", "duly")}

	return d
}

func (d *smallDisk) serve() *server {
	d.t.Helper()
	return d.serveBy(d.inside, "--data", d.data)
}

// body returns the body of a job. About forty such jobs fill the disk.
func (d *smallDisk) body() string { return strings.Repeat("x", 500_000) }

// fill pushes until the disk is full and returns how many jobs were stored.
func (d *smallDisk) fill(s *server) (pushed int) {
	d.t.Helper()
	for range 100 {
		switch code, _, errs := d.duly(d.body(), s, "push", "q"); {
		case code == 0:
			pushed++
		case strings.HasPrefix(errs, "duly: full: "):
			return pushed
		default:
			d.t.Fatalf("a push: exit %d, %s", code, errs)
		}
	}
	d.t.Fatal("the disk never became full")

	return 0
}

// fillRest fills the rest of the disk, so that no other file fits.
func (d *smallDisk) fillRest() {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.seen, "rest"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(f, io.LimitReader(zeros{}, 100<<20)); err == nil {
		d.t.Fatalf("the disk took %d more bytes", n)
	}
}

// zeros is an endless reader of zeros.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// apiLine matches the address of the API in the banner.
var apiLine = regexp.MustCompile(`API +http://([0-9.:]+),`)

func (d *smallDisk) address(s *server) string {
	d.t.Helper()
	m := apiLine.FindStringSubmatch(s.banner)
	if m == nil {
		d.t.Fatalf("no address in %q", s.banner)
	}

	return m[1]
}

// duly runs a command on the server.
func (d *smallDisk) duly(stdin string, s *server, args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	token := strings.TrimSpace(readFile(d.t, filepath.Join(d.seen, "token")))
	url := fmt.Sprintf("http://%s@%s/default", token, d.address(s))

	return d.home.duly(stdin, append(args, "--url", url)...)
}

func (d *smallDisk) ready(s *server) (status int, body string) {
	d.t.Helper()
	resp, err := http.Get("http://" + d.address(s) + "/readyz")
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}

	return resp.StatusCode, string(text)
}
