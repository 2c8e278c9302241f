package redisengine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestMissedMessagesAreLogged checks that a drop of messages which a group needed is logged with
// the group, the range and the number, at most once a minute.
//
// C12.125
func TestMissedMessagesAreLogged(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c, log := clock.NewFake(), new(logtest.Log)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: withPrefix(server.URL(), prefix), Manual: true,
		Clock: c, Logger: log.Logger()})
	must(t, err)
	defer e.Close()
	must(t, e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{MaxAge: time.Second}))
	_, err = e.CreateGroup(t.Context(), duly.Q("t@g"), duly.FromStart)
	must(t, err)
	drop := func() {
		t.Helper()
		_, err := e.Publish(t.Context(), []duly.Message{{Topic: "t"}, {Topic: "t"}, {Topic: "t"}})
		must(t, err)
		c.Advance(2 * time.Second)
		must(t, e.Sweep(t.Context()))
	}

	const missed = "has missed messages"
	drop()
	if n := log.Count(missed); n != 1 || !strings.Contains(log.String(),
		"group=default/t@g shard=0 first=1 last=3 messages=3") {
		t.Errorf("a drop was logged %d times, want one line with the range 1 to 3: %s", n, log)
	}
	drop()
	drop()
	if n := log.Count(missed); n != 1 {
		t.Errorf("within a minute there are %d lines, want 1: %s", n, log)
	}
	c.Advance(time.Minute)
	must(t, e.Sweep(t.Context()))
	if n := log.Count(missed); n != 2 || !strings.Contains(log.String(), "first=4 last=9 messages=6") {
		t.Errorf("after a minute there are %d lines, want 2, the second with the range 4 to 9: %s", n, log)
	}
	must(t, e.Sweep(t.Context()))
	if n := log.Count(missed); n != 2 {
		t.Errorf("without another drop there are %d lines, want 2", n)
	}
}
