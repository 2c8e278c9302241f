package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// check looks through the copy as `duly check` does, in this version's layout, and
// leaves it as a backup is: without a log, and saying so. If a log of another file
// should ever appear beside it, Open refuses the two.
func (r *restore) check(ctx context.Context) error {
	copied := r.copy.Name()
	report, err := checkFile(ctx, copied, func(done, total int64) { r.p.Progress(RestoreCheck, done, total) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return r.ofBackup(err)
	case len(report.Faults) > 0:
		f := report.Faults[0]
		return duly.Errorf(duly.CodeCorrupt, "%s has faults (%d), the first is %s in queue %q (%s); nothing was restored: "+
			"mend a copy of it with check --repair, then restore that",
			r.p.From, len(report.Faults), f.Kind, f.Queue.Name, f.Detail)
	}

	r.done.Jobs = report.Jobs + report.Messages
	if err := voidReceipts(copied); err != nil {
		return r.ofBackup(storeError(copied, err))
	}
	if err := useNoLog(copied); err != nil {
		return r.ofBackup(storeError(copied, err))
	}
	info, err := os.Stat(copied)
	if err != nil {
		return err
	}
	r.done.Bytes = info.Size()
	return nil
}

// ofBackup turns an error of the copy into one of the backup.
func (r *restore) ofBackup(err error) error {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err
	}
	message := strings.ReplaceAll(e.Message, r.copy.Name(), r.p.From)
	switch {
	case e.Code == duly.CodeFull: // the backup's own disk may have room
		message = strings.ReplaceAll(e.Message, r.copy.Name(), r.path)
	case e.Code == duly.CodeCorrupt && !errors.Is(err, errForeign):
		message = fmt.Sprintf("%s is damaged; nothing was restored: take another backup", r.p.From)
	}
	return &duly.Error{Code: e.Code, Message: message, Cause: err}
}

// checkFile checks a file that nobody else has, after it has brought it to this
// version's layout.
func checkFile(ctx context.Context, path string, progress func(done, total int64)) (duly.CheckReport, error) {
	h, err := current.readHeader(path)
	if err == nil && h.missing {
		err = foreign(path, "it is empty")
	}
	if err == nil && h.version < current.version() {
		err = current.upgradeCopy(path, h.version)
	}
	if err != nil {
		return duly.CheckReport{}, storeError(path, err)
	}

	cfg := Config{Path: path, Logger: slog.New(slog.DiscardHandler), Manual: true, aside: true}.withDefaults()
	e, err := start(cfg, current)
	if err != nil {
		return duly.CheckReport{}, storeError(path, err)
	}
	go e.w.loop()
	report, err := e.Check(ctx, duly.CheckParams{Progress: progress})
	return report, storeError(path, errors.Join(err, e.Close()))
}

// upgradeCopy is upgrade for a copy: what it was made from is the copy to keep.
func (l layout) upgradeCopy(path string, version int) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(l.migrate(c, version), c.Close())
}

// voidReceipts gives the leased messages of groups other tokens. A receipt of before the
// restore may be one whose delivery has ended since the backup. The messages come back
// when their leases end.
func voidReceipts(path string) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(c.Exec(statements["void_receipts"]), c.Close())
}

// useNoLog takes the log away from a file that nobody else has.
func useNoLog(path string) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	mode, err := c.Query("PRAGMA journal_mode = DELETE")
	if err == nil && mode != "delete" {
		err = fmt.Errorf("sqliteengine: the copy keeps its log in mode %q", mode)
	}
	return errors.Join(err, c.Close())
}
