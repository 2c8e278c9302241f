package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// A restore replaces a store by a backup. After each step the store's path names either the
// old store with its WAL, or the new one without a WAL:
//
//  1. It copies the backup to PATH-restore-NUMBER.part and checks the copy.
//  2. If the old store was not closed, it moves the store's WAL into the file. Otherwise
//     SQLite would read that WAL into the new file.
//  3. It gives the old file a second name, PATH.before-restore-TIME.
//  4. It syncs the copy and renames it to the store's path.
//
// After a kill, Open removes what is left over (dropLeftovers): the copy, and the second
// name of a file that still has its first.

const (
	// restoreMark is part of the name of a copy.
	restoreMark = "-restore-"
	// keptMark is part of the name of a replaced store.
	keptMark = ".before-restore-"
	// keptTime is the format of the time in the name of a kept store, in UTC.
	keptTime = "20060102-150405"
)

// RestoreParams configures a restore. Path and From are required.
type RestoreParams struct {
	// Path is the store to replace. A missing store is created.
	Path string
	// From is the backup file.
	From string
	// Reader, if set, provides the backup. In that case From is only the backup's name in errors.
	Reader io.Reader
	// DiscardOld deletes the old store instead of keeping it; see [Restored].
	DiscardOld bool
	// Clock is the clock that names the kept store. Default: the system clock.
	Clock duly.Clock
	// Progress, if set, is called from time to time in each stage. total is 0 if it is unknown.
	Progress func(stage RestoreStage, done, total int64)
}

// RestoreStage is a stage of a restore.
type RestoreStage string

// The stages of a restore, in their order.
const (
	RestoreCopy  RestoreStage = "copy"  // done and total are bytes
	RestoreCheck RestoreStage = "check" // done and total are jobs
)

// Restored is the result of a restore.
type Restored struct {
	Path  string // path of the store, with symbolic links resolved
	Kept  string // path of the old store; empty if there was none or it was discarded
	Bytes int64  // size of the new file
	Jobs  int64  // number of jobs, including delayed messages and messages held by groups
}

// Restore replaces the store at a path by a backup. It first checks a copy of the backup like
// [Engine.Check]. It returns [duly.ErrUnavailable] if a process has the store open,
// [duly.ErrCorrupt] for a backup that is damaged, has faults or is not a backup, and
// [duly.ErrUnsupported] for one of a newer version. If the process dies, the path names either the
// old or the new store, each complete. After an error it names the old store.
func Restore(ctx context.Context, p RestoreParams) (Restored, error) {
	r, err := newRestore(p)
	if err != nil {
		return Restored{}, err
	}
	// No process may open the store before the path names one complete store.
	held, err := storefile.Lock(r.path, "stop it, then restore")
	if err != nil {
		return Restored{}, err
	}
	defer storefile.Unlock(held)
	r.lock = held

	if err := r.run(ctx); err != nil {
		return Restored{}, err
	}
	return r.done, nil
}

// restore is one Restore call.
type restore struct {
	p    RestoreParams
	path string
	lock *os.File
	copy *os.File // the file of the copy
	done Restored
}

func newRestore(p RestoreParams) (*restore, error) {
	if err := (Config{Path: p.Path}).validate(); err != nil {
		return nil, err
	}
	if p.Clock == nil {
		p.Clock = clock.System()
	}
	if p.Progress == nil {
		p.Progress = func(RestoreStage, int64, int64) {}
	}
	r := &restore{p: p}
	if p.Reader == nil {
		if err := r.checkIsBackup(); err != nil {
			return nil, err
		}
	}

	// A rename to a symbolic link would replace the link, so the link is resolved first.
	path, err := resolvePath(p.Path)
	if err == nil {
		err = checkRegular(path)
	}
	r.path, r.done.Path = path, path
	return r, err
}

// checkIsBackup returns an error for a file that can't be copied alone: a file that is no backup,
// or a store with a WAL.
func (r *restore) checkIsBackup() error {
	from := r.p.From
	info, err := os.Stat(from)
	if err != nil {
		return &duly.Error{Code: duly.CodeNotFound, Cause: err,
			Message: fmt.Sprintf("the backup %s can't be read: %s", from, storefile.Reason(err))}
	}
	// If the copy of a store onto itself failed, the store would be lost.
	if store, err := os.Stat(r.p.Path); err == nil && os.SameFile(info, store) {
		return contract.Errorf(duly.CodeInvalid, "%s is the store itself; give the file of a backup", from)
	}
	// A copy of the file alone would lack the changes in its WAL.
	if log, err := os.Stat(from + "-wal"); err == nil && log.Size() > 0 {
		return contract.Errorf(duly.CodeInvalid,
			"%s is a store that is open or was not closed, its last changes are in %s-wal; "+
				"make a backup of it first", from, from)
	}
	// An open store may change during the copy, even if its WAL is empty.
	if owner := storefile.Holder(from); owner != "" {
		return contract.Errorf(duly.CodeUnavailable, "%s is a store that is open in %s; make a backup of it first",
			from, owner)
	}

	h, err := current.readHeader(from)
	if err == nil && h.missing {
		err = foreignFile(from, "it is empty")
	}
	return err
}

