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

// Engine is an engine in one file. It implements duly.Contract and everything
// that an engine which owns its storage may offer beside it: duly.Maintainer,
// duly.Registry, duly.Placer, duly.Surveyor, duly.Watcher, duly.Limiter,
// duly.CancelWatcher, duly.Backuper and duly.Topics. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	layout  layout
	lock    *os.File
	inbox   inbox
	hub     *hub
	readers readers
	w       *writer

	watchers watchers
	cancels  cancels.Hub
	spending spending

	consumers consumers

	closing atomic.Bool
	full    atomic.Bool // the disk is; new jobs are refused
	once    sync.Once
	stopped chan struct{} // closed when the writer has ended
	err     error         // of Close
}

// Close implements duly.Engine. What was submitted before is still done.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.closing.Store(true)
		e.inbox.close()
		<-e.stopped
		e.cancels.Close()
		e.hub.close()
		e.err = e.shut()
	})
	return e.err
}

// alive reports an ended context and a closed engine.
func (e *Engine) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// begin is when something begins that is observed; 0 where nobody observes.
func (e *Engine) begin() time.Duration {
	if e.cfg.Observe == nil {
		return 0
	}
	return clock.Monotonic()
}

// observe tells how long it took.
func (e *Engine) observe(call string, began time.Duration) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(call, clock.Monotonic()-began)
	}
}
