//go:build unix

package main_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
)

// run runs the binary. The test fails if the exit status is not 0.
func (h *home) run(args ...string) (stdout string) {
	h.t.Helper()
	code, stdout, stderr := h.duly("", args...)
	if code != 0 {
		h.t.Fatalf("duly %s: exit %d, %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// C11.2, C15.6, fault X4: two servers on one Redis share jobs and tokens. Nothing is lost when
// one of them is killed, and then Redis. Revoking a token through one server ends the
// calls that wait with it at the other one.
func TestTwoServersOnOneRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.AOF("always"), redistest.Password("s3cret"))
	h := newHome(t)
	here := h.serve("--engine", redis.URL(), "--data", "here")
	there := h.serve("--engine", redis.URL(), "--data", "there")
	for _, s := range []*server{here, there} {
		if !strings.Contains(s.banner, " serves redis://***@127.0.0.1:") ||
			!strings.Contains(s.banner, "stay in redis://***@") {
			t.Errorf("serve printed\n%s", s.banner)
		}
	}
	h.run("push", "mail", "now", "--id", "m1", "--data", "here")
	h.run("push", "mail", "later", "--id", "m2", "--delay", "1h", "--data", "here")

	shop := strings.TrimSpace(h.run("token", "create", "--namespace", "default", "--rights", "produce,consume",
		"--data", "here"))
	at := func() string {
		return strings.Replace(readFile(t, filepath.Join(h.dir, "there", "url")), "://", "://"+shop+"@", 1)
	}
	if out := h.run("reserve", "mail", "--url", at()); !strings.Contains(out, "m1") {
		t.Errorf("the other server has\n%s", out)
	}

	if code := here.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("killed: exit %d", code)
	}
	here = h.serve("--engine", redis.URL(), "--data", "here")

	redis.Kill()
	redis.Restart()
	redistest.Await(t, "both servers reach it again", func() bool {
		mine, _, _ := h.duly("", "job", "get", "mail", "m2", "--data", "here")
		other, _, _ := h.duly("", "job", "get", "mail", "m2", "--url", at())
		return mine == 0 && other == 0
	})

	waiting := h.command("./bin/duly", "reserve", "nothing", "--wait", "--url", at())
	var errs logtest.Log
	waiting.Stderr = &errs
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- waiting.Wait() }()
	// If the token had been revoked before this line, the command would not wait at all.
	redistest.Await(t, "the command has noted the unknown queue", func() bool {
		return strings.Contains(errs.String(), "\n")
	})

	id := ""
	for line := range strings.Lines(h.run("token", "list", "--data", "here")) {
		if strings.Contains(line, "produce") {
			id = firstWord(line)
		}
	}
	h.run("token", "revoke", id, "--data", "here")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ten times the promised second
	defer cancel()
	select {
	case err := <-ended:
		if code := exitOf(t, err); code != 1 || !strings.Contains(errs.String(), "\nduly: unauthorized: ") {
			t.Errorf("exit %d, %s", code, errs.String())
		}
	case <-ctx.Done():
		t.Error("the call still waits after its token was revoked")
	}

	for _, s := range []*server{here, there} {
		if code := s.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("serve: exit %d, %s", code, s.errs.String())
		}
		if text := s.banner + s.errs.String(); strings.Contains(text, "s3cret") || strings.Contains(text, shop) {
			t.Errorf("a secret was printed:\n%s", text)
		}
	}
	if out := h.run("queues", "--url", redis.URL(), "--json"); !strings.Contains(out, `"delayed":1`) {
		t.Errorf("without a server: %s", out)
	}
}

// A server does not start if its Redis user may not publish, because it could not
// follow changes of tokens. The error names the missing right.
func TestServeNeedsItsRightsOnRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.User("duly", "s3cret", "~duly:*", "resetchannels", "+@all"))
	h := newHome(t)
	code, out, errs := h.duly("", "serve", "--engine", redis.UserURL("duly"),
		"--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--log-level", "error")
	if code != 1 || out != "" || !strings.HasPrefix(errs, "duly: forbidden: redis at ") ||
		!strings.Contains(errs, "access to a channel") || strings.Contains(errs, "token create") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// C15.13: two processes work directly on Redis, without a server, and run each job
