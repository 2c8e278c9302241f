package cancelfeed

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

const (
	// mostFeeds bounds the namespaces that are polled. A feed may be a connection
	// of the engine to its store, and it takes up to mostBytes.
	mostFeeds = 1000
	// linger is how long a feed stays without a caller. It is longer than the
	// polls of duly's own client, which a balancer may send to several servers.
	linger = 5 * time.Minute
	// retryAfter is when a caller without a feed should come back.
	retryAfter = 10 * time.Second
)

// Config is what Feeds work with. Clock must be set.
type Config struct {
	// Watcher reports removed jobs. Nil: Poll returns [duly.ErrUnsupported].
	Watcher duly.CancelWatcher
	// Clock measures waits, and how long a feed stays without a caller.
	Clock clock.Clock
	// Polling, if set, is called with 1 when a caller begins to wait, and with -1
	// when it ends.
	Polling func(n int)
	// Log, if set, gets the stack of a watch that panics.
	Log *slog.Logger
}

// Feeds holds the feeds of a server. It is safe for concurrent use.
type Feeds struct {
	cfg     Config
	life    context.Context
	end     context.CancelFunc
	watches sync.WaitGroup

	mu    sync.Mutex
	feeds map[string]*feed // by namespace
}

// New returns Feeds without any feed.
func New(cfg Config) *Feeds {
	if cfg.Polling == nil {
		cfg.Polling = func(int) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := &Feeds{cfg: cfg, feeds: map[string]*feed{}}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Close ends all feeds and waits for their watches.
func (f *Feeds) Close() {
	f.mu.Lock()
	f.end()
	f.mu.Unlock()
	f.watches.Wait()
}

// Poll returns what was removed in the namespace after the cursor of ask, and waits
// while there is nothing. The answer has a cursor also if ctx ends the wait.
func (f *Feeds) Poll(ctx context.Context, namespace string, ask wire.CanceledAsk) (answer wire.Canceled, err error) {
	feed, err := f.join(namespace)
	if err != nil {
		return answer, err
	}
	defer f.leave(namespace, feed)

	answer, changed, err := feed.read(ask.After)
	if err != nil || something(&answer) || ask.Wait <= 0 {
		return answer, err
	}
	f.cfg.Polling(1)
	defer f.cfg.Polling(-1)
	timer := f.cfg.Clock.NewTimer(ask.Wait)
	defer timer.Stop()
	for err == nil && !something(&answer) {
		select {
		case <-changed:
		case <-timer.C:
			return answer, nil
		case <-ctx.Done():
			return answer, ctx.Err()
		}
		answer, changed, err = feed.read(ask.After)
	}
	return answer, err
}

// something reports whether an answer has a report.
func something(a *wire.Canceled) bool { return a.Any || len(a.Canceled) > 0 }

// join returns the feed of a namespace for one caller more.
func (f *Feeds) join(namespace string) (*feed, error) {
	if f.cfg.Watcher == nil {
		return nil, duly.Errorf(duly.CodeUnsupported, "the engine of this server does not report removed jobs")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return nil, duly.ErrClosed
	}

	one := f.feeds[namespace]
	if one == nil {
		if len(f.feeds) >= mostFeeds && !f.makeRoomLocked() {
			return nil, wire.Own(&duly.Error{
				Code: duly.CodeUnavailable, RetryAfter: retryAfter,
				Message: fmt.Sprintf("this server reports the removed jobs of %d other namespaces, its bound; use another one", mostFeeds),
			})
		}
		one = f.beginLocked(namespace)
	}
	one.callers++
	if one.idle != nil {
		one.idle.Stop()
		one.idle = nil
	}
	return one, nil
}

// makeRoomLocked ends the feed that has been without a caller for longest.
func (f *Feeds) makeRoomLocked() bool {
	oldest := ""
	for namespace, one := range f.feeds {
		if one.callers == 0 && (oldest == "" || one.left < f.feeds[oldest].left) {
			oldest = namespace
		}
	}
	if oldest == "" {
		return false
	}
	f.endLocked(oldest, f.feeds[oldest], duly.ErrClosed)
	return true
}

func (f *Feeds) beginLocked(namespace string) *feed {
	ctx, stop := context.WithCancel(f.life)
	one := newFeed(stop)
	f.feeds[namespace] = one
	f.watches.Go(func() {
		err := f.watch(ctx, namespace, one)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endLocked(namespace, one, err)
	})
	return one
}

// watch fills a feed until the engine's watch ends.
func (f *Feeds) watch(ctx context.Context, namespace string, one *feed) (err error) {
	defer func() { // the process must outlive a fault of one call, as in a handler
		if p := recover(); p != nil {
			f.cfg.Log.Error("panic in a watch of removed jobs", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = duly.ErrInternal
		}
	}()
	err = f.cfg.Watcher.WatchCancels(ctx, namespace, duly.CancelWatch{Ready: one.gap, Canceled: one.add})
	if ctx.Err() != nil {
		err = duly.ErrClosed
	}
	return err
}

// endLocked ends a feed: the answer to its callers is err. The first end counts.
func (f *Feeds) endLocked(namespace string, one *feed, err error) {
	one.end(err)
	if one.idle != nil {
		one.idle.Stop()
	}
	if f.feeds[namespace] == one {
		delete(f.feeds, namespace)
	}
}

// leave ends the feed some time after its last caller has gone.
func (f *Feeds) leave(namespace string, one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.callers--
	if one.callers > 0 || f.feeds[namespace] != one {
		return
	}
	one.left = f.cfg.Clock.Mono()
	var timer clock.Timer
	timer = f.cfg.Clock.AfterFunc(linger, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if one.idle == timer && one.callers == 0 {
			f.endLocked(namespace, one, duly.ErrClosed)
		}
	})
	one.idle = timer
}
