package cli

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/certtest"
	"github.com/dulymq/duly/internal/clock"
)

// reloadRig runs a server with a configuration file that a test changes.
type reloadRig struct {
	*rig
	file, data    string
	errs          *lines
	hangups       chan<- os.Signal
	closeTerminal func()
	wait          func() int
}

// lines is an output whose lines a test can wait for.
type lines struct {
	mu   sync.Mutex
	more chan struct{}
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(b)
}

// next waits for a line that contains a string. It removes all lines up to it.
func (l *lines) next(t *testing.T, text string) string {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()

	for {
		l.mu.Lock()
		for {
			line, err := l.text.ReadString('\n')
			if err != nil {
				break
			}
			if strings.Contains(line, text) {
				l.mu.Unlock()
				return line
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-limit.C:
			t.Fatalf("no line with %q", text)
		}
	}
}

func newReloadRig(t *testing.T, tty bool, settings string) *reloadRig {
	t.Helper()
	r := &reloadRig{rig: newRig(t), errs: &lines{more: make(chan struct{})}}
	r.data, r.file = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "duly.toml")
	r.write(settings)
	out, hooked := newLineCounter(1), make(chan chan<- os.Signal, 1)
	env := r.env(out, r.errs, "serve", "--engine", "model:", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--data", r.data, "--config", r.file, "--json")
	env.Clock = clock.System()
	env.Hangups = func(to chan<- os.Signal) func() { hooked <- to; return func() {} }
	var mu sync.Mutex
	there := tty
	env.Terminal = func(any) bool { mu.Lock(); defer mu.Unlock(); return there }
	r.closeTerminal = func() { mu.Lock(); defer mu.Unlock(); there = false }
	signals := make(chan os.Signal, 2)
	env.Signals = signals
	done := make(chan int, 1)
	go func() { done <- Run(t.Context(), env) }()
	select {
	case r.hangups = <-hooked:
	case code := <-done:
		t.Fatalf("exit %d, %s", code, r.errs.text.String())
	}
	r.wait = sync.OnceValue(func() int { return <-done })
	t.Cleanup(func() { signals <- syscall.SIGTERM; r.wait() })
	return r
}

func (r *reloadRig) write(settings string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(settings), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload changes the file, sends HUP and returns the next line with a text.
func (r *reloadRig) reload(settings, text string) string {
	r.t.Helper()
	r.write(settings)
	r.hangups <- syscall.SIGHUP
	return r.errs.next(r.t, text)
}

// C15.43: HUP reloads the settings that can change, logs those that need a restart, and
// changes nothing if the configuration has errors.
func TestReloadChangesOnlyReloadableSettings(t *testing.T) {
	t.Parallel()
	accounts := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(accounts, []byte("ada:first-password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReloadRig(t, false, "admin_accounts = '"+accounts+"'\n")
	left, err := readEndpoint(r.data)
	if err != nil {
		t.Fatal(err)
	}
	status := func(password string) int {
		req, err := http.NewRequest("GET", left.adminURL+"/admin/namespaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("ada", password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := status("first-password"); got != http.StatusOK {
		t.Errorf("at first: %d", got)
	}
	if err := os.WriteFile(accounts, []byte("ada:second-password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same := "admin_accounts = '" + accounts + "'\n"
	line := r.reload(same+"drain = 'soon'\nlevle = 1\n", "nothing changed")
	if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "drain is") ||
		!strings.Contains(line, "levle is not a setting") {
		t.Errorf("two faults: %s", line)
	}
	if got := status("first-password"); got != http.StatusOK {
		t.Errorf("after a reload with faults: %d", got)
	}
	line = r.reload(same+"drain = '5s'\nlmstfy = 'off'\n[log]\nformat = 'json'\nlevel = 'debug'\n",
		"reloaded the configuration")

	for _, want := range []string{
		`"level":"WARN"`, `"changed":"admin_accounts, log.level, log.format, drain"`,
		`"needs_restart":"lmstfy"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}

	if first, second := status("first-password"), status("second-password"); first != http.StatusUnauthorized ||
		second != http.StatusOK {
		t.Errorf("after a reload: %d with the old password, %d with the new one", first, second)
	}
	r.errs.next(t, `"level":"DEBUG"`) // a line of the access log

	// Settings that need a restart are logged at every reload.
	if line = r.reload(same+"lmstfy = 'off'\n", "reloaded the configuration"); !strings.Contains(line,
		`changed="log.level, log.format, drain"`) || !strings.Contains(line, `needs_restart=lmstfy`) {
		t.Errorf("back again: %s", line)
	}

	// The line has level warn, so the new level does not hide it.
	if line = r.reload(same+"lmstfy = 'off'\n[log]\nlevel = 'warn'\n",
		"reloaded the configuration"); !strings.Contains(line, "level=WARN") ||
		!strings.Contains(line, `needs_restart=lmstfy`) {
		t.Errorf("with level warn: %s", line)
	}
	if line = r.reload("", "reloaded the configuration"); !strings.Contains(line,
		`changed="admin_accounts, log.level"`) || !strings.Contains(line, `level=INFO`) ||
		!strings.Contains(line, `needs_restart=nothing`) {
		t.Errorf("to the defaults: %s", line)
	}
}

// C15.42, C15.43: after HUP the server uses and stores a renewed certificate. An invalid one
// changes nothing.
func TestReloadUsesARenewedCertificate(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t, "ca")
	old, renewed := ca.Server("old", "127.0.0.1"), ca.Server("renewed", "127.0.0.1")
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	put := func(path, from string) {
		if err := os.WriteFile(path, []byte(read1(t, from)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(cert, old.Cert)
	put(key, old.Key)
	settings := "[tls]\ncert = '" + cert + "'\nkey = '" + key + "'\n"
	r := newReloadRig(t, false, settings)
	left, err := readEndpoint(r.data)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(left.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if name := shown(); name != "old" {
		t.Errorf("at first: %s", name)
	}
	put(cert, renewed.Cert)
	if line := r.reload(settings, "nothing changed"); !strings.Contains(line, "tls.cert and its key can't be used") ||
		shown() != "old" {
		t.Errorf("without its key: %s", line)
	}
	put(key, renewed.Key)
	if line := r.reload(settings, "reloaded the configuration"); !strings.Contains(line, "changed=tls.cert") ||
		shown() != "renewed" {
		t.Errorf("with its key: %s", line)
	}
	if read1(t, filepath.Join(r.data, certFile)) != read1(t, renewed.Cert) {
		t.Error("the stored certificate is the old one")
	}
	if line := r.reload("", "reloaded the configuration"); !strings.Contains(line, `needs_restart="tls.cert, tls.key"`) ||
		shown() != "renewed" {
		t.Errorf("without TLS: %s", line)
	}
}

// HUP ends a server whose terminal was closed.
func TestHangupOfTerminalEndsServer(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, true, "")
	r.reload("drain = '5s'\n", "reloaded the configuration")
	r.closeTerminal()
	r.hangups <- syscall.SIGHUP
	if code := r.wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}
