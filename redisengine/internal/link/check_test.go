package link

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// refusedOpen opens a URL that must fail, and checks the error: its code, one line, the names in
// it, and no secret.
func refusedOpen(t *testing.T, url string, code duly.Code, names ...string) {
	t.Helper()
	l, err := tryOpen(t, url, testLog(t))
	if l != nil {
		l.Close()
	}
	if duly.CodeOf(err) != code || err == nil || strings.Contains(err.Error(), "\n") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Open returned %v; want %s", err, code)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("Open returned %v; want it to name %q", err, name)
		}
	}
}

// hello returns a server with these fields in its answer to HELLO.
func hello(t *testing.T, fields ...any) *redistest.Stub {
	return redistest.NewStub(t, redis70, func(args []string) any {
		switch {
		case args[0] == "HELLO":
			return append(resp.Map{"server", "redis", "version", redis70, "proto", int64(3), "id", int64(1), "mode",
				"standalone", "role", "master", "modules", []any{}}, fields...)
		case strings.HasPrefix(args[0], "EVAL"):
			return []any{}
		}
		return redistest.Usual{}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		server, version, query string
		code                   duly.Code
	}{
		{"redis", "6.2.14", "", duly.CodeUnsupported},
		{"redis", "7.0.0", "", ""},
		{"redis", "7.1.9", "?durability=aof", duly.CodeUnsupported},
		{"redis", "7.2.0", "?durability=aof", ""},
		{"redis", "8.0.1", "?durability=aof", ""},
		{"redis", "10.0.0", "", ""},
		{"valkey", "7.1.0", "", duly.CodeUnsupported},
		{"valkey", "7.2.11", "", ""},
		{"valkey", "9.0.0", "?durability=replicas:1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.server+tt.version, func(t *testing.T) {
			t.Parallel()
			url := hello(t, "server", tt.server, "version", tt.version).URL() + tt.query
			if tt.code != "" {
				refusedOpen(t, url, tt.code, tt.version)
				return
			}
			open(t, url)
		})
	}
}

func TestOpenNamesTheKindOfServer(t *testing.T) {
	t.Parallel()
	refusedOpen(t, hello(t, "mode", "sentinel").URL(), duly.CodeInvalid, "redis+sentinel://")
	refusedOpen(t, hello(t, "mode", "cluster").URL(), duly.CodeInvalid, "redis+cluster://")
	refusedOpen(t, hello(t, "role", "replica").URL(), duly.CodeUnavailable, "replica")
	s, _ := redistest.Shared(t)
	refusedOpen(t, "redis+cluster://"+s.Addr(), duly.CodeInvalid, "redis://")
	refusedOpen(t, "redis+cluster://"+s.Addr()+"?addr="+s.Addr(), duly.CodeInvalid, "redis://")
	refusedOpen(t, "redis+sentinel://"+s.Addr()+"/m", duly.CodeInvalid, "this is not a Sentinel", "redis://",
		"redis+cluster://")
	c, _ := redistest.SharedCluster(t)
	refusedOpen(t, "redis+sentinel://"+c.Addrs()[0]+"/m", duly.CodeInvalid, "this is not a Sentinel", "redis+cluster://")
	refusedOpen(t, "redis://"+c.Addrs()[0], duly.CodeInvalid, "redis+cluster://")
	refusedOpen(t, s.URL()+"/99", duly.CodeInvalid, "lower db")
}

func TestOpenWithoutAServerFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	refusedOpen(t, "redis://:s3cret@"+addr+"?dial_timeout=50ms", duly.CodeUnavailable, "rediss://", "no answer in time")
	refusedOpen(t, "rediss://:s3cret@"+addr+"?dial_timeout=50ms", duly.CodeUnavailable, "the TLS handshake failed",
		"write redis://")
	l.Close()
	for _, url := range []string{"redis://:s3cret@" + addr, "rediss://" + addr, "redis+cluster://" + addr,
		"redis+sentinel://" + addr + "/m"} {
		refusedOpen(t, url, duly.CodeUnavailable, "no server answers there", addr)
	}
	refusedOpen(t, "redis+unix:///nowhere/redis.sock", duly.CodeUnavailable, "/nowhere/redis.sock",
		"check that the server runs, and the socket's path")
	refusedOpen(t, "redis://host.invalid:1", duly.CodeUnavailable, "check the host in the URL")
}

// TestOpenEndsWithItsContext checks that Open ends with its context, even if a server accepts the
// connection and sends nothing.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.NewStub(t, redis70, func([]string) any { return redistest.Silence{} })
	o, err := ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(within(t, 200*time.Millisecond), o, testLog(t)); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("Open returned %v", err)
	}
	for _, say := range []any{redistest.HangUp{}, resp.Error("ERR max number of clients reached")} {
		s := redistest.NewStub(t, redis70, func([]string) any { return say })
		refusedOpen(t, s.URL(), duly.CodeUnavailable)
	}
}

