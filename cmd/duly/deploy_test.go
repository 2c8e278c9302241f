//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is the ID of the container's user.
const nobody = 65532

// The binary runs as another user in a root folder that holds only the binary and an
// empty data folder, like a container FROM scratch.
func TestServeInEmptyRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "root, for chroot")
	}
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // lets the other user enter the folder
			t.Fatal(err)
		}
	}
	// This is a link, not a copy. A file that this process has written may still be
	// open in the forks of other tests, and then it cannot be executed.
	data := filepath.Join(root, "data")
	if err := os.Link(binary, filepath.Join(root, "duly")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, nobody, nobody); err != nil {
		t.Fatal(err)
	}

	inside := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/duly", args...)
		cmd.Path, cmd.Dir, cmd.Err = "/duly", "/", nil
		cmd.Env = append([]string{"DULY_DATA=/data"}, env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		}
		return cmd
	}
	run := func(args ...string) (int, string) {
		t.Helper()
		out, err := inside(nil, args...).CombinedOutput()
		return exitOf(t, err), string(out)
	}
	if code, out := run("health"); code != 1 {
		t.Errorf("health without a server: exit %d, %s", code, out)
	}

	received, manager := listenAsManager(t, root)
	serve := inside([]string{"NOTIFY_SOCKET=/notify", "DULY_ADDR=127.0.0.1:0", "DULY_ADMIN_ADDR=127.0.0.1:0"}, "serve")
	var errs bytes.Buffer
	serve.Stderr = &errs
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { serve.Process.Kill(); serve.Wait() }()
	if got := received(); !strings.HasPrefix(got, "READY=1\n") {
		t.Fatalf("the service manager received %q; %s", got, errs.String())
	}
	for _, args := range [][]string{
		{"health"}, {"push", "q", "x", "--id", "a"}, {"reserve", "q", "--json"}, {"check"}, {"version"},
	} {
		if code, out := run(args...); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, out)
		}
	}

	if err := serve.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RELOADING=1", "READY=1"} {
		if got := received(); !strings.HasPrefix(got, want) {
			t.Errorf("on HUP the service manager received %q, want %s", got, want)
		}
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := received(); !strings.HasPrefix(got, "STOPPING=1") {
		t.Errorf("on TERM the service manager received %q", got)
	}
	if code := exitOf(t, serve.Wait()); code != 0 {
		t.Errorf("serve: exit %d, %s", code, errs.String())
	}
	manager.Close()
}

// listenAsManager listens on a service manager's socket in a folder. received waits
// for the next datagram.
func listenAsManager(t *testing.T, root string) (received func() string, l *net.UnixConn) {
	t.Helper()

	// The length of a socket's path is limited, and the test's folder may be too long.
	// Inside the root the path is short.
	here, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(here) })
	path := filepath.Join(here, "s")
	if l, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, filepath.Join(root, "notify")); err != nil {
		t.Fatal(err)
	}

	return func() string {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}, l
}

// missing skips a test whose tool is missing. In CI the test fails instead.
func missing(t *testing.T, tool string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s", tool)
	}
	t.Skipf("missing: %s", tool)
}

const unit = "../../packaging/systemd/duly.service"

// systemd accepts every line of the unit.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		missing(t, "systemd-analyze")
	}
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "duly.service")
	installed := bytes.Replace(text, []byte("/usr/local/bin/duly"), []byte(binary), 1)
	if err := os.WriteFile(path, installed, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}

	for _, want := range []string{
		"DynamicUser=yes", "StateDirectory=duly", "NoNewPrivileges=yes", "ProtectSystem=strict",
		"LimitNOFILE=65536", "Type=notify", "DULY_DATA=/var/lib/duly",
	} {
		if !strings.Contains(string(text), "\n"+want) && !strings.Contains(string(text), "="+want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
}

// The container has only the static binary, runs it as nobody, and uses commands that
// exist.
func TestContainerImageHasOnlyTheBinary(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	build, last, found := strings.Cut(string(text), "\nFROM scratch\n")
	if !found || !strings.Contains(build, "CGO_ENABLED=0 go build -trimpath") || strings.Contains(last, "\nRUN ") {
		t.Error("the image is not the static binary from scratch")
	}
	for _, want := range []string{
		"USER 65532:65532\n", "EXPOSE 7777 7778\n", "STOPSIGNAL SIGTERM\n", "DULY_DATA=/data", "VOLUME /data\n",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("the image lacks %q", want)
		}
	}

	h := newHome(t)
	commands := regexp.MustCompile(`CMD (\[.*\])`).FindAllStringSubmatch(last, -1)
	if len(commands) != 2 {
		t.Fatalf("the image has %d commands, want those of the health check and the server", len(commands))
	}
	for _, match := range commands {
		var words []string
		if err := json.Unmarshal([]byte(match[1]), &words); err != nil {
			t.Fatal(err)
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "/duly" })
		if code, _, errs := h.duly("", append(words, "--help")...); code != 0 {
			t.Errorf("duly %v: exit %d, %s", words, code, errs)
		}
	}
}
