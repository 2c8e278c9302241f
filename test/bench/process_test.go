package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
)

// measures gives a measurement the machine for itself in the long form. The short form checks
// results only, so it waits concurrently with others.
func measures(t *testing.T) {
	t.Helper()
	if !proctest.Long() {
		t.Parallel()
	}
}

// served is a server in its own process.
type served struct {
	pid   int
	url   *url.URL // URL without the token
	admin string
	token string
}

// serve builds the binary and starts it on a new file. It is stopped, without an error, when the
// test ends.
func serve(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	bin, data := filepath.Join(dir, "duly"), filepath.Join(dir, "data")
	build := exec.Command("go", "build", "-o", bin, "./cmd/duly")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin, "serve", "--data", data, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, &log)
		}
	})
	s := &served{pid: cmd.Process.Pid}
	address := await(t, filepath.Join(data, auth.URLFile))
	s.admin = await(t, filepath.Join(data, auth.AdminURLFile))
	s.token = await(t, filepath.Join(data, auth.TokenFile))
	var err error
	if s.url, err = url.Parse(address); err != nil {
		t.Fatal(err)
	}
	return s
}

// await returns the content of a file as soon as it has some.
func await(t *testing.T, path string) (text string) {
	t.Helper()
	eventually.True(t, "the server writes "+path, func() bool {
		b, err := os.ReadFile(path)
		text = strings.TrimSpace(string(b))
		return err == nil && text != ""
	})
	return text
}

// waiting returns the number of long polls that wait in the server, from its metrics.
func (s *served) waiting(t *testing.T) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^duly_long_polls (\d+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the metrics (%s) have no number of long polls", resp.Status)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// engine returns the server as an engine.
func (s *served) engine(t *testing.T) contract.Engine {
	t.Helper()
	at := *s.url
	at.User = url.User(s.token)
	e, err := open.Engine(context.Background(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
