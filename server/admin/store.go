package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// progressEvery is the minimum time between two lines of progress.
const progressEvery = 200 * time.Millisecond

// check streams the progress and then the report. The check runs in a separate goroutine, so a slow
// reader does not slow it down.
func (a *API) check(c *route.Call) error {
	repair, err := route.Read(c, wire.ReadCheck)
	if err != nil {
		return err
	}
	if a.Maintainer == nil {
		return unsupported("check")
	}
	ctx, release, err := c.LongContext()
	if err != nil {
		return ended(err)
	}
	defer release()

	// At most one line of progress waits for a slow reader.
	progress := make(chan wire.CheckLine, 1)
	end := make(chan wire.CheckLine, 1)
	go func() { end <- a.runCheck(ctx, repair, progress) }()
	w, err := c.Stream("application/x-ndjson")
	if err != nil {
		<-end // the context has ended, so the check ends soon
		return err
	}

	for {
		select {
		case line := <-progress:
			// After an error the context ends.
			_, _ = w.Write(wire.AppendCheckLine(nil, line))
		case line := <-end:
			_, err := w.Write(wire.AppendCheckLine(nil, line))
			return err
		}
	}
}

// runCheck returns the last line of a check. It runs in its own goroutine, so it turns
// a panic into an error.
func (a *API) runCheck(ctx context.Context, repair bool, progress chan<- wire.CheckLine) (line wire.CheckLine) {
	defer func() {
		if p := recover(); p != nil {
			line = wire.CheckLine{Err: contract.Errorf(duly.CodeInternal, "panic: %v", p)}
		}
	}()

	// The first progress is reported at once.
	last := a.Clock.Mono() - progressEvery
	report, err := a.Maintainer.Check(ctx, contract.CheckParams{Repair: repair, Progress: func(done, total int64) {
		if now := a.Clock.Mono(); now-last >= progressEvery {
			last = now
			select {
			case progress <- wire.CheckLine{Done: done, Total: total}:
			default: // a slow reader misses this line and gets a later one
			}
		}
	}})
	switch {
	// The cause is better than the engine's error: the token has ended, or the caller left.
	case ctx.Err() != nil:
		return wire.CheckLine{Err: ended(context.Cause(ctx))}
	case err != nil:
		return wire.CheckLine{Err: err}
	}
	return wire.CheckLine{Report: &report}
}

// backup streams a copy of the store. If the backup fails after its first byte, the
// connection is aborted, so the reader notices that the copy is incomplete.
func (a *API) backup(c *route.Call) error {
	backuper, err := a.backuper(c.Query("pool"))
	if err != nil {
		return err
	}
	ctx, release, err := c.LongContext()
	if err != nil {
		return ended(err)
	}
	defer release()

	out := &lateStream{call: c, name: "duly-backup.db"}
	err = backuper.Backup(ctx, out)
	if err != nil && out.w != nil {
		c.Log().Error("a backup failed after the answer had begun; the caller gets an incomplete file", "error", route.Fault(err))
		// The status is already sent, so only an aborted connection shows the failure.
		panic(http.ErrAbortHandler)
	}
	return err
}

// backuper returns the backuper of a pool. The name "" means the default pool.
func (a *API) backuper(pool string) (contract.Backuper, error) {
	switch {
	case pool == "":
		pool = contract.DefaultPool
	// Without pools, only the pool default exists.
	case !a.Pools.Has(pool):
		return nil, a.Pools.ErrNoPool(pool)
	}
	if a.Pools != nil {
		return a.Pools.Backuper(pool)
	}
	if a.Backuper == nil {
		return nil, unsupported("backup")
	}
	return a.Backuper, nil
}
