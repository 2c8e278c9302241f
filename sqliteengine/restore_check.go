package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// check checks the copy like `duly check`, upgrades it to this layout and removes its WAL. So the
// copy is like a backup: Open refuses it next to the WAL of another file.
func (r *restore) check(ctx context.Context) error {
	copied := r.copy.Name()
	report, err := checkFile(ctx, copied, func(done, total int64) { r.p.Progress(RestoreCheck, done, total) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return r.backupError(err)
	case len(report.Faults) > 0:
		f := report.Faults[0]
		return contract.Errorf(duly.CodeCorrupt,
			"%s has faults (%d), the first is %s in queue %q (%s); nothing was restored: "+
				"repair a copy of it with check --repair and restore that",
			r.p.From, len(report.Faults), f.Kind, f.Queue.Name, f.Detail)
	}

	r.done.Jobs = report.Jobs + report.Messages
	if err := voidReceipts(copied); err != nil {
		return r.backupError(storeError(copied, err))
	}
	// Only the file itself is renamed, but the last changes are still in its WAL.
	if err := removeWAL(copied); err != nil {
		return r.backupError(storeError(copied, err))
	}
	// The size is final only after the WAL was moved into the file.
	info, err := os.Stat(copied)
	if err != nil {
		return err
	}
	r.done.Bytes = info.Size()
	return nil
}

// backupError converts an error about the copy to an error about the backup.
func (r *restore) backupError(err error) error {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err
	}
	message := strings.ReplaceAll(e.Message, r.copy.Name(), r.p.From)
	switch {
	case e.Code == duly.CodeFull: // the disk of the copy is full, and not that of the backup
		message = strings.ReplaceAll(e.Message, r.copy.Name(), r.path)
	case e.Code == duly.CodeCorrupt && !errors.Is(err, errForeign):
		message = fmt.Sprintf("%s is damaged; nothing was restored: take another backup", r.p.From)
	}
	return &duly.Error{Code: e.Code, Message: message, Cause: err}
}

// checkFile upgrades and checks a file that no other process has open.
func checkFile(ctx context.Context, path string, progress func(done, total int64)) (contract.CheckReport, error) {
	h, err := current.readHeader(path)
	if err == nil && h.missing {
		err = foreignFile(path, "it is empty")
	}
	if err == nil && h.version < current.version() {
		err = current.upgradeCopy(path, h.version)
	}
	if err != nil {
		return contract.CheckReport{}, storeError(path, err)
	}

	// With Manual, the copy stays like the backup, because no timer takes back a lease.
	cfg := Config{Path: path, Logger: slog.New(slog.DiscardHandler), Manual: true, isCopy: true}.withDefaults()
	e, err := newEngine(cfg, current)
	if err != nil {
		return contract.CheckReport{}, storeError(path, err)
	}
	go e.w.run()
	report, err := e.Check(ctx, contract.CheckParams{Progress: progress})
	return report, storeError(path, errors.Join(err, e.Close()))
}

// upgradeCopy migrates a copy. The backup remains as the file before the migration.
func (l layout) upgradeCopy(path string, version int) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(l.migrate(c, version), c.Close())
}

// voidReceipts gives the leased messages of groups new tokens, because a receipt from
// before the restore may belong to a delivery that has ended since the backup. The messages
// become available when their leases end.
func voidReceipts(path string) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(c.Exec(statements["void_receipts"]), c.Close())
}

// removeWAL removes the WAL of a file that no other process has open.
func removeWAL(path string) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	mode, err := c.Query("PRAGMA journal_mode = DELETE")
	if err == nil && mode != "delete" {
		err = fmt.Errorf("sqliteengine: the copy stays in journal mode %q", mode)
	}
	return errors.Join(err, c.Close())
}
