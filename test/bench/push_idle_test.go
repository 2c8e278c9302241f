package bench

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench/gaugetest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server/webhook/dispatch"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// TestIdleDispatcherSendsFewRequests checks C16.18. A server that dispatches a thousand idle push
// queues sends no more requests than one that waits for one queue, except for those that watch
// its tokens.
func TestIdleDispatcherSendsFewRequests(t *testing.T) {
	t.Parallel()
	queues, span := 200, 10*time.Second
	if proctest.Long() {
		queues, span = 1000, idleTime
	}
	s := redistest.Single(t)
	e := onRedis(t, redisengine.Config{URL: s.URL()})
	for i := range queues {
		push := duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "https://example.com/hook"}}
		if err := e.Configure(t.Context(), duly.Q(fmt.Sprint("hooks", i)), push); err != nil {
			t.Fatal(err)
		}
	}
	requests := func(span time.Duration) int64 {
		return gaugetest.Requests(t, s.URL(), func() { time.Sleep(span) }) // the measured time
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go e.WatchTokens(ctx, func(bool) {}) // as a server does
	redistest.Await(t, "the watch of tokens", func() bool { return requests(time.Second) >= 2 })
	watching := requests(span)

	dispatches(t, e)
	redistest.Await(t, "the dispatcher to rest", func() bool { return requests(time.Second) <= 6 })
	n := requests(span) - watching
	t.Logf("%d requests in %s with %d idle push queues: %.2f a second (at most %g)", n, span, queues,
		float64(n)/span.Seconds(), idleRequests)
	// A short measurement may contain one more request of each kind than its share.
	if bound := idleRequests*span.Seconds() + 3; float64(n) > bound {
		t.Errorf("an idle dispatcher sent %d requests in %s, want at most %g", n, span, bound)
	}
}

// dispatches runs a dispatcher on an engine until the test ends.
func dispatches(t *testing.T, e *redisengine.Engine) {
	t.Helper()
	keys, err := target.OpenKeys(filepath.Join(t.TempDir(), "push.key"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	resolver := target.NewResolver(target.NewStore(e, keys, g, nil), e)
	t.Cleanup(resolver.Close)
	d := dispatch.New(dispatch.Config{
		Engine: e, Queues: dispatch.QueuesOf(e, e, nil, resolver.Refresh), Resolver: resolver,
		Log: slog.New(slog.DiscardHandler),
	})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
