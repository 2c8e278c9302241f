package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// client connects as the engine's client library does, with its introduction.
func client(t *testing.T, address string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true,
		DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// raw connects in protocol 2, without an introduction.
func raw(t *testing.T, address string) *resp.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return resp.NewConn(nc)
}

func TestTheClientLibraryConnectsToAStub(t *testing.T) {
	t.Parallel()
	s := NewStub(t, "6.2.14", func(args []string) any {
		if args[0] == "WAITAOF" {
			return []any{1, 0}
		}
		return Usual{}
	})

	c := client(t, s.Addr())
	if s.Count("hello") != 1 || s.Count("CLIENT") < 3 {
		t.Errorf("seen %q", s.Seen())
	}
	ask := func(args ...string) rueidis.RedisResult { return c.Do(t.Context(), c.B().Arbitrary(args...).Build()) }
	if got, err := ask("WAITAOF", "1", "0", "100").AsIntSlice(); fmt.Sprint(got) != "[1 0]" {
		t.Errorf("WAITAOF: %v, %v", got, err)
	}
	if got, err := ask("INFO", "server").ToString(); !strings.Contains(got, "redis_version:6.2.14\r\n") {
		t.Errorf("INFO: %q, %v", got, err)
	}

	hello, err := ask("HELLO", "3").AsMap()
	if err != nil {
		t.Fatal(err)
	}
	version, proto := hello["version"], hello["proto"]
	if v, err := version.ToString(); v != "6.2.14" {
		t.Errorf("HELLO says version %q, %v", v, err)
	}
	if v, err := proto.AsInt64(); v != 3 {
		t.Errorf("HELLO says protocol %d, %v", v, err)
	}
	if err := ask("NOSUCH").Error(); err == nil || !strings.HasPrefix(err.Error(), "unknown command") &&
		!strings.HasPrefix(err.Error(), "ERR unknown command") {
		t.Errorf("NOSUCH: %v", err)
	}
}

func TestStubSendsTheGivenErrors(t *testing.T) {
	t.Parallel()
	refusals := []string{
		"READONLY You can't write against a read only replica.", "LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script.",
		"MISCONF Errors writing to the AOF file", "OOM command not allowed when used memory > 'maxmemory'.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN The cluster is down", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1", "NOSCRIPT No matching script.",
	}
	s := NewStub(t, "7.2.4", func(args []string) any {
		for _, r := range refusals {
			if args[0] == "EVALSHA" && strings.HasPrefix(r, args[1]+" ") {
				return resp.Error(r)
			}
		}
		return Usual{}
	})

	c := client(t, s.Addr())
	two := raw(t, s.Addr())
	for _, want := range refusals {
		code, _, _ := strings.Cut(want, " ")
		err := c.Do(t.Context(), c.B().Evalsha().Sha1(code).Numkeys(0).Build()).Error()
		if redis, ok := rueidis.IsRedisErr(err); !ok || redis.Error() != want {
			t.Errorf("%s: %v", code, err)
		}
		if _, err := two.Do(t.Context(), "EVALSHA", code, 0); err != resp.Error(want) {
			t.Errorf("%s in protocol 2: %v", code, err)
		}
	}

	if n := s.Count("EVALSHA"); n != 2*len(refusals) {
		t.Errorf("seen %d", n)
	}
	if got, err := two.Do(t.Context(), "HELLO"); err != nil || len(got.([]any)) != 14 {
		t.Errorf("HELLO in protocol 2: %v, %v", got, err)
	}
	if _, err := two.Do(t.Context(), "HELLO", 4); !strings.HasPrefix(string(refusal(t, err)), "NOPROTO ") {
		t.Errorf("HELLO 4: %v", err)
	}
}

func TestStubDelaysAndDropsReplies(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := NewStub(t, "7.2.4", func(args []string) any {
		switch args[0] {
		case "LATE":
			return Late{release, "late"}
		case "NEVER":
			return Late{nil, "never"}
		case "SILENCE":
			return Silence{}
		case "HANGUP":
			return HangUp{}
		}
		return Usual{}
	})

	late, other := raw(t, s.Addr()), raw(t, s.Addr())
	for _, args := range [][]any{{"LATE"}, {"PING", "after"}} {
		if err := late.Send(args...); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := other.Do(t.Context(), "PING"); got != "PONG" {
		t.Errorf("another connection: %v, %v", got, err)
	}
	close(release)
	for _, want := range []string{"late", "after"} {
		if got, err := late.Receive(); got != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}

	if err := other.Send("SILENCE"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if got, err := other.Do(soon, "PING"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after silence: %v, %v", got, err)
	}
	if _, err := raw(t, s.Addr()).Do(t.Context(), "HANGUP"); err != io.EOF {
		t.Errorf("hung up: %v", err)
	}

	s.Drop()
	if _, err := late.Receive(); err != io.EOF {
		t.Errorf("dropped: %v", err)
	}
	// A request that is never answered must not block the end of the test.
	if err := raw(t, s.Addr()).Send("NEVER"); err != nil {
		t.Error(err)
	}
}

func TestStubFailsTheTestOnInvalidRequests(t *testing.T) {
	t.Parallel()
	tb := &failed{TB: t}
	t.Cleanup(func() { // runs after the stub's own cleanup
		if !tb.failed {
			t.Error("a client sent HTTP, and the test did not fail")
		}
	})
	s := NewStub(tb, "7.2.4", func([]string) any { return Usual{} })
	nc := raw(t, s.Addr())
	if _, err := nc.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Error(err)
	}
	if v, err := nc.Receive(); err == nil {
		t.Errorf("it answers %v", v)
	}
}
