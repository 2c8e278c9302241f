package cancelfeed

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

const (
	// maxFeeds is the largest number of feeds, and so of polled namespaces. A feed may need a
	// connection of the engine to its store, and uses up to maxBytes.
	maxFeeds = 1000
	// linger is how long a feed stays open without a caller. It is longer than a poll
	// of duly's own client, because a load balancer may send the polls to several
	// servers.
	linger = 5 * time.Minute
	// retryAfter is when a caller that got no feed should retry.
	retryAfter = 10 * time.Second
)

// Config configures Feeds. Clock must be set.
type Config struct {
	// Watcher reports removed jobs. Nil: Poll returns [duly.ErrUnsupported].
	Watcher contract.CancelWatcher
	// Clock measures waits, and how long a feed stays without a caller.
	Clock duly.Clock
	// Polling, if set, is called with 1 when a caller starts to wait, and with -1 when
	// it stops.
	Polling func(n int)
	// Log, if set, gets the stack of a watch that panics.
	Log *slog.Logger
}

// Feeds holds the feeds of a server. It is safe for concurrent use.
type Feeds struct {
	cfg     Config
	ctx     context.Context
	cancel  context.CancelFunc
	watches sync.WaitGroup

	mu    sync.Mutex
	feeds map[string]*feed // feeds by namespace
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
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close closes all feeds and waits until their watches have ended.
func (f *Feeds) Close() {
	// Under the lock, no caller can open a feed after the end of the context.
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.watches.Wait()
}

// Query asks for the reports after a cursor.
type Query struct {
	// After is the cursor of the last answer, or "" if the caller has none.
	After string
	// Wait bounds the wait for a first report.
	Wait time.Duration
}

// Reports are the jobs that were removed after a cursor.
type Reports struct {
	Canceled []contract.Canceled
	// Any is set if reports were lost: any leased job of the namespace may be gone.
	Any bool
	// Cursor is where to continue.
	Cursor string
}

// Poll returns the reports of the namespace after the cursor of a query, and waits while there are
// none. The answer has a cursor even if ctx ends the wait.
func (f *Feeds) Poll(ctx context.Context, namespace string, ask Query) (answer Reports, err error) {
	feed, err := f.acquire(namespace)
	if err != nil {
		return answer, err
	}
	// A caller keeps its feed open, so no report is lost between two reads.
	defer f.release(namespace, feed)

	answer, changed, err := feed.read(ask.After)
	if err != nil || hasReports(&answer) || ask.Wait <= 0 {
		return answer, err
	}

	f.cfg.Polling(1)
	defer f.cfg.Polling(-1)
	timer := f.cfg.Clock.NewTimer(ask.Wait)
	defer timer.Stop()

	for err == nil && !hasReports(&answer) {
		select {
		case <-changed:
		case <-timer.C:
			return answer, nil
		case <-ctx.Done():
			return answer, ctx.Err()
		}
		// The cursor stays: the answer has all reports since the request.
		answer, changed, err = feed.read(ask.After)
	}
	return answer, err
}

// hasReports reports whether an answer has a report.
func hasReports(a *Reports) bool { return a.Any || len(a.Canceled) > 0 }

// acquire returns the feed of a namespace for one more caller.
func (f *Feeds) acquire(namespace string) (*feed, error) {
	if f.cfg.Watcher == nil {
		return nil, contract.Errorf(duly.CodeUnsupported, "the engine of this server does not report removed jobs")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return nil, duly.ErrClosed
	}

	one := f.feeds[namespace]
	if one == nil {
		// A feed without callers only saves work, so it may be closed.
		if len(f.feeds) >= maxFeeds && !f.evictLocked() {
			return nil, wire.Own(&duly.Error{
				Code: duly.CodeUnavailable, RetryAfter: retryAfter,
				Message: fmt.Sprintf(
					"this server reports removed jobs of %d other namespaces, its maximum; use another server", maxFeeds),
			})
		}
		one = f.openLocked(namespace)
	}

	one.callers++
	if one.idleTimer != nil {
		one.idleTimer.Stop()
		one.idleTimer = nil
	}
	return one, nil
}

// evictLocked closes the feed that has been without callers for longest. It reports whether there
// was such a feed.
func (f *Feeds) evictLocked() bool {
	oldest := ""
	for namespace, one := range f.feeds {
		// A feed with callers must stay, because they would lose reports.
		if one.callers == 0 && (oldest == "" || one.idleSince < f.feeds[oldest].idleSince) {
			oldest = namespace
		}
	}
	if oldest == "" {
		return false
	}
	f.closeLocked(oldest, f.feeds[oldest], duly.ErrClosed)
	return true
}

func (f *Feeds) openLocked(namespace string) *feed {
	ctx, stop := context.WithCancel(f.ctx)
	one := newFeed(stop)
	f.feeds[namespace] = one
	f.watches.Go(func() {
		err := f.watch(ctx, namespace, one)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closeLocked(namespace, one, err)
	})
	return one
}

// watch adds the engine's reports to a feed until the engine's watch ends.
func (f *Feeds) watch(ctx context.Context, namespace string, one *feed) (err error) {
	// As in an HTTP handler, a panic must not end the process.
	defer func() {
		if p := recover(); p != nil {
			f.cfg.Log.Error("panic in the engine's watch of removed jobs", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = duly.ErrInternal
		}
	}()
	err = f.cfg.Watcher.WatchCancels(ctx, namespace, contract.CancelWatch{Ready: one.gap, Canceled: one.add})
	// The feed was closed by this package, so the engine's error is only a consequence.
	if ctx.Err() != nil {
		err = duly.ErrClosed
	}
	return err
}

// closeLocked closes a feed. Its callers get err. The first call counts.
func (f *Feeds) closeLocked(namespace string, one *feed, err error) {
	one.close(err)
	if one.idleTimer != nil {
		one.idleTimer.Stop()
	}
	// Another feed may have replaced this one.
	if f.feeds[namespace] == one {
		delete(f.feeds, namespace)
	}
}

// release gives a feed back. A feed without callers closes after linger.
func (f *Feeds) release(namespace string, one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.callers--
	if one.callers > 0 || f.feeds[namespace] != one {
		return
	}

	one.idleSince = f.cfg.Clock.Mono()
	var timer duly.Timer
	timer = f.cfg.Clock.AfterFunc(linger, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		// A caller may have come while the timer fired.
		if one.idleTimer == timer && one.callers == 0 {
			f.closeLocked(namespace, one, duly.ErrClosed)
		}
	})
	one.idleTimer = timer
}