func TestOpenFailsIfOnlyOneSideUsesTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.TLS())
	l := open(t, s.URL()+"?tls_ca="+s.CAFile())
	if _, err := l.Run(t.Context(), increment("k", 1)); err != nil {
		t.Error(err)
	}
	refusedOpen(t, s.URL(), duly.CodeUnavailable, "tls_ca")
	open(t, s.URL()+"?tls_skip_verify=true")
	refusedOpen(t, s.URL()+"?tls_ca="+s.CAFile()+"&tls_server_name=other.example", duly.CodeUnavailable, "tls_server_name")
	refusedOpen(t, s.URL()+"?tls_ca=/nowhere", duly.CodeInvalid, "tls_ca")
	refusedOpen(t, "redis://"+s.Addr()+"?dial_timeout=1s", duly.CodeUnavailable, "rediss://")
	plain, _ := redistest.Shared(t)
	refusedOpen(t, "rediss://"+plain.Addr()+"?dial_timeout=300ms", duly.CodeUnavailable, "redis://")
	if _, err := l.Run(t.Context(), increment("k", 1)); err != nil {
		t.Error(err)
	}
}

func TestURLCanNameUnixSocketAndDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, "redis+unix://"+s.Socket()+"?db=3")
	if _, err := l.Run(t.Context(), increment("k", 5)); err != nil {
		t.Fatal(err)
	}
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do(t.Context(), "SELECT", 3); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.Do(t.Context(), "GET", "k"); got != "5" {
		t.Errorf("database 3 has the value %v, %v", got, err)
	}
}

func TestWrongPasswordIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.Password("s3cret1"))
	open(t, s.URL())
	refusedOpen(t, "redis://"+s.Addr(), duly.CodeUnauthorized, "PASSWORD@")
	refusedOpen(t, "redis://:s3cret2@"+s.Addr(), duly.CodeUnauthorized, "password")
	refusedOpen(t, "redis://nobody:s3cret1@"+s.Addr(), duly.CodeUnauthorized, "password")
}

// TestOpenNamesAMissingRight opens with a user that has only the required rights, and with a user
// that lacks some of these rights (fault S5).
func TestOpenNamesAMissingRight(t *testing.T) {
	t.Parallel()
	least := []string{"~duly:*", "+@scripting", "+bzpopmin", "+client|id", "+client|unblock", "+unlink", "+ping",
		"+incrby", "+hget"}
	s := redistest.Single(t,
		redistest.User("least", "s3cret", least...),
		redistest.User("noeval", "s3cret", "~duly:*", "+@all", "-eval_ro", "-evalsha_ro"),
		redistest.User("nopop", "s3cret", "~duly:*", "+@all", "-bzpopmin", "-client|unblock"),
		redistest.User("nokeys", "s3cret", "~other:*", "+@all"))
	log, text := newLog()
	l := openWith(t, s.UserURL("least"), log)
	if !strings.Contains(text.String(), "+info") {
		t.Errorf("the log has no warning about the right to call INFO: %q", text)
	}
	if _, err := l.Run(t.Context(), increment("duly:n", 1)); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if _, _, _, _, err := l.Block(t.Context(), "", []string{"duly:z"}, time.Millisecond); err != nil {
		t.Errorf("Block returned %v", err)
	}
	key := "duly:x"
	if err := l.Allowed(t.Context(), []string{"incrby", key, "1"}, []string{"hget", key, "f"}); err != nil {
		t.Errorf("Allowed returned %v", err)
	}
	err := l.Allowed(t.Context(), []string{"incrby", key, "1"}, []string{"hset", key, "f", "v"},
		[]string{"zadd", key, "1", "m"}, []string{"nosuch", key})
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "+hset +zadd +nosuch ~duly:*") {
		t.Errorf("Allowed with missing rights returned %v", err)
	}
	refusedOpen(t, s.UserURL("noeval"), duly.CodeForbidden, "eval")
	refusedOpen(t, s.UserURL("nopop"), duly.CodeForbidden, "+bzpopmin +client|unblock ~duly:*")
	refusedOpen(t, s.UserURL("nokeys"), duly.CodeForbidden, "~duly:*")
}

// TestOpenChecksEvictionAndAOF checks that Open fails for a server that drops keys, or logs a warning (C9.9).
// It also logs a warning for a server without an append-only file.
func TestOpenChecksEvictionAndAOF(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.MaxMemory("100mb", "allkeys-lru"))
	refusedOpen(t, s.URL(), duly.CodeUnsupported, "allkeys-lru", "noeviction", "eviction=warn")
	log, text := newLog()
	openWith(t, s.URL()+"?eviction=warn&durability=replicas:2", log)
	for _, part := range []string{"allkeys-lru", "append-only", "replicas"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the log has no warning about %s: %s", part, text)
		}
	}
	s = redistest.Single(t, redistest.AOF("always"))
	log, text = newLog()
	openWith(t, s.URL(), log)
	if text.String() != "" {
		t.Errorf("the log has warnings about a good server: %s", text)
	}
}
