package open_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/redisengine"
)

// C11.2, C11.3: redis://, rediss://, redis+unix://, redis+sentinel:// and redis+cluster://
// are URLs of the engine on Redis, with their options.
func TestEngineOpensRedis(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	for scheme, url := range map[string]func(t *testing.T) string{
		"redis":          func(t *testing.T) string { s, p := redistest.Shared(t); return s.URL() + "?prefix=" + p },
		"redis+unix":     func(t *testing.T) string { s, p := redistest.Shared(t); return s.SocketURL() + "?prefix=" + p },
		"redis+cluster":  func(t *testing.T) string { c, p := redistest.SharedCluster(t); return c.URL() + "&prefix=" + p },
		"redis+sentinel": func(t *testing.T) string { return redistest.NewSentinel(t).URL() + "&prefix=x" },
		"rediss": func(t *testing.T) string {
			s := redistest.Single(t, redistest.TLS(), redistest.Password("s3cret"))
			return s.URL() + "?tls_ca=" + s.CAFile()
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			at := url(t) + "&max_body=10"
			if !strings.HasPrefix(at, scheme+":") || !open.Redis(at) || open.MaxBody(at) != 10 || open.Path(at) != "" {
				t.Errorf("%s: Redis = %v, MaxBody = %d, Path = %q", at, open.Redis(at), open.MaxBody(at), open.Path(at))
			}

			var log bytes.Buffer
			e, err := open.Engine(t.Context(), at, open.Log(slog.New(slog.NewTextHandler(&log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()

			jobs := []duly.Job{{Queue: "q", Body: make([]byte, 11)}, {Queue: "q", ID: "small"}}
			results, err := e.Push(t.Context(), jobs)
			if err != nil || !errors.Is(results[0].Err, duly.ErrTooLarge) || results[1].Err != nil {
				t.Errorf("Push = %v, %v; want too_large by the option, and the other stored", results, err)
			}
			if _, ok := e.(*redisengine.Engine); !ok {
				t.Errorf("the engine is a %T", e)
			}
			if strings.Contains(log.String(), "s3cret") || !strings.Contains(log.String(), "append-only file") {
				t.Errorf("logged:\n%s", log.String())
			}
		})
	}
}

// C11.5, fault X7: the error of an engine that cannot be opened has no password.
func TestEngineErrorHasNoPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.Password("right"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for url, want := range map[string]duly.Code{
		strings.Replace(s.URL(), "right", "s3cret", 1): duly.CodeUnauthorized,
		s.URL() + "?colour=s3cret":                     duly.CodeInvalid,
		s.URL() + "?max_body=s3cret":                   duly.CodeInvalid,
		"redis://:s3cret@127.0.0.1:1?retry=1ms":        duly.CodeUnavailable,
	} {
		e, err := open.Engine(ctx, url, open.Log(slog.New(slog.DiscardHandler)))
		if duly.CodeOf(err) != want || e != nil {
			t.Errorf("Engine(%q) = %v, %v; want %s", url, e, err, want)
		}
		if want != duly.CodeInvalid && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Engine(%q): %v", url, err)
		}
	}
}

// C11.3: a wrong URL of Redis is invalid.
func TestEngineRefusesAWrongURLOfRedis(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis:", "redis:s3cret", "redis://", "redis://:s3cret@", "redis+sentinel://:s3cret@host",
		"redis://host/s3cret@x", "redis+unix://s3cret", "redis://host?sentinel_password=s3cret",
		"redis+cluster://:s3cret@host/1",
	} {
		e, err := open.Engine(t.Context(), url)
		if !errors.Is(err, duly.ErrInvalid) || e != nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Engine(%q) = %v, %v; want invalid", url, e, err)
		}
	}
}

func TestSchemesAreThoseOfTheEngines(t *testing.T) {
	t.Parallel()
	for _, scheme := range open.Schemes() {
		_, err := open.Engine(t.Context(), scheme)
		if !errors.Is(err, duly.ErrInvalid) || strings.Contains(err.Error(), "which is no engine") {
			t.Errorf("Engine(%q): %v", scheme, err)
		}
	}
}
