package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// A disk that the store has filled must not become a dead end. An ack frees
// pages of the file, but it is a write too: it needs room in the log, and the
// log needs room in the file when it is moved there. The ballast provides both.
//
//   - While jobs are accepted, the ballast holds its base plus as much as the log
//     will add to the file. So cutting it always makes room for a checkpoint. A
//     transaction for which the ballast can't grow is rolled back as full.
//   - When the disk is full, the ballast is cut, all of the log is moved into
//     the file, and the log is cut to nothing (makeRoom). The ballast then grows
//     again. If it reaches its base, the transaction is tried once more.
//   - Otherwise the store is short of room. It refuses what adds to it and does
//     everything else. If a transaction still fails, it borrows half of the
//     ballast for the log (lend) and leaves the rest for the file.
//   - While the store is short of room, the log is moved after every few
//     transactions, freed pages are given back to the disk, and the ballast
//     takes the room (regain). Jobs are accepted again when it is large enough.
//
// A killed process leaves the ballast as it is, cut or not. The next one
// opens the store in what was freed and starts with regain.

// needs is how much room an operation takes on the disk.
type needs int

const (
	needsNothing needs = iota // it frees room, or changes rows in their place
	needsLittle               // it adds texts or rows to what is stored
	needsRoom                 // it stores new jobs or bodies: refused on a full disk
)

const (
	// shortLog is how many pages the log of a store short of room holds before
	// they are moved into the file: 512 KiB.
	shortLog = 64
	// shortSlice is how many pages such a store gives back at a time.
	shortSlice = 16
	// briefly is how long a checkpoint waits for readers before it ends them.
	briefly = 200
)

// room is what the writer knows of the space on the disk.
type room struct {
	*ballast
	file    string // the database
	short   bool   // the store refuses what needs room
	covered int64  // for so many pages of the file the ballast was large enough
}

// errNoRoom is an error as SQLite's own of a full disk.
func errNoRoom(why error) error { return fmt.Errorf("%w: %w", sq.ErrFull, why) }

// errShort refuses an operation while the store is short of room.
func (r *room) errShort() error {
	return duly.Errorf(duly.CodeFull, "no room on the disk of %s; nothing was stored: let workers empty queues, purge, or free some, then repeat", r.file)
}

// admit refuses an operation that needs more room than there is. Once half of
// the ballast is used, what adds a little is refused too, so that removals
// always have some left.
func (r *room) admit(n needs) error {
	if r.short && (n == needsRoom || n == needsLittle && r.size < r.base/2) {
		return r.errShort()
	}
	return nil
}

// growth returns how many bytes the log will add to the file.
func (r *room) growth(pages int64) int64 {
	info, err := os.Stat(r.file)
	if err != nil {
		return 0 // it was moved away; what reads or writes it fails by itself
	}
	return max(0, pages*pageSize-info.Size())
}

// cover makes sure, before a commit, that the log can be moved into the file
// after it.
func (r *room) cover(c *conn) error {
	s := c.stmt("page_count")
	if _, err := s.Step(); err != nil {
		return err
	}
	pages := s.ColInt(0)
	s.Reset()

	if pages == r.covered {
		return nil
	}
	growth := r.growth(pages)
	switch {
	case r.short:
		if growth > r.size {
			return errNoRoom(r.errShort())
		}
	case r.size < r.base+growth:
		// In large steps, because this is on the way of every push.
		if err := r.grow(r.base + growth + r.base/2); err != nil && r.size < r.base+growth {
			return errNoRoom(err)
		}
	}
	r.covered = pages
	return nil
}

// lend frees half of the ballast for the log.
func (r *room) lend() error {
	r.short, r.covered = true, 0
	return r.cut(r.size / 2)
}

// isFull reports whether there was no room on the disk.
func (w *writer) isFull(err error) bool {
	return sq.IsFull(err) && w.failure == nil && !w.mustReopen(err)
}

// attempt runs operations in one transaction. On a full disk it makes room and
// tries again.
func (w *writer) attempt(ops []*op) error {
	if w.room.short && anyNeeds(ops, needsLittle) {
		w.regain()
	}
	err := w.try(ops)
	if !w.isFull(err) {
		return err
	}
	if err := w.makeRoom(); err != nil {
		return err
	}
	if err = w.try(ops); !w.isFull(err) {
		return err
	}

	if !anyLess(ops, needsRoom) {
		w.runShort(err)
		return err
	}
	if err := w.room.lend(); err != nil {
		return errNoRoom(err)
	}
	w.runShort(err)
	return w.try(ops)
}

func anyNeeds(ops []*op, n needs) bool {
	for _, o := range ops {
		if o.needs >= n {
			return true
		}
	}
	return false
}

