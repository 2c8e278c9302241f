package redisengine_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestOpenNamesTheMistake checks that Open fails with one line that says what to do, without the
// password.
//
// C11.2, C11.3
func TestOpenNamesTheMistake(t *testing.T) {
	t.Parallel()
	plain, _ := redistest.Shared(t)
	locked, tls := redistest.Single(t, redistest.Password("s3cret")), redistest.Single(t, redistest.TLS())
	evicting := redistest.Single(t, redistest.MaxMemory("100mb", "allkeys-lru"))
	gone := redistest.Single(t)
	gone.Stop()
	usual := func([]string) any { return redistest.Usual{} }
	old, seven := redistest.NewStub(t, "6.2.14", usual), redistest.NewStub(t, "7.0.15", usual)
	for _, c := range []struct {
		url  string
		code error
		says string
	}{
		{"", duly.ErrInvalid, "redis://"},
		{"postgres://host", duly.ErrInvalid, "redis://"},
		{plain.URL() + "?colour=blue", duly.ErrInvalid, "colour"},
		{plain.URL() + "?max_body=many", duly.ErrInvalid, "max_body"},
		{plain.URL() + "?durability=tape", duly.ErrInvalid, "durability"},
		{"redis://:wr0ng@" + locked.Addr(), duly.ErrUnauthorized, "password"},
		{"redis://" + locked.Addr(), duly.ErrUnauthorized, "password"},
		{gone.URL() + "?retry=10ms", duly.ErrUnavailable, "check that the server runs"},
		{"rediss://" + plain.Addr() + "?retry=10ms&dial_timeout=500ms", duly.ErrUnavailable, "redis://"},
		{"redis://" + tls.Addr() + "?retry=10ms&dial_timeout=500ms", duly.ErrUnavailable, "rediss://"},
		{old.URL(), duly.ErrUnsupported, "Redis 7.0"},
		{seven.URL() + "?durability=aof", duly.ErrUnsupported, "7.2"},
		{evicting.URL(), duly.ErrUnsupported, "eviction=warn"},
	} {
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: c.url, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			e.Close()
		}
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %v that names %q", c.url, err, c.code, c.says)
			continue
		}
		if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "s3cret") ||
			strings.Contains(text, "wr0ng") {
			t.Errorf("%q: the error %q has several lines, or a password", c.url, text)
		}
	}
}

// TestOpenWarnsOfEviction checks that an engine with eviction=warn opens on a server that drops
// keys, and logs a warning (fault D5).
//
// C9.9
func TestOpenWarnsOfEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.MaxMemory("100mb", "allkeys-lru"))
	var log bytes.Buffer
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL() + "?eviction=warn",
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	must(t, e.Close())
	if !strings.Contains(log.String(), "allkeys-lru") {
		t.Errorf("the log is %q", log.String())
	}
}
