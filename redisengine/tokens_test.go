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

// open opens an engine as programs do, for the length of the test.
func open(t *testing.T, url string) *redisengine.Engine {
	t.Helper()
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// withPrefix is a URL whose keys begin with the prefix.
func withPrefix(url, prefix string) string {
	if strings.Contains(url, "?") {
		return url + "&prefix=" + prefix
	}
	return url + "?prefix=" + prefix
}

func token(name string) contract.Token {
	return contract.Token{Hash: sha256.Sum256([]byte(name)), Namespace: "shop", Rights: contract.RightConsume, Description: name, CreatedAt: time.UnixMilli(1).UTC()}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hearing is a call of WatchTokens. It looks every token up when it is told
// that something has changed, as a server does.
type hearing struct {
	t    *testing.T
	told chan bool
}

// hearWithin is ten times what is promised.
const hearWithin = 10 * time.Second

func hear(t *testing.T, e *redisengine.Engine) hearing {
	h := hearing{t, make(chan bool, 10_000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.WatchTokens(ctx, func(hearing bool) { h.told <- hearing }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch has ended with %v", err)
		}
	})
	h.until("it has begun", func(told bool) bool { return told })
	return h
}

// until waits for a notice with which a condition holds.
func (h hearing) until(why string, holds func(told bool) bool) {
	h.t.Helper()
	timeout := time.NewTimer(hearWithin)
	defer timeout.Stop()
	for {
		select {
		case told := <-h.told:
			if holds(told) {
				return
			}
		case <-timeout.C:
			h.t.Fatalf("not told in %v although %s", hearWithin, why)
		}
	}
}

// C4.92: what one engine changes the others on the servers hear of, and then
// find; on one server, and on a cluster, whatever the node they came by.
func TestTokensAreOneForAllEngines(t *testing.T) {
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
			found := func(want error) func(told bool) bool {
				return func(told bool) bool {
					_, err := there.FindToken(t.Context(), token("worker").Hash)
					return told && errors.Is(err, want)
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

// C4.92, F1: the connection is cut, then the server is killed. Each time it is
// told that nothing is heard, and when it is again. The tokens are there still.
func TestWatchTokensOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.AOF("always"))
	e := open(t, s.URL())
	want := token("worker")
	want.Limits = contract.Limits{Produce: 3, Consume: contract.MaxLimit, Per: contract.MaxLimitWindow - time.Nanosecond}
	must(t, e.PutToken(t.Context(), want))
	h := hear(t, e)
	not := func(told bool) bool { return !told }
	again := func(told bool) bool { return told }
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
	h.until("it was revoked", func(told bool) bool {
		_, err := e.FindToken(t.Context(), want.Hash)
		return told && errors.Is(err, duly.ErrNotFound)
	})
}

// All watchers of a process share one connection, which ends with the last of them. One that comes later is told at once.
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
			h.until("a token was made", func(told bool) bool {
				_, err := e.FindToken(t.Context(), token("worker").Hash)
				return told && err == nil
			})
		}
		if n := connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	}) {
		return
	}
	redistest.Await(t, "the connection ends", func() bool { return connections() == 0 })
	hear(t, e)
}

// C4.84: all engines count together, on the server's clock.
func TestLimitsAreOneForAllEngines(t *testing.T) {
	t.Parallel()
	s, prefix := redistest.Shared(t)
	const limit = 20
	limited := token("worker")
	limited.Limits = contract.Limits{Consume: limit, Per: time.Hour}
	engines := []*redisengine.Engine{open(t, withPrefix(s.URL(), prefix)), open(t, withPrefix(s.URL(), prefix)), open(t, withPrefix(s.URL(), prefix))}
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
						t.Errorf("the window has begun at %v, the test at %v", window, before)
					}
				case !errors.As(err, &refused) || refused.Code != duly.CodeLimited || refused.RetryAfter <= 0 || refused.RetryAfter > time.Hour:
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

// A user who may not publish changes no token: nobody would hear of it.
func TestTokensNeedTheRightToPublish(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.User("duly", "s3cret", "~duly:*", "resetchannels", "+@all"))
	e, root := open(t, s.UserURL("duly")), open(t, s.URL())
	must(t, root.PutToken(t.Context(), token("old")))
	if err := e.PutToken(t.Context(), token("new")); !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "channel") {
		t.Errorf("a token is made: %v", err)
	}
	if err := e.DeleteToken(t.Context(), token("old").Hash); !errors.Is(err, duly.ErrForbidden) {
		t.Errorf("a token is revoked: %v", err)
	}
	if _, err := e.FindToken(t.Context(), token("new").Hash); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the refused one: %v", err)
	}
	page, err := e.Tokens(t.Context(), "", duly.PageParams{})
	if err != nil || len(page.Tokens) != 1 || page.Tokens[0] != token("old") {
		t.Errorf("the list has %+v, %v", page, err)
	}
	s.Must("ACL", "SETUSER", "duly", "&duly:*")
	must(t, e.PutToken(t.Context(), token("new")))
}

// C9.12: when the memory is full tokens still can be revoked and limited, and
// calls are counted.
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
		t.Errorf("%v windows are left of a revoked token", n)
	}
}

// What somebody else has written is said to be damaged, and stays as it is.
func TestTokensThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s, prefix := redistest.Shared(t)
	e := open(t, withPrefix(s.URL(), prefix))
	must(t, e.PutToken(t.Context(), token("worker")))
	key := prefix + ":{tokens}:"
	s.Must("HSET", key+"tokens", fmt.Sprintf("%x", token("worker").Hash), "nonsense")
	if _, err := e.FindToken(t.Context(), token("worker").Hash); !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), prefix) {
		t.Errorf("find: %v", err)
	}
	if page, err := e.Tokens(t.Context(), "", duly.PageParams{}); !errors.Is(err, duly.ErrCorrupt) || len(page.Tokens) != 0 {
		t.Errorf("list: %+v, %v", page, err)
	}
	s.Must("DEL", key+"hashes")
	s.Must("SET", key+"hashes", "nonsense")
	before := s.Must("GET", key+"changes")
	if err := e.PutToken(t.Context(), token("other")); !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("put: %v", err)
	}
	if after := s.Must("GET", key+"changes"); after != before || s.Must("HLEN", key+"tokens") != int64(1) {
		t.Errorf("a refused put has changed something: %v changes, before %v", after, before)
	}
}

// C4.85: namespaces whose queues are gone are passed over, however many.
func TestNamespacesThatAreEmptyCostNoPages(t *testing.T) {
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
				t.Errorf("a page of %d names, asked for %d", len(page.Names), limit)
			}
			got = append(got, page.Names...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
}
