package sqliteengine

import (
	"errors"
	"fmt"
	"os"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// A full disk must not block the store permanently. An ack frees pages of the file, but it
// is itself a write: it needs space in the WAL, and the WAL needs space in the file at
// the next checkpoint. The ballast, a file that only occupies space, provides both.
//
//   - While the store accepts jobs, the ballast holds its base plus the bytes that the
//     WAL will add to the file. Cutting it thus always makes room for a checkpoint. If
//     the ballast can't grow, the transaction is rolled back as full.
//   - When the disk is full, the engine cuts the ballast, moves the whole WAL into the
//     file and truncates the WAL (freeSpace). The ballast then grows again. If it
//     reaches its base, the transaction is tried once more.
//   - Otherwise the store is short of space. It refuses operations that add to it and
//     runs all others. If a transaction still fails, it uses half of the ballast for
//     the WAL (borrow) and leaves the rest for the file.
//   - While the store is short of space, the engine moves the WAL after every few
//     transactions, returns freed pages to the disk, and grows the ballast (reclaim).
//     If the WAL has no space for that, it borrows from the ballast as well.
//     It accepts jobs again when the ballast is large enough.
//
// A killed process leaves the ballast as it is. The next one opens the store in the
// freed space and starts with reclaim.

// spaceClass is a class of disk space that an operation needs.
type spaceClass int

const (
	spaceNone  spaceClass = iota // the operation frees space, or changes rows in place
	spaceSome                    // the operation adds texts or rows to stored objects
	spaceLarge                   // the operation stores new jobs or bodies, and is refused on a full disk
)

const (
	// shortagePages is how long the WAL of a store short of space grows, in pages, before
	// a checkpoint: 512 KiB.
	shortagePages = 64
	// shortageSlice is the number of pages that a store short of space returns to the disk at a
	// time.
	shortageSlice = 16
	// briefBusyTimeout is how many milliseconds a checkpoint waits for readers before it
	// interrupts them.
	briefBusyTimeout = 200
)

// diskSpace tracks the disk space of the store.
type diskSpace struct {
	*storefile.Ballast
	file     string // path of the database file
	shortage bool   // whether the store refuses operations that need space
	covered  int64  // page count for which cover last succeeded
}

// errDiskFull wraps an error as SQLite's error of a full disk.
func errDiskFull(why error) error { return fmt.Errorf("%w: %w", sqliteconn.ErrFull, why) }

// errShortage returns the error of operations refused for lack of space.
func (r *diskSpace) errShortage() error {
	return contract.Errorf(duly.CodeFull,
		"the disk of %s is full; nothing was stored: let workers empty queues, purge, or free some space, then "+
			"repeat", r.file)
}

// admit refuses an operation that needs more space than the store has. Once half of the ballast is
// used, it refuses small additions too, so that deletions always have space left.
func (r *diskSpace) admit(n spaceClass) error {
	if r.shortage && (n == spaceLarge || n == spaceSome && r.Size() < r.Base()/2) {
		return r.errShortage()
	}
	return nil
}

// growth returns how many bytes the WAL will add to the file.
func (r *diskSpace) growth(pages int64) int64 {
	info, err := os.Stat(r.file)
	if err != nil {
		// The file was moved away. Its reads and writes fail with a better error than this function
		// could return.
		return 0
	}
	return max(0, pages*pageSize-info.Size())
}

// cover grows the ballast before a commit, so that a checkpoint after it has enough
// space.
func (r *diskSpace) cover(c *conn) error {
	s := c.stmt("page_count")
	if _, err := s.Step(); err != nil {
		return err
	}
	pages := s.ColInt(0)
	s.Reset()

	// Most commits add no page and need no look at the file system.
	if pages == r.covered {
		return nil
	}
	growth := r.growth(pages)
	switch {
	case r.shortage:
		if growth > r.Size() {
			return errDiskFull(r.errShortage())
		}
	case r.Size() < r.Base()+growth:
		// The ballast grows in large steps, because cover runs on every push.
		if err := r.Grow(r.Base() + growth + r.Base()/2); err != nil && r.Size() < r.Base()+growth {
			return errDiskFull(err)
		}
	}
	r.covered = pages
	return nil
}

// borrow frees half of the ballast for the WAL.
func (r *diskSpace) borrow() error {
	// The ballast shrinks below, so the next commit must compare it with the WAL again.
	r.shortage, r.covered = true, 0
	return r.Cut(r.Size() / 2)
}

// isFull reports whether a transaction failed because the disk is full.
func (w *writer) isFull(err error) bool {
	return sqliteconn.IsFull(err) && w.failure == nil && !w.mustReopen(err)
}

// attempt runs operations in one transaction. On a full disk it frees space and tries
// again.
func (w *writer) attempt(ops []*op) error {
	// The disk may have space again. Without it these operations would be refused.
	if w.space.shortage && anyAtLeast(ops, spaceSome) {
		w.reclaim()
	}
	err := w.runTx(ops)
	if !w.isFull(err) {
		return err
	}

	if err := w.freeSpace(); err != nil {
		return err
	}
	if err = w.runTx(ops); !w.isFull(err) {
		return err
	}

	// Operations that free space may use half of the ballast. All other operations fail.
	if !anyBelow(ops, spaceLarge) {
		w.enterShortage(err)
		return err
	}
	if err := w.space.borrow(); err != nil {
		return errDiskFull(err)
	}
	w.enterShortage(err)
	return w.runTx(ops)
}

func anyAtLeast(ops []*op, n spaceClass) bool {
	for _, o := range ops {
		if o.space >= n {
			return true
		}
	}
	return false
}

func anyBelow(ops []*op, n spaceClass) bool {
	for _, o := range ops {
		if o.space < n {
			return true
		}
	}
	return false
}

// sizeBallast grows the ballast of a newly opened store to its size.
func (w *writer) sizeBallast() {
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		w.warnOnce(err)
		return
	}

	r := &w.space
	r.shortage, r.covered = false, 0
	if err := r.Grow(r.Base() + r.growth(pages)); err != nil {
		if err := w.freeSpace(); err != nil {
			w.warnOnce(err)
		}
	}
	w.e.diskFull.Store(r.shortage)
}

