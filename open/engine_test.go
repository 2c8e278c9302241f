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

// C11.4: http(s)://TOKEN@HOST/NAMESPACE chooses a server. Opening sends
// nothing, so nobody need be there.
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

// C11.5: no error shows a token. A URL that chooses no engine is invalid, and
// the error says how to write one.
func TestEngineRefusesWhatChoosesNone(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "jobs.db", "s3cretTokenThatIsLong", "s3cretTokenThatIsLong:x", "ftp://s3cret@host", "redis", "http:", "http://", "http://s3cret@/shop",
		"http://s3cret@host/shop?token=s3cret", "http://s3cret@host:port/x", "https://a:s3cret@host/x",
	} {
		e, err := open.Engine(t.Context(), url)
		if !errors.Is(err, duly.ErrInvalid) || e != nil {
			t.Errorf("Engine(%q) = %v, %v; want invalid", url, e, err)
			continue
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || !strings.Contains(text, "http(s)://TOKEN@HOST/NAMESPACE") {
			t.Errorf("Engine(%q): %v", url, err)
		}
	}
}

// A scheme that is nearly one of Redis is named, the longest of them too.
func TestAnUnknownSchemeOfRedisIsNamed(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"redis-sentinel", "rediss-sentinel", "redis2"} {
		err := open.CheckStore(scheme + "://host")
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), `begins with "`+scheme+`:", which is no engine`) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// C11.1: sqlite:PATH chooses a file. Its path may hold every character.
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
		t.Errorf("MaxBody = %d", n)
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
		t.Errorf("the file was made: %v", err)
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:a/jobs.db?synchronous=normal": "a/jobs.db", open.File("50% of?.db"): "50% of?.db", "http://t@host/shop": "", "sqlite:": "", "": "",
	} {
		if got := open.Path(url); got != want {
			t.Errorf("Path(%q) = %q, want %q", url, got, want)
		}
	}
}

// What an engine tells of its store has the engine's name.
func TestObserveNamesTheEngine(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	e, err := open.Engine(t.Context(), open.File(filepath.Join(t.TempDir(), "jobs.db")), open.Observe(func(engine, call string, took time.Duration) {
		told <- engine + " " + call
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Stats(t.Context(), duly.Q("q")); err != nil {
		t.Fatal(err)
	}
	for text := range told {
		if text == "sqlite read" {
			return
		}
		if !strings.HasPrefix(text, "sqlite ") {
			t.Fatal(text)
		}
	}
}

// What can be served has a store of its own: the error for anything else offers
// no server.
func TestCheckStoreOffersWhatCanBeServed(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite:jobs.db", "redis://127.0.0.1:1", "rediss+cluster://127.0.0.1:1,127.0.0.1:2"} {
		if err := open.CheckStore(url); err != nil {
			t.Errorf("CheckStore(%q): %v", url, err)
		}
	}
	for _, url := range []string{"", "jobs.db", "ftp://s3cret@host", "reds://s3cret@host", "s3cretTokenThatIsLong:x", "http://s3cret@host/shop", "https://s3cret@host"} {
		err := open.CheckStore(url)
		if !errors.Is(err, duly.ErrInvalid) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "TOKEN@") ||
			!strings.HasSuffix(err.Error(), "; write sqlite:PATH for a file, or redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey") {
			t.Errorf("CheckStore(%q): %v", url, err)
		}
	}
}
