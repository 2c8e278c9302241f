package cli

import (
	"context"
	"crypto/tls"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/open"
)

// remoteRig returns a rig whose commands use a server of its engine.
func remoteRig(t *testing.T) *rig {
	r := newRig(t)
	r.engine = model.New(model.Config{})
	t.Cleanup(func() { r.engine.Close() })
	data := filepath.Join(t.TempDir(), "data")
	_, errs, stop := r.serve(1, "--data", data, "--json")
	t.Cleanup(func() {
		if code := stop(); code != exitOK {
			t.Errorf("serve: exit %d, %s", code, errs.String())
		}
	})
	r.vars = map[string]string{"DULY_DATA": data}
	return r
}

// remoteEnv returns env with the functions of main for servers.
func (r *rig) remoteEnv(env Env) Env {
	local := env.Open
	env.Open = func(ctx context.Context, url string, opts ...open.Option) (contract.Engine, error) {
		if strings.HasPrefix(url, "http") {
			return open.Engine(ctx, url, opts...)
		}
		return local(ctx, url, opts...)
	}
	env.OpenAdmin = func(ctx context.Context, url, token string, secure *tls.Config) (Admin, error) {
		return httpengine.OpenAdmin(ctx, httpengine.AdminConfig{URL: url, Token: token, TLS: secure})
	}
	env.Clock = clock.System()
	return env
}

// runRemote is like run for a command that uses the server.
func (r *rig) runRemote(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, errs strings.Builder
	code = Run(r.t.Context(), r.remoteEnv(r.env(&out, &errs, args...)))
	return code, out.String(), errs.String()
}

func (r *rig) okRemote(args ...string) string {
	r.t.Helper()
	code, out, errs := r.runRemote(args...)
	if code != exitOK {
		r.t.Fatalf("duly %s: exit %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// C15.3, C15.4: commands find the server and its admin address in the data folder. C15.23:
// token create. C15.26: check.
func TestCommandsFindLocalServer(t *testing.T) {
	t.Parallel()
	r := remoteRig(t)
	ok := r.okRemote
	ok("push", "q", "x", "--id", "one", "--delay", "50ms")
	receipt := firstWord(ok("reserve", "q", "--wait", "--receipts"))
	if out := ok("ack", receipt); out != "acked 1 job\n" {
		t.Errorf("ack printed %q", out)
	}
	ok("push", "q", "x", "--id", "two", "-n", "shop")
	if out := ok("queues", "--namespaces"); out != "default\nshop\n" {
		t.Errorf("namespaces: %q", out)
	}
	if out := ok("check"); out != "checked 1 job, found 0 faults\n" {
		t.Errorf("check printed %q", out)
	}
	if out := ok("__complete", "stats", ""); !strings.HasPrefix(out, "q\n:") {
		t.Errorf("completion: %q", out)
	}

	token := strings.TrimSpace(ok("token", "create", "-n", "shop", "--rights", "produce", "--description", "web shop"))
	left, err := readEndpoint(r.vars["DULY_DATA"])
	if err != nil {
		t.Fatal(err)
	}
	shop := strings.Replace(left.url, "://", "://"+token+"@", 1) + "/shop"
	ok("push", "q", "y", "--id", "three", "--url", shop)
	all := strings.TrimSpace(ok("token", "create", "-n", "*", "--rights", "admin"))
	ok("check", "--admin-url", strings.Replace(left.adminURL, "://", "://"+all+"@", 1))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"reserve", "q", "--url", shop}, "duly: forbidden: "},
		{[]string{"push", "q", "y", "--url", shop, "-n", "default"}, "duly: forbidden: "},
		{[]string{"check", "--url", shop, "--admin-url", left.adminURL}, "duly: forbidden: "},
		{[]string{"push", "q", "y", "--url", left.url}, "duly: unauthorized: "},
		{[]string{"backup", filepath.Join(t.TempDir(), "copy.db")}, "duly: unsupported: "},
		{[]string{"queues", "--url", "http://" + token + "@127.0.0.1:1"}, "duly: unavailable: "},
	} {
		code, out, errs := r.runRemote(tt.args...)
		if code != exitFailed || !strings.HasPrefix(errs, tt.want) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args[:2], code, out, errs, tt.want)
		}
		if strings.Contains(errs, token) || strings.Contains(errs, left.token) {
			t.Errorf("%v: a token was printed: %s", tt.args[:2], errs)
		}
	}
}

// A backup that fails leaves no file.
func TestFailedBackupLeavesNoFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	if code, _, errs := r.run("backup", filepath.Join(dir, "copy.db")); code != exitFailed ||
		!strings.HasPrefix(errs, "duly: unsupported: ") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("files %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("files %v, %v", left, err)
	}
}

// copying is an admin side that can copy.
type copying struct{ Admin }

func (copying) BackupOf(_ context.Context, _ string, w io.Writer) error {
	_, err := io.WriteString(w, "the copy")
	return err
}

// C15.27: only the owner can read a backup. backup replaces a file only with --force, and
// writes to standard output for "-".
func TestBackupIsReadableByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vars = map[string]string{"DULY_URL": "http://t@host", "DULY_ADMIN_URL": "http://host:1"}
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		env := r.env(&out, &errs, args...)
		env.OpenAdmin = func(context.Context, string, string, *tls.Config) (Admin, error) { return copying{}, nil }
		return Run(t.Context(), env), out.String(), errs.String()
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	if code, out, errs := run("backup", path); code != exitOK || out != "wrote "+path+", 8 B\n" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if text, mode := read(t, path); text != "the copy" || mode&0o077 != 0 {
		t.Errorf("the file holds %q with mode %o", text, mode)
	}
	if code, _, errs := run("backup", path); code != exitFailed || !strings.Contains(errs, "--force") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, out, errs := run("backup", path, "--force", "--json"); code != exitOK ||
		!strings.HasSuffix(out, `,"bytes":8}`+"\n") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if code, out, errs := run("backup", "-"); code != exitOK || out != "the copy" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}

// C15.35: progress is shown only if standard error is a terminal.
func TestProgressOnlyOnTerminal(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{true, false} {
		r := newRig(t)
		r.tty = tty
		r.ok("push", "q", "x")
		var out, errs strings.Builder
		env := r.env(&out, &errs, "push", "q", "--lines")
		env.Stdin = strings.NewReader("a\nb\n")
		if code := Run(t.Context(), env); code != exitOK {
			t.Fatalf("exit %d, %s", code, errs.String())
		}
		if got := strings.Contains(errs.String(), "push  "); got != tty || !tty && errs.Len() > 0 {
			t.Errorf("terminal %v: standard error has %q", tty, errs.String())
		}
	}

	bar := &progress{out: &strings.Builder{}, clock: clock.NewFake(), name: "check",
		start: clock.Epoch.Add(-2 * time.Second)}
	bar.set(50, 200, 0)
	if got := bar.out.(*strings.Builder).String(); got != "\r\x1b[Kcheck  ["+strings.Repeat("█", 7)+strings.Repeat("░",
		23)+"]  25%  50  25/s" {
		t.Errorf("the bar is %q", got)
	}
}
