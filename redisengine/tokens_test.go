package redisengine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// open opens an engine as programs do, for the duration of the test.
func open(t *testing.T, url string) *redisengine.Engine {
	t.Helper()
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// withPrefix returns a URL with the prefix.
func withPrefix(url, prefix string) string {
	if strings.Contains(url, "?") {
		return url + "&prefix=" + prefix
	}
	return url + "?prefix=" + prefix
}

func token(name string) contract.Token {
	return contract.Token{Hash: sha256.Sum256([]byte(name)), Namespace: "shop", Rights: contract.RightConsume,
		Description: name, CreatedAt: time.UnixMilli(1).UTC()}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hearing is a call to WatchTokens. It looks up the token at every report, as a server does.
type hearing struct {
	t       *testing.T
	reports chan bool
}

// hearWithin is the limit for a report of a change: ten times the promised second.
const hearWithin = 10 * time.Second

func hear(t *testing.T, e *redisengine.Engine) hearing {
	h := hearing{t, make(chan bool, 10_000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.WatchTokens(ctx, func(hearing bool) { h.reports <- hearing }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("WatchTokens returned %v", err)
		}
	})
	h.until("the watch has begun", func(connected bool) bool { return connected })
	return h
}

// until waits for a report for which the condition holds.
func (h hearing) until(why string, holds func(connected bool) bool) {
	h.t.Helper()
	timeout := time.NewTimer(hearWithin)
	defer timeout.Stop()
	for {
		select {
		case connected := <-h.reports:
			if holds(connected) {
				return
			}
		case <-timeout.C:
			h.t.Fatalf("no report within %v although %s", hearWithin, why)
		}
	}
}

// TestTokensAreSharedByAllEngines checks that engines on the same servers get a report of another
// engine's change, and then find the token (C4.92). It runs on one server and on a cluster, over
// any node.
func TestTokensAreSharedByAllEngines(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func(t *testing.T) (here, there string){
		"Single": func(t *testing.T) (string, string) {
			s, prefix := redistest.Shared(t)
			return withPrefix(s.URL(), prefix), withPrefix(s.SocketURL(), prefix)
		},
		"Cluster": func(t *testing.T) (string, string) {
			c, prefix := redistest.SharedCluster(t)
			return withPrefix(c.URL(), prefix), withPrefix("redis+cluster://"+c.Addrs()[1], prefix)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := urls(t)
			here, there := open(t, a), open(t, b)
			h := hear(t, there)
			found := func(want error) func(connected bool) bool {
				return func(connected bool) bool {
					_, err := there.FindToken(t.Context(), token("worker").Hash)
					return connected && errors.Is(err, want)
				}
			}
			for range 3 {
				must(t, here.PutToken(t.Context(), token("worker")))
				h.until("a token was made", found(nil))
				must(t, here.DeleteToken(t.Context(), token("worker").Hash))
				h.until("it was revoked", found(duly.ErrNotFound))
			}
		})
	}
}

// TestWatchTokensOutlivesItsServer cuts the connection, then kills the server (C4.92, fault F1). In both
// cases the watch reports that it is disconnected, and later that it is connected again. The tokens
// still exist.
func TestWatchTokensOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.AOF("always"))
	e := open(t, s.URL())
	want := token("worker")
	want.Limits = contract.Limits{Produce: 3, Consume: contract.MaxLimit, Per: contract.MaxLimitWindow - time.Nanosecond}
	must(t, e.PutToken(t.Context(), want))
	h := hear(t, e)
	not := func(connected bool) bool { return !connected }
	again := func(connected bool) bool { return connected }
	s.Must("CLIENT", "KILL", "TYPE", "pubsub")
	h.until("the connection is cut", not)
	h.until("there is another one", again)
	s.Kill()
	h.until("the server is gone", not)
	s.Restart()
	h.until("it is back", again)
	got, err := e.FindToken(t.Context(), want.Hash)
	if err != nil || got != want {
		t.Errorf("found %+v, %v, want %+v", got, err, want)
	}
	must(t, open(t, s.URL()).DeleteToken(t.Context(), want.Hash))
	h.until("the token was revoked", func(connected bool) bool {
		_, err := e.FindToken(t.Context(), want.Hash)
		return connected && errors.Is(err, duly.ErrNotFound)
	})
}

