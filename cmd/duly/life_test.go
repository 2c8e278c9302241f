//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// firstWord returns the first word of a string.
func firstWord(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// C15.6, C15.57: the four commands that serve prints work in another shell in the same
// folder.
func TestServePrintsWorkingCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.serve()
	var lines []string
	for line := range strings.Lines(s.banner) {
		if strings.HasPrefix(line, "  ") && strings.Contains(line, "./bin/duly ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 4 {
		t.Fatalf("serve printed\n%s", s.banner)
	}
	lines[3] += " --print" // a test starts no browser

	sh := h.command("sh", "-e", "-c", strings.Join(lines, "\n"))
	out, err := sh.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "created in hello, due in 3s") ||
		!strings.Contains(string(out), "acked 1 job\nhttp://127.0.0.1:") || !strings.Contains(string(out), "/ui/login?code=") {
		t.Errorf("%v: the commands printed\n%s", err, out)
	}
	if code := s.end(t, os.Interrupt); code != 0 {
		t.Errorf("serve: exit %d, %s", code, s.errs.String())
	}
}

// C15.34, C15.35, C15.37: a session with the real binary on the embedded engine,
// including commands that must fail.
func TestSessionOnSQLite(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.do("queues")
	s := h.serve()
	h.comment("a server has started in ./duly-data")

	h.do("push", "mail", "hello", "--id", "m1")
	h.do("push", "mail", "hello", "--id", "m1")
	h.do("push", "mail", "hello", "--id", "m2", "--delay", "1h", "--ttl", "1m")
	h.do("push", "mail", "hello", "--priority", "1001")
	h.doWith("one\ntwo\nthree\n", "push", "lines", "--lines")
	h.do("push", "no/queue", "hello")
	receipt := firstWord(h.do("reserve", "mail", "--receipts"))
	h.do("reserve", "mail")
	h.do("nack", receipt, "--error", "it broke", "--delay", "0s")
	h.do("ack", receipt)
	h.do("bury", firstWord(h.do("reserve", "mail", "--receipts")), "--reason", "hopeless")
	h.do("dead", "list", "mail", "--json")
	h.do("dead", "requeue", "mail")
	h.do("job", "get", "mail", "m1", "--json")
	h.do("job", "delete", "mail", "m2")

	h.comment("a second server on the same file")
	h.do("serve", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	h.do("push", "mail", "hello", "--url", "sqlite:duly-data/duly.db")
	h.comment("a server that others could reach, and nobody has a token for")
	h.do("serve", "--addr", "0.0.0.0:0", "--admin-addr", "127.0.0.1:0", "--data", "public")

	shop := strings.TrimSpace(h.do("token", "create", "--namespace", "shop", "--rights", "produce"))
	h.do("check")
	h.do("backup", "copy.db")
	h.do("backup", "copy.db")

	h.comment("the server is killed and started again")
	if code := s.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("killed: exit %d", code)
	}
	h.do("queues")
	s = h.serve()
	h.do("job", "get", "mail", "m1", "--json")
	h.do("check")
	address := readFile(t, filepath.Join(h.dir, "duly-data", "url"))
	h.do("push", "cart", "x", "--id", "c1", "--url", strings.Replace(address, "://", "://"+shop+"@", 1)+"/shop")
	h.do("queues", "--names", "--url", strings.Replace(address, "://", "://"+shop+"@", 1)+"/shop")
	h.do("reserve", "cart", "--url", strings.Replace(address, "://", "://"+shop+"@", 1)+"/shop")

	h.comment("TERM ends it")
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("serve: exit %d, %s", code, s.errs.String())
	}
	h.do("stats", "mail")
	h.do("check", "--url", "sqlite:duly-data/duly.db")
	h.do("check", "--url", "sqlite:copy.db", "--json")
	h.do("job", "list", "lines", "--url", "sqlite:copy.db", "--bodies", "--json")
	h.do("queues", "--url", "sqlite:duly-data/duly.db?colour=blue")
	h.golden("life")

	secret := readFile(t, filepath.Join(h.dir, "duly-data", "token"))
	if secret == "" || strings.Contains(s.banner+s.errs.String(), secret) {
		t.Errorf("the token %q was printed", secret)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// C15.36: after its output pipe has been closed, the real process ends with status 0.
// It prints no error, and no signal kills it.
func TestClosedPipeEndsQuietly(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	cmd := h.command("./bin/duly", "help")
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = write, &errs
	if code := exitOf(t, cmd.Run()); code != 0 || errs.String() != "" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// C15.13: work runs real commands for the jobs of a real server. A signal stops it.
func TestWorkWithServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.serve()
	if code, _, errs := h.duly("a\nb\nc\n", "push", "q", "--lines"); code != 0 {
		t.Fatal(errs)
	}
	work := h.command("./bin/duly", "work", "q", "--concurrency", "2", "--exec",
		`cat >> out; echo >> out; test $(wc -l < out) -ge 3 && mkdir once 2>/dev/null && kill -INT $PPID; exit 0`)
	var errs strings.Builder
	work.Stderr = &errs
	if code := exitOf(t, work.Run()); code != 0 || errs.String() != "" {
		t.Errorf("work: exit %d, %s", code, errs.String())
	}
	_, stats, _ := h.duly("", "stats", "q", "--json")
	if !strings.Contains(stats, `"acked":3`) {
		t.Errorf("stats: %s", stats)
	}
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("serve: exit %d, %s", code, s.errs.String())
	}
}