// run runs the steps. The caller holds the lock of the store.
func (r *restore) run(ctx context.Context) error {
	if err := dropLeftovers(r.path); err != nil {
		return storefile.NotWritable(r.path, err)
	}
	// A file of another program is refused before the copy, because the copy may take long.
	old, err := hasReplaceable(r.path)
	if err != nil {
		return err
	}

	// makeCopy may fail after it has created the file, so dropCopy is always called.
	defer r.dropCopy()
	if err := r.makeCopy(old); err != nil {
		return err
	}
	if err := r.copyBackup(ctx); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}

	// The old store changes only now, after the copy has passed its check.
	if old {
		if err := foldWAL(r.path); err != nil {
			return err
		}
		if !r.p.DiscardOld {
			if err := r.keepOld(); err != nil {
				return err
			}
		}
	}
	return r.place()
}

// makeCopy creates the file of the copy next to the store, readable only by the store's
// owner.
func (r *restore) makeCopy(old bool) error {
	// Only a file in the same folder can be renamed to the path in one step.
	f, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+restoreMark+"*"+copySuffix)
	if err != nil {
		return storefile.NotWritable(r.path, err)
	}
	r.copy = f

	owner := r.path
	if !old {
		owner = filepath.Dir(r.path)
	}
	// Root may have created the lock file as well, and the store's user must be able to open it.
	if err := errors.Join(storefile.GiveTo(owner, f), storefile.GiveTo(owner, r.lock)); err != nil {
		return restoreError(err,
			"%s belongs to another user, as whom this process can't make files; restore as that user", owner)
	}
	return nil
}

// copyBackup copies the backup.
func (r *restore) copyBackup(ctx context.Context) error {
	from, total := r.p.Reader, int64(0)
	if from == nil {
		f, err := os.Open(r.p.From)
		if err != nil {
			return restoreError(err, "the backup %s can't be read", r.p.From)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			total = info.Size()
		}
		from = f
	}

	to := &progressWriter{w: r.copy, progress: func(n int64) { r.p.Progress(RestoreCopy, n, total) }}
	if _, err := io.Copy(to, contextReader{ctx, from}); err != nil {
		// The cancellation is the cause of the failed read, so it is returned.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return restoreError(err, "%s can't be copied to the folder of %s", r.p.From, r.path)
	}
	return nil
}

// restoreError returns the error of a file operation that ends a restore.
func restoreError(err error, format string, args ...any) error {
	e := &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf(format, args...) + ": " + storefile.Reason(err) + "; nothing was restored"}
	if errors.Is(err, syscall.ENOSPC) {
		e.Code, e.Message = duly.CodeFull, e.Message+": free some space and repeat"
	}
	return e
}

// progressWriter reports the number of bytes written.
type progressWriter struct {
	w        io.Writer
	n        int64
	progress func(n int64)
}

// Write implements io.Writer.
func (w *progressWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.n += int64(n)
	w.progress(w.n)
	return n, err
}

// place renames the checked copy to the store's path.
func (r *restore) place() error {
	err := durable.Place(r.copy, r.path)
	if err == nil {
		// The file is the store now, so dropCopy must not remove it.
		r.copy = nil
		return nil
	}

	// The rename succeeded and the sync of the folder failed.
	if !exists(r.copy.Name()) {
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s is restored, but its folder can't be synced (%s): after a power cut the old "+
				"store may be back",
				r.path, storefile.Reason(err))}
	}
	// The old store still has its path, so it needs no second name.
	if r.done.Kept != "" {
		_ = os.Remove(r.done.Kept) // if this fails, Open removes it
	}
	return restoreError(err, "the backup can't take the place of %s", r.path)
}

// dropCopy removes the copy unless it has become the store.
func (r *restore) dropCopy() {
	if r.copy == nil {
		return
	}
	r.copy.Close()
	for _, end := range copySuffixes {
		_ = os.Remove(r.copy.Name() + end) // if this fails, Open removes it
	}
}