// TestWatchersShareAConnection checks that all watchers of a process share one connection, which
// closes when the last watcher ends. A later watcher gets a report at once.
func TestWatchersShareAConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	e := open(t, s.URL())
	connections := func() int {
		return strings.Count(s.Must("CLIENT", "LIST", "TYPE", "pubsub").(string), "\n")
	}
	if !t.Run("Watch", func(t *testing.T) {
		watchers := []hearing{hear(t, e), hear(t, e), hear(t, e)}
		must(t, e.PutToken(t.Context(), token("worker")))
		for _, h := range watchers {
			h.until("a token was created", func(connected bool) bool {
				_, err := e.FindToken(t.Context(), token("worker").Hash)
				return connected && err == nil
			})
		}
		if n := connections(); n != 1 {
			t.Errorf("got %d connections, want 1", n)
		}
	}) {
		return
	}
	redistest.Await(t, "the connection ends", func() bool { return connections() == 0 })
	hear(t, e)
}

// TestLimitsAreSharedByAllEngines checks that all engines count together, by the server's clock
// (C4.84).
func TestLimitsAreSharedByAllEngines(t *testing.T) {
	t.Parallel()
	s, prefix := redistest.Shared(t)
	const limit = 20
	limited := token("worker")
	limited.Limits = contract.Limits{Consume: limit, Per: time.Hour}
	engines := []*redisengine.Engine{open(t, withPrefix(s.URL(), prefix)), open(t, withPrefix(s.URL(), prefix)),
		open(t, withPrefix(s.URL(), prefix))}
	must(t, engines[0].PutToken(t.Context(), limited))
	now := func() time.Time {
		answer := s.Must("TIME").([]any)
		var sec, us int64
		fmt.Sscan(fmt.Sprintf("%v %v", answer...), &sec, &us)
		return time.Unix(sec, us*1000)
	}
	before := now()
	var counted atomic.Int64
	var crowd sync.WaitGroup
	for _, e := range engines {
		crowd.Go(func() {
			for range limit {
				window, err := e.Spend(t.Context(), limited.Hash, contract.RightConsume)
				var refused *duly.Error
				switch {
				case err == nil:
					counted.Add(1)
					if window.Before(before.Truncate(time.Millisecond)) || window.After(now()) {
						t.Errorf("the window began at %v, before the test at %v", window, before)
					}
				case !errors.As(err, &refused) || refused.Code != duly.CodeLimited || refused.RetryAfter <= 0 ||
					refused.RetryAfter > time.Hour:
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	if n := counted.Load(); n != limit {
		t.Errorf("%d calls were counted, want %d", n, limit)
	}
}

// TestTokensNeedTheRightToPublish checks that a user without the right to publish can't change
// tokens, because other processes would not notice.
func TestTokensNeedTheRightToPublish(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.User("duly", "s3cret", "~duly:*", "resetchannels", "+@all"))
	e, root := open(t, s.UserURL("duly")), open(t, s.URL())
	must(t, root.PutToken(t.Context(), token("old")))
	if err := e.PutToken(t.Context(), token("new")); !errors.Is(err, duly.ErrForbidden) ||
		!strings.Contains(err.Error(), "channel") {
		t.Errorf("PutToken returned %v", err)
	}
	if err := e.DeleteToken(t.Context(), token("old").Hash); !errors.Is(err, duly.ErrForbidden) {
		t.Errorf("DeleteToken returned %v", err)
	}
	if _, err := e.FindToken(t.Context(), token("new").Hash); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("FindToken of the refused token returned %v", err)
	}
	page, err := e.Tokens(t.Context(), "", duly.PageParams{})
	if err != nil || len(page.Tokens) != 1 || page.Tokens[0] != token("old") {
		t.Errorf("the list has %+v, %v", page, err)
	}
	s.Must("ACL", "SETUSER", "duly", "&duly:*")
	must(t, e.PutToken(t.Context(), token("new")))
}

// TestTokensWhenTheMemoryIsFull checks that tokens can be revoked and limited, and that calls are
// counted, when the memory is full (C9.12).
func TestTokensWhenTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	e := open(t, s.URL())
	limited := token("worker")
	limited.Limits = contract.Limits{Consume: 2, Per: time.Hour}
	must(t, e.PutToken(t.Context(), limited))
	s.Must("CONFIG", "SET", "maxmemory", "1")
	window, err := e.Spend(t.Context(), limited.Hash, contract.RightConsume)
	must(t, err)
	must(t, e.GiveBack(t.Context(), limited.Hash, contract.RightConsume, window))
	must(t, e.LimitToken(t.Context(), limited.Hash, contract.Limits{}))
	must(t, e.DeleteToken(t.Context(), limited.Hash))
	if n := s.Must("HLEN", "duly:{tokens}:windows"); n != int64(0) {
		t.Errorf("a revoked token has left %v windows", n)
	}
}

// TestDamagedTokenIsReported checks that a damaged token is reported as damaged, and stays
// unchanged.
func TestDamagedTokenIsReported(t *testing.T) {
	t.Parallel()
	s, prefix := redistest.Shared(t)
	e := open(t, withPrefix(s.URL(), prefix))
	must(t, e.PutToken(t.Context(), token("worker")))
	key := prefix + ":{tokens}:"
	s.Must("HSET", key+"tokens", fmt.Sprintf("%x", token("worker").Hash), "nonsense")
	if _, err := e.FindToken(t.Context(), token("worker").Hash); !errors.Is(err, duly.ErrCorrupt) ||
		!strings.Contains(err.Error(), prefix) {
		t.Errorf("FindToken returned %v", err)
	}
	if page, err := e.Tokens(t.Context(), "", duly.PageParams{}); !errors.Is(err, duly.ErrCorrupt) ||
		len(page.Tokens) != 0 {
		t.Errorf("Tokens returned %+v, %v", page, err)
	}
	s.Must("DEL", key+"hashes")
	s.Must("SET", key+"hashes", "nonsense")
	before := s.Must("GET", key+"changes")
	if err := e.PutToken(t.Context(), token("other")); !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("PutToken returned %v", err)
	}
	if after := s.Must("GET", key+"changes"); after != before || s.Must("HLEN", key+"tokens") != int64(1) {
		t.Errorf("a refused PutToken changed the number of changes to %v from %v", after, before)
	}
}

// TestListingSkipsEmptyNamespaces checks that a listing skips namespaces without queues, however
// many there are (C4.85).
func TestListingSkipsEmptyNamespaces(t *testing.T) {
	t.Parallel()
	s, prefix := redistest.Shared(t)
	e := open(t, withPrefix(s.URL(), prefix))
	var want []string
	for i := range 60 {
		name := fmt.Sprintf("n%02d", i)
		ref := duly.QueueRef{Namespace: name, Name: "q"}
		must(t, e.Configure(t.Context(), ref, duly.QueueConfig{}))
		if i%20 == 7 || i == 59 {
			want = append(want, name)
			continue
		}
		must(t, e.Destroy(t.Context(), ref))
	}
	for limit := 1; limit <= 60; limit += 3 {
		var got []string
		for p := (duly.PageParams{Limit: limit}); ; {
			page, err := e.Namespaces(t.Context(), p)
			must(t, err)
			if len(page.Names) > limit {
				t.Errorf("got a page of %d names, want at most %d", len(page.Names), limit)
			}
			got = append(got, page.Names...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with pages of %d, Namespaces returned %v, want %v", limit, got, want)
		}
	}
}
