package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// C11.4: http(s)://TOKEN@HOST/NAMESPACE is the URL of a server. Opening sends nothing, so no
// server has to run.
func TestEngineOpensAServer(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://t@127.0.0.1:1/shop", "https://127.0.0.1:1", "http://[::1]:1/a-b"} {
		e, err := open.Engine(t.Context(), url)
		if err != nil {
			t.Errorf("Engine(%q): %v", url, err)
			continue
		}
		e.Close()
	}
}

// C11.5: no error shows a token. A URL of no engine is invalid, and the error has the valid
// forms.
func TestEngineRefusesAURLOfNoEngine(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "jobs.db", "s3cretTokenThatIsLong", "s3cretTokenThatIsLong:x", "ftp://s3cret@host", "redis", "http:",
		"http://", "http://s3cret@/shop", "http://s3cret@host/shop?token=s3cret", "http://s3cret@host:port/x",
		"https://a:s3cret@host/x",
	} {
		e, err := open.Engine(t.Context(), url)
		if !errors.Is(err, duly.ErrInvalid) || e != nil {
			t.Errorf("Engine(%q) = %v, %v; want invalid", url, e, err)
			continue
		}
		text := err.Error()
		if strings.Contains(text, "s3cret") || !strings.Contains(text, "http(s)://TOKEN@HOST/NAMESPACE") {
			t.Errorf("Engine(%q): %v", url, err)
		}
	}
}

// The error names a scheme that is similar to one of Redis, even a long one.
func TestCheckStoreNamesAnUnknownSchemeOfRedis(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"redis-sentinel", "rediss-sentinel", "redis2"} {
		err := open.CheckStore(scheme + "://host")
		want := `begins with "` + scheme + `:", which is not an engine`
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// C11.1: sqlite:PATH is the URL of a file. Its path may have every character.
func TestEngineOpensAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "50% of what?", "a b.db")
	e, err := open.Engine(t.Context(), open.File(path)+"?synchronous=normal&max_body=10")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}

	results, err := e.Push(t.Context(), []duly.Job{{Queue: "q", Body: make([]byte, 11)}})
	if err != nil || !errors.Is(results[0].Err, duly.ErrTooLarge) {
		t.Errorf("Push = %v, %v; want too_large by the option", results, err)
	}
	if n := open.MaxBody(open.File(path) + "?max_body=10"); n != 10 {
		t.Errorf("MaxBody = %d, want 10", n)
	}
}

func TestEngineRefusesUnknownOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	e, err := open.Engine(t.Context(), open.File(path)+"?colour=blue")
	if !errors.Is(err, duly.ErrInvalid) || e != nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("Engine = %v, %v; want invalid", e, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was created: %v", err)
	}
}

func TestPathReturnsTheFileOfASQLiteURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:a/jobs.db?synchronous=normal": "a/jobs.db",
		open.File("50% of?.db"):               "50% of?.db",
		"http://t@host/shop":                  "",
		"sqlite:":                             "",
		"":                                    "",
	} {
		if got := open.Path(url); got != want {
			t.Errorf("Path(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestObserveNamesTheEngine(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 100)
	observe := open.Observe(func(engine, call string, took time.Duration) { calls <- engine + " " + call })
	e, err := open.Engine(t.Context(), open.File(filepath.Join(t.TempDir(), "jobs.db")), observe)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Stats(t.Context(), duly.Q("q")); err != nil {
		t.Fatal(err)
	}

	for call := range calls {
		if call == "sqlite read" {
			return
		}
		if !strings.HasPrefix(call, "sqlite ") {
			t.Fatalf("the call is %s, want one of sqlite", call)
		}
	}
}

// A server needs an engine with a store of its own, so the error does not propose a server.
func TestCheckStoreProposesStores(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite:jobs.db", "redis://127.0.0.1:1", "rediss+cluster://127.0.0.1:1,127.0.0.1:2"} {
		if err := open.CheckStore(url); err != nil {
			t.Errorf("CheckStore(%q): %v", url, err)
		}
	}

	const want = "; write sqlite:PATH for a file, " +
		"or redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey"
	for _, url := range []string{
		"", "jobs.db", "ftp://s3cret@host", "reds://s3cret@host", "s3cretTokenThatIsLong:x", "http://s3cret@host/shop",
		"https://s3cret@host",
	} {
		err := open.CheckStore(url)
		if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("CheckStore(%q): %v, want invalid", url, err)
			continue
		}
		text := err.Error()
		if strings.Contains(text, "s3cret") || strings.Contains(text, "TOKEN@") || !strings.HasSuffix(text, want) {
			t.Errorf("CheckStore(%q): %v", url, err)
		}
	}
}
