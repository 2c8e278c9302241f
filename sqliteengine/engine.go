package sqliteengine

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/clock"
)

// Engine is an engine that stores everything in one SQLite file. It implements
// contract.Engine and the optional interfaces of an engine that owns its storage:
// contract.Maintainer, contract.Registry, contract.Placer, contract.Surveyor, contract.Watcher,
// contract.Limiter, contract.CancelWatcher, contract.Backuper and contract.Topics. It is safe for
// concurrent use.
type Engine struct {
	cfg      Config
	layout   layout
	lock     *os.File
	inbox    inbox
	notifier *notifier
	readers  readers
	w        *writer

	tokenWatchers tokenWatchers
	cancels       cancels.Hub
	tokenUsage    tokenUsage

	consumers consumers

	closing  atomic.Bool
	diskFull atomic.Bool // the disk is full, so new jobs are refused
	once     sync.Once
	stopped  chan struct{} // closed when the writer has returned
	err      error         // of Close
}

// Close implements duly.Engine. Operations submitted before Close still run.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.closing.Store(true)
		e.inbox.close()
		<-e.stopped
		e.cancels.Close()
		e.notifier.close()
		e.err = e.closeStore()
	})
	return e.err
}

// checkOpen returns an error if ctx has ended or the engine is closed.
func (e *Engine) checkOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// observeStart returns the start time of an observed call, or 0 without an observer.
func (e *Engine) observeStart() time.Duration {
	if e.cfg.Observe == nil {
		return 0
	}
	return clock.Monotonic()
}

// observe reports the duration of a call to the observer.
func (e *Engine) observe(call string, began time.Duration) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(call, clock.Monotonic()-began)
	}
}
