package sqliteengine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// When a write or a sync fails, nobody knows what is on the disk: the kernel
// drops what it could not write and says so only once, so the next sync that
// succeeds proves nothing about what was written before it. From then on
// nothing is answered as stored. The store is closed, and opened again with
// growing pauses until that works:
//
//  1. The log is read and every byte of it written again to the same place and
//     synced, so that what the kernel gave up is written after all.
//  2. All of the log is moved into the file, which is synced, and the log is cut
//     to nothing. Whatever failed was in one of the two.
//  3. The file is checked.
//  4. What stands in memory is read anew from the tables.
//
// An operation that failed is answered "unavailable": it may have happened.

// The pauses between tries to open the store again.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// failure is what the writer knows of a store that has failed.
type failure struct {
	why     error
	pause   time.Duration
	retryAt time.Duration // on the monotonic clock
}

// fail closes the store after an error that leaves it open what is on the
// disk, and tries at once to open it again.
func (w *writer) fail(why error) {
	w.log.Error("the store has failed; nothing is stored until it is open again", "path", w.e.cfg.Path, "error", why)
	w.disconnect()
	w.failure = &failure{why: why, pause: firstPause}
	w.recover()
}

// disconnect closes every connection and leaves the log as it is.
func (w *writer) disconnect() {
	w.checkpoints.stop()
	w.e.readers.pause()
	if w.c != nil {
		err := errors.Join(w.c.NoCheckpointOnClose(), w.c.close())
		if err != nil {
			w.log.Warn("the failed store could not be closed cleanly", "error", err)
		}
		w.c = nil
	}
}

// recover tries to open the store again, if it is time.
func (w *writer) recover() {
	f, mono := w.failure, w.clock.Mono()
	if f == nil || mono < f.retryAt {
		return
	}
	err := w.reopen()
	if err == nil {
		w.failure = nil
		w.log.Info("the store is open again", "path", w.e.cfg.Path)
		return
	}
	if f.why.Error() != err.Error() {
		w.log.Error("the store can't be opened again yet", "path", w.e.cfg.Path, "error", err)
	}
	f.why, f.retryAt = err, mono+f.pause
	w.clock.AfterFunc(f.pause, w.e.inbox.ring)
	f.pause = min(2*f.pause, longestPause)
}

func (w *writer) reopen() error {
	if err := w.room.lend(); err != nil { // the log's index may need room, and the file
		return err
	}
	if err := rewrite(w.e.cfg.Path + "-wal"); err != nil {
		return err
	}

	c, err := w.e.connect(sq.ReadWrite)
	if err != nil {
		return err
	}

	if err = settleLog(c); err == nil {
		if err = quickCheck(c); err == nil {
			err = w.load(c)
		}
	}
	if err != nil {
		return errors.Join(err, c.NoCheckpointOnClose(), c.close())
	}

	w.c, w.pages = c, 0
	w.findRoom()
	w.e.readers.resume()
	w.e.hub.reset(w.queues)
	w.e.watchers.ring()
	return nil
}

// rewrite writes every byte of a file again where it stands, and syncs it.
func rewrite(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()

	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, err := f.ReadAt(buf, at)
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return f.Sync()
		}
		if err != nil {
			return err
		}
	}
}

// settleLog moves all of the log into the file.
func settleLog(c *conn) error {
	log, moved, err := c.Checkpoint(sq.Truncate)
	if err == nil && log != moved {
		err = fmt.Errorf("sqliteengine: %d of %d pages of the log were moved into the file", moved, log)
	}
	return err
}

// quickCheck reads the whole file and reports the first thing that is wrong
// with it.
func quickCheck(c *conn) error {
	found, err := c.Query("PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	if found != "ok" {
		return &duly.Error{Code: duly.CodeCorrupt, Cause: errors.New(found), Message: "the file is damaged; stop, and restore a backup"}
	}
	return nil
}

// down is what operations are answered while the store is not open.
func (w *writer) down() error {
	if sq.IsFull(w.failure.why) || duly.CodeOf(w.failure.why) == duly.CodeCorrupt {
		return w.failure.why
	}
	return w.e.down()
}

// mustReopen tells whether an error leaves it open what is on the disk, or
// whether the connection can't be used any more.
func (w *writer) mustReopen(err error) bool {
	return w.failure == nil && (sq.IsIO(err) || w.c.InTx())
}

// down is what is answered while the store is not open.
func (e *Engine) down() error {
	return &duly.Error{Code: duly.CodeUnavailable,
		Message: fmt.Sprintf("%s has failed and is being opened again; repeat in a moment", e.cfg.Path)}
}
