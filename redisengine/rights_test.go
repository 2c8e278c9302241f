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
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// documented is the rules of the user of docs/redis.md, for a prefix.
func documented(t testing.TB, prefix string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/redis.md")
	must(t, err)
	m := regexp.MustCompile("(?s)```\nACL SETUSER duly (.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/redis.md has no line ACL SETUSER duly")
	}
	return strings.Fields(strings.ReplaceAll(string(m[1]), "duly:*", prefix+":*"))
}

// asUser makes a user of the shared server with those rules, and tells the URL
// for it.
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

// S5: a user who lacks one of the documented commands is refused when the
// engine is opened, by a line that names it. So the line is as short as it can
// be, and no script stops in its middle.
func TestOpenNamesTheRightThatIsLacking(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	rules := documented(t, prefix)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: asUser(t, server, prefix, rules), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, e.Close())
	for _, rule := range rules {
		name, grants := strings.CutPrefix(rule, "+")
		if !grants || name == "publish" || name == "subscribe" {
			continue
		}
		less := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: asUser(t, server, prefix, less), Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			e.Close()
		}
		command, _, _ := strings.Cut(name, "|")
		if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), command) || strings.Contains(err.Error(), "\n") {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}

// A user whose keys begin otherwise is refused too.
func TestOpenRefusesAnotherPrefix(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	_, err := redisengine.Open(t.Context(), redisengine.Config{URL: asUser(t, server, prefix, documented(t, "other")), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("with another prefix: %v", err)
	}
}