func anyLess(ops []*op, n needs) bool {
	for _, o := range ops {
		if o.needs < n {
			return true
		}
	}
	return false
}

// findRoom lets the ballast of a store that was just opened grow to its size.
func (w *writer) findRoom() {
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		w.tell(err)
		return
	}
	r := &w.room
	r.short, r.covered = false, 0
	if err := r.grow(r.base + r.growth(pages)); err != nil {
		if err := w.makeRoom(); err != nil {
			w.tell(err)
		}
	}
	w.e.full.Store(r.short)
}

// trim cuts what the ballast of an empty log has too much of, after a reader
// kept the log for long.
func (r *room) trim() error {
	if r.size <= 3*r.base {
		return nil
	}
	r.covered = 0
	return r.cut(r.base)
}

// makeRoom moves all of the log into the file, in the room of the ballast, and
// cuts the log to nothing.
func (w *writer) makeRoom() error {
	w.checkpoints.stop()
	err := w.moveLog(func() error {
		err := w.cutLog()
		if !sq.IsBusy(err) {
			return err
		}
		// Readers need the log as it is. They would fill the disk with it.
		w.e.readers.pause()
		defer w.e.readers.resume()
		return w.cutLog()
	})
	if sq.IsIO(err) {
		return err
	}
	if err != nil {
		w.tell(err)
	}

	if w.room.size < w.room.base {
		w.runShort(err)
	}
	return nil
}

// cutLog moves the log into the file and cuts it to nothing. It waits for
// readers only briefly.
func (w *writer) cutLog() error {
	if err := w.c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", briefly)); err != nil {
		return err
	}
	err := settleLog(w.c)
	return errors.Join(err, w.c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)))
}

// moveLog frees as much of the ballast as the log will add to the file, runs a
// checkpoint, and lets the ballast take what is left of the room.
func (w *writer) moveLog(checkpoint func() error) error {
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		return err
	}
	r := &w.room
	if err := r.cut(r.size - r.growth(pages) - ballastGrain); err != nil {
		return errNoRoom(err)
	}

	err = checkpoint()
	if sq.IsFull(err) && r.size > 0 { // somebody else was faster
		if cut := r.cut(0); cut == nil {
			err = checkpoint()
		}
	}
	if err == nil {
		w.pages, w.vacuum = 0, true
	}
	w.refill()
	return err
}

// refill lets the ballast grow to its base, and to a quarter more where the
// store is short of room: a store that accepts jobs again has some to put them.
func (w *writer) refill() {
	r, want := &w.room, w.room.base
	if r.short {
		want += want / 4
	}
	r.covered = 0
	if r.grow(want) != nil || !r.short {
		return
	}
	if err := r.cut(r.base); err != nil {
		w.tell(err)
	}
	r.short = false
	w.e.full.Store(false)
	w.log.Info("there is room on the disk again; new jobs are accepted", "path", w.e.cfg.Path)
}

// runShort refuses from now on what needs room.
func (w *writer) runShort(why error) {
	w.room.short = true
	if !w.e.full.Swap(true) {
		w.log.Warn("the disk is full; new jobs are refused until there is room, everything else goes on",
			"path", w.e.cfg.Path, "ballast", w.room.size, "of", w.room.base, "error", why)
	}
}

// regain looks for room while the store is short of it. It reports whether
// there may be more to gain.
func (w *writer) regain() (again bool) {
	if !w.room.short || w.c == nil {
		return false
	}
	if w.refill(); !w.room.short {
		return false
	}

	given, err := w.giveBack()
	if err == nil && (given || w.pages >= shortLog) {
		w.checkpoints.stop()
		err = w.moveLog(func() error {
			log, moved, err := w.c.Checkpoint(sq.Passive)
			if err == nil && log != moved {
				err = errNotMoved
			}
			return err
		})
	}
	switch {
	case errors.Is(err, errNotMoved):
		w.pages = shortLog / 2 // a reader needs the log as it is: again in a while
	case err != nil:
		w.unanswered(err)
	}
	return given && err == nil && w.room.short
}

var errNotMoved = errors.New("sqliteengine: a reader needs the log as it is")

// giveBack removes some free pages from the end of the file.
func (w *writer) giveBack() (given bool, err error) {
	free, err := w.pragma("PRAGMA freelist_count")
	if err != nil || free == 0 {
		return false, err
	}
	err = w.vacuumSlice("vacuum_short")
	return err == nil, err
}

// Accepts implements duly.Accepter.
func (e *Engine) Accepts(ctx context.Context) error {
	if !e.full.Load() {
		return e.alive(ctx)
	}
	return e.write(ctx, &op{Call: items(1), needs: needsRoom, run: func(*tx) error { return nil }})
}
