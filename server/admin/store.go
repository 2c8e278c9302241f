package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// progressEvery bounds how often a check tells how far it is.
const progressEvery = 200 * time.Millisecond

// check streams progress and then the report. The check runs beside the
// writing of it, so that a slow reader does not hold the store.
func (a *API) check(c *route.Call) error {
	repair, err := route.Read(c, wire.ReadCheck)
	if err != nil {
		return err
	}
	if a.Maintainer == nil {
		return unsupported("check")
	}
	ctx, release, err := c.Stay()
	if err != nil {
		return ended(err)
	}
	defer release()
	progress := make(chan wire.CheckLine, 1)
	end := make(chan wire.CheckLine, 1)
	go func() { end <- a.runCheck(ctx, repair, progress) }()
	w, err := c.Stream("application/x-ndjson")
	if err != nil {
		<-end // the context has ended
		return err
	}
	for {
		select {
		case line := <-progress:
			_, _ = w.Write(wire.AppendCheckLine(nil, line)) // the end is told by the context
		case line := <-end:
			_, err := w.Write(wire.AppendCheckLine(nil, line))
			return err
		}
	}
}

// runCheck never panics: it has a goroutine of its own.
func (a *API) runCheck(ctx context.Context, repair bool, progress chan<- wire.CheckLine) (last wire.CheckLine) {
	defer func() {
		if p := recover(); p != nil {
			last = wire.CheckLine{Err: duly.Errorf(duly.CodeInternal, "panic: %v", p)}
		}
	}()
	told := a.Clock.Mono() - progressEvery
	report, err := a.Maintainer.Check(ctx, duly.CheckParams{Repair: repair, Progress: func(done, total int64) {
		if now := a.Clock.Mono(); now-told >= progressEvery {
			told = now
			select {
			case progress <- wire.CheckLine{Done: done, Total: total}:
			default: // the reader is slow: it gets a later one
			}
		}
	}})
	switch {
	case ctx.Err() != nil:
		return wire.CheckLine{Err: ended(context.Cause(ctx))}
	case err != nil:
		return wire.CheckLine{Err: err}
	}
	return wire.CheckLine{Report: &report}
}

// backup streams a copy. One that fails on the way is cut off, so that nobody
// takes it for whole.
func (a *API) backup(c *route.Call) error {
	backuper, err := a.backuper(c.Query("pool"))
	if err != nil {
		return err
	}
	ctx, release, err := c.Stay()
	if err != nil {
		return ended(err)
	}
	defer release()
	out := &lateStream{call: c, name: "duly-backup.db"}
	err = backuper.Backup(ctx, out)
	if err != nil && out.w != nil {
		c.Log().Error("a backup ended early", "error", route.Fault(err))
		panic(http.ErrAbortHandler)
	}
	return err
}

// backuper is that of a pool, "" for the default one.
func (a *API) backuper(pool string) (duly.Backuper, error) {
	switch {
	case pool == "":
		pool = duly.DefaultPool
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