// once.
func TestWorkOnRedisWithoutServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	h := newHome(t)
	if code, _, errs := h.duly("a\nb\nc\nd\ne\nf\n", "push", "q", "--lines", "--url", s.SocketURL()); code != 0 {
		t.Fatal(errs)
	}
	ended := make(chan string)

	for range 2 {
		work := h.command("./bin/duly", "work", "q", "--url", s.URL(), "--exec", `mkdir "ran-$DULY_JOB_ID"`)
		var errs strings.Builder
		work.Stderr = &errs
		if err := work.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = work.Wait() // the test ends it with a signal
			ended <- errs.String()
		}()
		t.Cleanup(func() { work.Process.Signal(syscall.SIGTERM); <-ended })
	}

	redistest.Await(t, "every job has run", func() bool {
		_, stats, _ := h.duly("", "stats", "q", "--json", "--url", s.URL())
		return strings.Contains(stats, `"acked":6`) && strings.Contains(stats, `"failed":0`)
	})
}

// C4.101, C15.48: nack, release and bury print the next state of a job with an ID of
// its own, also without a server.
func TestSettlePrintsNextStateOnEveryEngine(t *testing.T) {
	t.Parallel()
	h := newHome(t)

	for engine, url := range map[string]string{"Redis": redistest.Single(t).SocketURL(), "SQLite": "sqlite:own.db"} {
		t.Run(engine, func(t *testing.T) {
			code, _, errs := h.duly("", "push", "q", "x", "--id", "own", "--tries", "3", "--backoff", "fixed:1h",
				"--url", url)
			if code != 0 {
				t.Fatal(errs)
			}
			for _, settle := range []struct {
				args []string
				want string
			}{
				{[]string{"release"}, "released 1 job, again now\n"},
				{[]string{"nack", "--delay", "0s"}, "nacked 1 job, again now\n"},
				{[]string{"bury"}, "buried 1 job, dead after 1 of 3 tries\n"},
			} {
				_, receipt, _ := h.duly("", "reserve", "q", "--receipts", "--url", url)
				args := append(settle.args, strings.TrimSpace(receipt), "--url", url)
				if code, out, errs := h.duly("", args...); code != 0 || out != settle.want {
					t.Errorf("%s: exit %d, %q, %q, want %q", settle.args[0], code, out, errs, settle.want)
				}
			}
		})
	}
}

// Fault F10: after Redis has been flushed, a server's /readyz fails and its log names the
// losses, including the tokens.
func TestServeReportsFlushedRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	h := newHome(t)
	s := h.serve("--engine", redis.URL(), "--data", "here")
	h.run("push", "mail", "x", "--data", "here")
	ready := func() (status int, body string) {
		resp, err := http.Get(strings.TrimSpace(readFile(t, filepath.Join(h.dir, "here", "url"))) + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, body := ready(); status != http.StatusOK {
		t.Fatalf("before: %d %s", status, body)
	}
	redis.Must("FLUSHALL")
	redistest.Await(t, "it is not ready", func() bool {
		status, body := ready()
		return status == http.StatusServiceUnavailable && strings.Contains(body, "the store was reset at")
	})
	redistest.Await(t, "the token is refused", func() bool {
		code, _, errs := h.duly("", "push", "mail", "x", "--data", "here")
		return code == 1 && strings.Contains(errs, "unauthorized")
	})
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("serve: exit %d", code)
	}

	for _, want := range []string{
		"store reset: the server has lost what was stored", "store reset: the tokens", "namespace=default",
	} {
		if strings.Count(s.errs.String(), want) == 0 {
			t.Errorf("the log does not say %q:\n%s", want, s.errs.String())
		}
	}
}
