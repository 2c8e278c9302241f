package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// serve runs `duly serve` in this process until stop is called.
func (r *rig) serve(lines int, args ...string) (out, errs *lineCounter, stop func() int) {
	r.t.Helper()
	return r.start(lines, append([]string{"serve", "--engine", "model:", "--addr", "127.0.0.1:0", "--admin-addr",
		"127.0.0.1:0"}, args...)...)
}

// start runs a command until stop is called. It returns after the command has printed
// that many lines.
func (r *rig) start(lines int, args ...string) (out, errs *lineCounter, stop func() int) {
	r.t.Helper()
	out, errs = newLineCounter(lines), newLineCounter(1<<30)
	env := r.env(out, errs, args...)
	env.Clock = clock.System()
	signals := make(chan os.Signal, 2)
	env.Signals = signals
	done := make(chan int, 1)
	go func() { done <- Run(context.WithoutCancel(r.t.Context()), env) }()
	select {
	case <-out.full:
	case code := <-done:
		r.t.Fatalf("exit %d, %s", code, errs.String())
	}
	return out, errs, func() int {
		signals <- syscall.SIGTERM
		return <-done
	}
}

// C15.6: serve prints its addresses and stores them for other commands. C15.3, C15.4: the
// token is stored too.
func TestServeStoresAddressesAndToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	out, errs, stop := r.serve(1, "--data", data, "--json", "--log-format", "json")
	var printed servingView
	if err := json.Unmarshal([]byte(out.String()), &printed); err != nil {
		t.Fatal(err)
	}
	left, err := readEndpoint(data)
	if err != nil || left.url != printed.URL || left.adminURL != printed.AdminURL ||
		!strings.HasPrefix(left.token, "duly_") {
		t.Errorf("stored %+v, %v; printed %+v", left, err, printed)
	}
	resp, err := http.Get(printed.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("readyz: %s", resp.Status)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs.String())
	}
	if strings.Contains(errs.String()+out.String(), left.token) {
		t.Error("the token was printed")
	}
}

// C15.6: the banner has four commands to copy, without a dashboard three.
func TestServePrintsExampleCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vars["DULY_DATA"] = filepath.Join(t.TempDir(), "my data")
	out, _, stop := r.serve(15)
	stop()
	data := shellQuote(r.vars["DULY_DATA"])
	for _, want := range []string{
		"  duly push hello 'at the proper time' --delay 3s --data " + data + "\n",
		"  receipt=$(duly reserve hello --wait --receipts --data " + data + ")\n",
		"  duly ack $receipt --data " + data + "\n",
		"  duly ui --data " + data + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}

	out, _, stop = r.serve(14, "--ui", "off")
	stop()
	if strings.Contains(out.String(), "duly ui") || strings.Contains(out.String(), "browser") {
		t.Errorf("without the dashboard the banner names it:\n%s", out.String())
	}
}

// C15.40: --lmstfy. C15.9: --log-level and --log-format. C15.10: --drain. serve rejects
// invalid settings before it listens.
func TestServeRejectsInvalidSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--data", shared}, exitFailed, "can be written to by others (mode 0777)"},
		{[]string{"--log-format", "xml"}, exitUsage, `--log-format is "xml", must be text or json`},
		{[]string{"--log-level", "loud"}, exitUsage, "--log-level"},
		{[]string{"--drain", "soon"}, exitUsage, "--drain"},
		{[]string{"--lmstfy", "maybe"}, exitUsage, `--lmstfy is "maybe", must be token, open or off`},
		{[]string{"--addr", "nowhere"}, exitUsage, "--addr"},
		{[]string{"--addr", "0.0.0.0:0", "--engine", "model:"}, exitUsage, "duly token create"},
		{[]string{"--url", "redis://127.0.0.1:1"}, exitUsage, "serve needs --engine"},
		{[]string{"--data", file}, exitFailed, "--data"},
		{[]string{"--engine", "elsewhere:"}, exitFailed, "nobody listens there"},
	} {
		args := append([]string{"serve", "--engine", "model:", "--admin-addr", "127.0.0.1:0", "--data", t.TempDir()},
			tt.args...)
		code, out, errs := r.run(args...)
		if code != tt.code || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%v: exit %d, %q, %q, want %q", tt.args, code, out, errs, tt.want)
		}
	}
}

// A start that fails removes the folder that it created. An existing folder stays.
func TestFailedServeLeavesNoFolder(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := newRig(t)
	r.more = map[string]*model.Engine{"model:": r.engine}
	const free = "127.0.0.1:0"

	for name, args := range map[string][]string{
		"the API's port is taken":    {"--addr", taken.Addr().String(), "--admin-addr", free},
		"the admin port is taken":    {"--addr", free, "--admin-addr", taken.Addr().String()},
		"another engine, and a port": {"--addr", taken.Addr().String(), "--admin-addr", free, "--engine", "model:"},
		"nobody answers":             {"--addr", free, "--admin-addr", free, "--engine", "elsewhere:"},
		"no token for others":        {"--addr", "0.0.0.0:0", "--admin-addr", free, "--engine", "model:"},
	} {
		run := r.real // with an engine on a file
		if slices.Contains(args, "--engine") {
			run = r.run
		}
		made, had := filepath.Join(t.TempDir(), "made"), t.TempDir()
		for _, data := range []string{made, had} {
			if code, out, errs := run(append([]string{"serve", "--data", data}, args...)...); code == exitOK || out != "" {
				t.Errorf("%s: exit %d, %q, %q", name, code, out, errs)
			}
		}
		if _, err := os.Stat(made); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder exists: %v", name, err)
		}
		if _, err := os.Stat(had); err != nil {
			t.Errorf("%s: the folder was removed: %v", name, err)
		}
	}
}

// serve warns if DULY_URL names a store that it does not serve.
func TestServeWarnsAboutURLVariable(t *testing.T) {
	t.Parallel()
	const warning = "serve ignores DULY_URL"
	for url, warns := range map[string]bool{"": false, "http://t@host": false, "redis://:s3cret@host": true} {
		for engine, unset := range map[string]bool{"": true, "sqlite:x.db": false} {
			a := &app{env: Env{Getenv: func(string) string { return url }}}
			c := new(config.Loaded)
			c.Engine = engine
			var log strings.Builder
			a.warnAboutConfig(slog.New(slog.NewTextHandler(&log, nil)), c)
			if said := strings.Contains(log.String(), warning); said != (warns && unset) ||
				strings.Contains(log.String(), "s3cret") {
				t.Errorf("DULY_URL %q, engine %q: %q", url, engine, log.String())
			}
		}
	}
}
