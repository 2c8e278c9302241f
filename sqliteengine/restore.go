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
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/durable"
)

// A restore puts a backup in the place of a store. Each step leaves either the
// old store under its name, with its log, or the new one without any:
//
//  1. The backup is copied to PATH-restore-NUMBER.part and checked there.
//  2. The log of the old store, if it was not closed, is moved into its file. A
//     log that stayed would be read into the new file.
//  3. The old file gets a second name, PATH.before-restore-TIME.
//  4. The copy is synced and takes the place of the old file in one rename.
//
// Open removes what a process that was killed in between has left (dropLeftovers):
// the copy, and the second name of a file that still has its first.

const (
	// restoreMark stands in the name of a copy that is being restored.
	restoreMark = "-restore-"
	// keptMark stands in the name of a store that was replaced.
	keptMark = ".before-restore-"
	// keptTime is the form of the moment behind it, in UTC.
	keptTime = "20060102-150405"
)

// RestoreParams says what to restore. Path and From must be set.
type RestoreParams struct {
	// Path is the store to replace. If there is none, the restore makes it.
	Path string
	// From is the backup, a file.
	From string
	// Reader, if set, brings the backup, and From is only its name in errors.
	Reader io.Reader
	// DiscardOld drops the old store. Else it is kept, see [Restored].
	DiscardOld bool
	// Clock names the moment of the restore. Default: the system's.
	Clock clock.Clock
	// Progress, if set, is called now and then in both stages. The total is 0 if
	// it is not known.
	Progress func(stage RestoreStage, done, total int64)
}

// RestoreStage is a stage of a restore that may take long.
type RestoreStage string

// The stages, in their order.
const (
	RestoreCopy  RestoreStage = "copy"  // counted in bytes
	RestoreCheck RestoreStage = "check" // counted in jobs
)

// Restored is what a restore did.
type Restored struct {
	Path  string // of the store, with its symbolic links resolved
	Kept  string // the file of the old store; empty if there was none or it was discarded
	Bytes int64  // of the new file
	Jobs  int64  // in it, with the messages that groups hold and delayed ones
}

// Restore replaces the store at a path by a backup, after it has checked a copy
// of the backup as [Engine.Check] does. No process may have the store open: if
// one has, Restore returns [duly.ErrUnavailable]. A backup that is damaged, has
// faults or is no backup is [duly.ErrCorrupt], one of a newer version
// [duly.ErrUnsupported]. Whenever the process dies, the path names either the
// old store or the new one, each whole. After an error it names the old one.
func Restore(ctx context.Context, p RestoreParams) (Restored, error) {
	r, err := newRestore(p)
	if err != nil {
		return Restored{}, err
	}
	held, err := lock(r.path, "stop it, then restore")
	if err != nil {
		return Restored{}, err
	}
	defer unlock(held)
	r.lock = held

	if err := r.run(ctx); err != nil {
		return Restored{}, err
	}
	return r.done, nil
}

// restore is one Restore under way.
type restore struct {
	p    RestoreParams
	path string
	lock *os.File
	copy *os.File // of the backup
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
		if err := r.mustBeBackup(); err != nil {
			return nil, err
		}
	}

	path, err := settlePath(p.Path)
	if err == nil {
		err = mustBeFile(path)
	}
	r.path, r.done.Path = path, path
	return r, err
}

// mustBeBackup refuses a file that can't be copied alone: one that is no backup, or
// a store with a log.
func (r *restore) mustBeBackup() error {
	from := r.p.From
	info, err := os.Stat(from)
	if err != nil {
		return &duly.Error{Code: duly.CodeNotFound, Cause: err,
			Message: fmt.Sprintf("the backup %s can't be read: %s", from, plain(err))}
	}
	if store, err := os.Stat(r.p.Path); err == nil && os.SameFile(info, store) {
		return duly.Errorf(duly.CodeInvalid, "%s is the store itself; give the file of a backup", from)
	}
	if log, err := os.Stat(from + "-wal"); err == nil && log.Size() > 0 {
		return duly.Errorf(duly.CodeInvalid, "%s is a store that is open or was not closed, its last changes are in %s-wal; "+
			"make a backup of it first", from, from)
	}
	if owner := heldBy(from); owner != "" {
		return duly.Errorf(duly.CodeUnavailable, "%s is a store that is open in %s; make a backup of it first", from, owner)
	}

	h, err := current.readHeader(from)
	if err == nil && h.missing {
		err = foreign(from, "it is empty")
	}
	return err
}

// run does the steps. The lock of the store is held.
func (r *restore) run(ctx context.Context) error {
	if err := dropLeftovers(r.path); err != nil {
		return cannotWrite(r.path, err)
	}
	old, err := replaceable(r.path)
	if err != nil {
		return err
	}

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

	if old {
		if err := foldLog(r.path); err != nil {
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

// makeCopy makes the file of the copy, beside the store. Only the store's owner can
// read it.
func (r *restore) makeCopy(old bool) error {
	f, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+restoreMark+"*"+copyEnd)
	if err != nil {
		return cannotWrite(r.path, err)
	}
	r.copy = f

	owner := r.path
	if !old {
		owner = filepath.Dir(r.path)
	}
	if err := errors.Join(giveTo(owner, f), giveTo(owner, r.lock)); err != nil {
		return notDone(err, "%s belongs to another user, as whom this process can't make files; restore as that user", owner)
	}
	return nil
}

// copyBackup writes the backup into the copy.
func (r *restore) copyBackup(ctx context.Context) error {
	from, total := r.p.Reader, int64(0)
	if from == nil {
		f, err := os.Open(r.p.From)
		if err != nil {
			return notDone(err, "the backup %s can't be read", r.p.From)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			total = info.Size()
		}
		from = f
	}

	to := &progressWriter{w: r.copy, progress: func(n int64) { r.p.Progress(RestoreCopy, n, total) }}
	if _, err := io.Copy(to, contextReader{ctx, from}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return notDone(err, "%s can't be copied to the folder of %s", r.p.From, r.path)
	}
	return nil
}

// notDone is the error of a file operation that ends a restore.
func notDone(err error, format string, args ...any) error {
	e := &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf(format, args...) + ": " + plain(err) + "; nothing was restored"}
	if errors.Is(err, syscall.ENOSPC) {
		e.Code, e.Message = duly.CodeFull, e.Message+": free some room, then repeat"
	}
	return e
}

// progressWriter reports how much was written.
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

// place lets the copy take the name of the store.
func (r *restore) place() error {
	err := durable.Place(r.copy, r.path)
	if err == nil {
		r.copy = nil
		return nil
	}

	if !exists(r.copy.Name()) { // it was renamed, and the folder could not be synced
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s is restored, but its folder can't be synced (%s): after a power cut the old store may be back",
				r.path, plain(err))}
	}
	if r.done.Kept != "" {
		_ = os.Remove(r.done.Kept) // else Open does it
	}
	return notDone(err, "the backup can't take the place of %s", r.path)
}

// dropCopy removes the copy, unless it has become the store.
func (r *restore) dropCopy() {
	if r.copy == nil {
		return
	}
	r.copy.Close()
	for _, end := range asideEnds {
		_ = os.Remove(r.copy.Name() + end) // else Open does it
	}
}
