package redisengine_test

import (
	"errors"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// documented returns the rules of the user in docs/redis.md, for a prefix.
func documented(t testing.TB, prefix string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/redis.md")
	must(t, err)
	m := regexp.MustCompile("(?s)```sh\nredis-cli ACL SETUSER duly (.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/redis.md has no line ACL SETUSER duly")
	}

	rules := strings.NewReplacer("'", "", "\\\n", " ", "duly:*", prefix+":*").Replace(string(m[1]))
	return strings.Fields(rules)
}

// asUser creates a user of the shared server with these rules, and returns its URL.
func asUser(t testing.TB, server *redistest.Server, prefix string, rules []string) string {
	t.Helper()
	args := []any{"ACL", "SETUSER", prefix, "reset"}
	for _, r := range rules {
		args = append(args, r)
	}
	server.Must(args...)
	u, err := url.Parse(server.URL())
	must(t, err)
	u.User = url.UserPassword(prefix, "PASSWORD")
	return withPrefix(u.String(), prefix)
}

// TestOpenNamesAMissingRight checks that Open with functions fails, and names the command, for a
// user that lacks one of the documented commands (fault S5). The documented line is therefore minimal,
// and no script fails in its middle.
func TestOpenNamesAMissingRight(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	rules := documented(t, prefix)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: asUser(t, server, prefix, rules),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, e.Close())
	for _, rule := range rules {
		name, grants := strings.CutPrefix(rule, "+")
		if !grants || strings.HasSuffix(name, "publish") || strings.HasSuffix(name, "subscribe") {
			continue
		}
		less := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
		url := asUser(t, server, prefix, less) + "&scripts=functions"
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			e.Close()
		}
		command, _, _ := strings.Cut(name, "|")
		if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), command) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}

// TestOpenRefusesAnotherPrefix checks that Open fails for a user whose keys have another prefix.
func TestOpenRefusesAnotherPrefix(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	_, err := redisengine.Open(t.Context(), redisengine.Config{URL: asUser(t, server, prefix, documented(t, "other")),
		Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("with another prefix: %v", err)
	}
}

// TestRevokedRightIsNamed checks that the error names a right that was revoked while the engine
// runs, even though Redis up to 7.0 does not name the refused command of a script. The script may
// have failed in its middle, so the error asks for a repair, which fixes the shard without
// reopening.
func TestRevokedRightIsNamed(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, asUser(t, server, prefix, documented(t, prefix)))
	id := duly.NewNumber().String()
	push := func() error {
		results, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: id}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	server.Must("ACL", "SETUSER", prefix, "-hincrby")
	err := push()
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "command hincrby") ||
		!strings.Contains(err.Error(), "duly check --repair") {
		t.Errorf("Push without HINCRBY returned %v", err)
	}
	server.Must("ACL", "SETUSER", prefix, "+hincrby", "-hmget")
	_, err = e.Stats(t.Context(), duly.Q("q"))
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "command hmget") ||
		strings.Contains(err.Error(), "repair") {
		t.Errorf("Stats without HMGET, which writes nothing, returned %v", err)
	}
	server.Must("ACL", "SETUSER", prefix, "+hmget")
	_, err = e.Check(t.Context(), contract.CheckParams{Repair: true})
	must(t, err)
	must(t, push())
	report, err := e.Check(t.Context(), contract.CheckParams{})
	st, err2 := e.Stats(t.Context(), duly.Q("q"))
	if err != nil || err2 != nil || len(report.Faults) > 0 || st.Sizes.Ready != 1 {
		t.Errorf("after the repair Check found %+v, %v, and the sizes are %+v, %v", report.Faults, err, st.Sizes, err2)
	}
}
