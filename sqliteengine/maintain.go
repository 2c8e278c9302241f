package sqliteengine

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// Step implements contract.Maintainer.
func (e maintainerAPI) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	if err := contract.ValidateQueue(ref); err != nil {
		return false, err
	}
	ticks := false
	err = e.write(ctx, &op{Call: items(stepBound), run: func(t *tx) error {
		more, ticks = false, false
		q := t.queue(ref.Normal())
		if q == nil {
			return nil
		}
		var err error
		more, err = q.step(t)
		ticks = q.earliest.tick <= t.now
		return err
	}})
	if err != nil || !ticks {
		return more, err
	}

	_, moreTicks, err := e.fireRound(ctx, ref.Normal())
	return more || moreTicks, err
}

// Sweep implements contract.Maintainer. It compares times in memory and runs a transaction
// only for queues that have overdue work.
func (e maintainerAPI) Sweep(ctx context.Context) error {
	refs, err := e.overdue(ctx)
	for _, ref := range refs {
		for more := true; more && err == nil; {
			more, err = e.Step(ctx, ref)
		}
	}
	return err
}

// overdue returns the queues that may have overdue work.
func (e maintainerAPI) overdue(ctx context.Context) (refs []duly.QueueRef, err error) {
	err = e.change(ctx, func(t *tx) error {
		refs = refs[:0]
		for ref, q := range t.w.queues {
			if q.overdue(t.now) || q.log != nil && q.asTopic().logOverdue(t) {
				refs = append(refs, ref)
			}
		}
		return nil
	})
	return refs, err
}

// Check implements contract.Maintainer. It reads one snapshot while other calls continue. With repair,
// it then repairs each fault in a separate transaction, which first verifies that the fault still
// exists.
func (e maintainerAPI) Check(ctx context.Context, p contract.CheckParams) (contract.CheckReport, error) {
	c := &check{e: e.store, p: p}
	if err := e.read(ctx, func(r *conn) error { return c.run(ctx, r) }); err != nil {
		return contract.CheckReport{}, err
	}
	if err := c.earliestTimes(ctx); err != nil {
		return contract.CheckReport{}, err
	}
	if p.Repair {
		if err := c.repair(ctx); err != nil {
			return c.result, err
		}
	}
	return c.result, nil
}

// Backup implements contract.Backuper. It copies the file as of one commit into a file next to it
// and then writes that copy to w. So a slow receiver does not delay checkpoints.
func (e maintainerAPI) Backup(ctx context.Context, w io.Writer) error {
	made, err := os.CreateTemp(filepath.Dir(e.cfg.Path), filepath.Base(e.cfg.Path)+copyMark+"*"+copySuffix)
	if err != nil {
		return storefile.NotWritable(e.cfg.Path, err)
	}
	defer os.Remove(made.Name())
	defer made.Close()

	// VACUUM begins a transaction itself and does not allow an outer one.
	err = e.onReader(ctx, func(ctx context.Context, c *conn) error {
		if err := e.readers.gate.enter(ctx); err != nil {
			return err
		}
		defer e.readers.gate.leave()
		_, err := c.stmt("backup").Text(1, made.Name()).Run()
		return err
	})
	if err != nil {
		return err
	}

	return copyOut(ctx, w, made)
}