// trimBallast cuts a ballast that grew large while a reader kept the WAL for long.
func (r *diskSpace) trimBallast() error {
	// The wide margin keeps the ballast from growing and shrinking all the time.
	if r.Size() <= 3*r.Base() {
		return nil
	}
	r.covered = 0
	return r.Cut(r.Base())
}

// freeSpace moves the whole WAL into the file, using the space of the ballast, and
// truncates the WAL.
func (w *writer) freeSpace() error {
	// Passes on another connection would make this checkpoint fail as busy.
	w.checkpoints.stop()
	err := w.moveWAL(func() error {
		err := w.truncateWAL()
		if !sqliteconn.IsBusy(err) {
			return err
		}
		// Running readers keep the WAL from shrinking, and new readers would let it grow.
		w.e.readers.pause()
		defer w.e.readers.resume()
		return w.truncateWAL()
	})
	// Only an I/O error leaves the state of the disk unknown. After other errors the caller tries
	// again.
	if sqliteconn.IsIO(err) {
		return err
	}
	if err != nil {
		w.warnOnce(err)
	}

	if w.space.Size() < w.space.Base() {
		w.enterShortage(err)
	}
	return nil
}

// truncateWAL moves the WAL into the file and truncates it. It waits only briefly for
// readers.
func (w *writer) truncateWAL() error {
	if err := w.c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", briefBusyTimeout)); err != nil {
		return err
	}
	err := emptyWAL(w.c)
	return errors.Join(err, w.c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)))
}

// moveWAL frees as much of the ballast as the WAL will add to the file, runs a
// checkpoint, and grows the ballast with the remaining space.
func (w *writer) moveWAL(checkpoint func() error) error {
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		return err
	}
	r := &w.space
	if err := r.Cut(r.Size() - r.growth(pages) - storefile.BallastGrain); err != nil {
		return errDiskFull(err)
	}

	err = checkpoint()
	// Another process took the freed space, so all of the ballast must be given up.
	if sqliteconn.IsFull(err) && r.Size() > 0 {
		if cut := r.Cut(0); cut == nil {
			err = checkpoint()
		}
	}
	if err == nil {
		w.walPages, w.mayShrink = 0, true
	}
	// The ballast grows even after an error, because other processes must not take the freed space.
	w.refillBallast()
	return err
}

// refillBallast grows the ballast to its base. A store short of space accepts jobs again only when
// the ballast is a quarter larger, so that there is space for the jobs.
func (w *writer) refillBallast() {
	r, want := &w.space, w.space.Base()
	if r.shortage {
		want += want / 4
	}

	r.covered = 0
	if r.Grow(want) != nil || !r.shortage {
		return
	}
	// The additional quarter has only shown that the disk has space.
	if err := r.Cut(r.Base()); err != nil {
		w.warnOnce(err)
	}
	r.shortage = false
	w.e.diskFull.Store(false)
	w.log.Info("the disk has space again; new jobs are accepted", "path", w.e.cfg.Path)
}

// enterShortage makes the store refuse operations that need space.
func (w *writer) enterShortage(why error) {
	w.space.shortage = true
	if !w.e.diskFull.Swap(true) {
		w.log.Warn("the disk is full; new jobs are refused until it has space, other operations continue",
			"path", w.e.cfg.Path, "ballast", w.space.Size(), "of", w.space.Base(), "error", why)
	}
}

// reclaim frees disk space while the store is short of it. It reports whether another
// call may free more.
func (w *writer) reclaim() (again bool) {
	if !w.space.shortage || w.c == nil {
		return false
	}
	if w.refillBallast(); !w.space.shortage {
		return false
	}

	given, err := w.releasePages()
	// The release is a write too, and the ballast may have taken the space that its WAL needs.
	if sqliteconn.IsFull(err) {
		if err = w.space.borrow(); err == nil {
			given, err = w.releasePages()
		}
	}
	// The freed pages return to the disk only with the checkpoint.
	if err == nil && (given || w.walPages >= shortagePages) {
		w.checkpoints.stop()
		err = w.moveWAL(func() error {
			// A passive checkpoint never waits for readers. The store serves calls in between.
			log, moved, err := w.c.Checkpoint(sqliteconn.Passive)
			if err == nil && log != moved {
				err = errNotMoved
			}
			return err
		})
	}
	switch {
	case errors.Is(err, errNotMoved):
		w.walPages = shortagePages / 2 // a reader needs the WAL, so the next try comes after half a WAL
	case err != nil:
		w.backgroundError(err)
	}
	return given && err == nil && w.space.shortage
}

var errNotMoved = errors.New("sqliteengine: a reader needs the WAL")

// releasePages returns some free pages of the file to the file system.
func (w *writer) releasePages() (given bool, err error) {
	free, err := w.pragma("PRAGMA freelist_count")
	if err != nil || free == 0 {
		return false, err
	}
	err = w.vacuumSlice("vacuum_shortage")
	return err == nil, err
}
