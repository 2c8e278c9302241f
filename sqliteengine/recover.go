package sqliteengine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// After a failed write or sync, the state of the disk is unknown. The kernel drops pages that it
// could not write and reports that only once, so a later successful sync proves nothing about
// earlier writes. From then on the engine stores nothing. It closes the store and reopens it, with
// growing pauses until that works:
//
//  1. It reads the WAL, writes every byte of it again to the same place and syncs
//     it. So the pages that the kernel dropped are written.
//  2. It moves the whole WAL into the file, syncs the file, and truncates the WAL.
//     The failed write was in one of the two.
//  3. It checks the file.
//  4. It loads its state from the tables again.
//
// The failed operation returns "unavailable", because it may have taken effect.

// The pauses between attempts to reopen the store grow from the first to the second.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// failure describes a failed store.
type failure struct {
	why     error
	pause   time.Duration
	retryAt time.Duration // time of the next try, on the monotonic clock
}

// fail closes the store after an error that leaves the state of the disk unknown. It
// then tries to reopen the store at once.
func (w *writer) fail(why error) {
	w.log.Error("the store has failed; nothing is stored until it is reopened", "path", w.e.cfg.Path, "error", why)
	w.disconnect()
	w.failure = &failure{why: why, pause: firstPause}
	w.tryReopen()
}

// disconnect closes all connections and keeps the WAL unchanged.
func (w *writer) disconnect() {
	// The passes of a checkpoint use a separate connection, so they must end first.
	w.checkpoints.stop()
	w.e.readers.pause()
	if w.c != nil {
		err := errors.Join(w.c.NoCheckpointOnClose(), w.c.close())
		if err != nil {
			w.log.Warn("the failed store did not close cleanly", "error", err)
		}
		w.c = nil
	}
}

// tryReopen tries to reopen a failed store if its pause is over.
func (w *writer) tryReopen() {
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

	// The same error is logged only once.
	if f.why.Error() != err.Error() {
		w.log.Error("the store can't be reopened yet", "path", w.e.cfg.Path, "error", err)
	}
	f.why, f.retryAt = err, mono+f.pause
	// An idle writer waits for its inbox, so this timer wakes it for the next try.
	w.clock.AfterFunc(f.pause, w.e.inbox.signal)
	f.pause = min(2*f.pause, longestPause)
}

func (w *writer) reopen() error {
	// The WAL's index and the file may need space.
	if err := w.space.borrow(); err != nil {
		return err
	}
	// No connection is open yet, so nothing changes the WAL while it is rewritten.
	if err := rewrite(w.e.cfg.Path + "-wal"); err != nil {
		return err
	}

	c, err := w.e.connect(sqliteconn.ReadWrite)
	if err != nil {
		return err
	}

	if err = emptyWAL(c); err == nil {
		if err = quickCheck(c); err == nil {
			err = w.loadState(c)
		}
	}
	if err != nil {
		// The WAL must stay unchanged for the next try.
		return errors.Join(err, c.NoCheckpointOnClose(), c.close())
	}

	w.c, w.walPages = c, 0
	w.sizeBallast()
	// Reads begin only now, because the file is checked and the state is loaded.
	w.e.readers.resume()
	w.e.notifier.reset(w.queues)
	w.e.tokenWatchers.notify()
	return nil
}

// rewrite writes every byte of a file again in place and syncs the file.
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

// emptyWAL moves the whole WAL into the file and truncates it.
func emptyWAL(c *conn) error {
	log, moved, err := c.Checkpoint(sqliteconn.Truncate)
	if err == nil && log != moved {
		err = fmt.Errorf("sqliteengine: only %d of %d pages of the WAL were moved into the file", moved, log)
	}
	return err
}

// quickCheck reads the whole file and returns an error with the first fault.
func quickCheck(c *conn) error {
	found, err := c.Query("PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	if found != "ok" {
		return &duly.Error{Code: duly.CodeCorrupt, Cause: errors.New(found),
			Message: "the file is damaged; stop the process and restore a backup"}
	}
	return nil
}

// downError returns the error of operations while the store is closed. It keeps the
// reasons that a caller can act on.
func (w *writer) downError() error {
	if sqliteconn.IsFull(w.failure.why) || duly.CodeOf(w.failure.why) == duly.CodeCorrupt {
		return w.failure.why
	}
	return w.e.downError()
}

// mustReopen reports whether an error leaves the state of the disk unknown, or the
// connection unusable.
func (w *writer) mustReopen(err error) bool {
	return w.failure == nil && (sqliteconn.IsIO(err) || w.c.InTx())
}

// open connects the writer and loads the queues.
func (w *writer) open() error {
	c, err := w.e.connect(sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	// The layout is checked first, so that a file of a newer version stays unchanged.
	if err = w.loadState(c); err == nil {
		err = useWAL(c)
	}
	if err == nil {
		// A killed process may have left a long log. Its length makes the first
		// checkpoint start soon, so that the next start is fast.
		w.walPages, _, err = c.Checkpoint(sqliteconn.Noop)
	}
	if err == nil {
		// The log exists by now. SQLite syncs the folder as well, but ignores an
		// error of that sync.
		err = durable.SyncFolder(filepath.Dir(w.e.cfg.Path))
	}
	if err != nil {
		return errors.Join(err, c.close())
	}

	w.checkpoints = checkpoints{w: w, done: make(chan passResult, 1)}
	w.c, w.graves, w.mayShrink = c, true, true
	w.e.notifier.reset(w.queues)
	return nil
}

// loadState checks the file's layout and reads its queues.
func (w *writer) loadState(c *conn) error {
	version, err := userVersion(c.Conn)
	// The WAL may have a newer version than the file's header.
	if err == nil {
		err = w.e.layout.check(w.e.cfg.Path, version)
	}
	if err != nil {
		return errors.Join(err, c.NoCheckpointOnClose())
	}

	if w.queues, err = loadQueues(c); err != nil {
		return err
	}

	w.perNamespace = map[string]int{}
	for ref := range w.queues {
		// Groups do not count against the bound of the namespace.
		if !ref.IsGroup() {
			w.perNamespace[ref.Namespace]++
		}
	}

	return nil
}

// useWAL switches the file to a write-ahead log. Only a copy made by a backup has no WAL.
func useWAL(c *conn) error {
	mode, err := c.Query("PRAGMA journal_mode = WAL")
	if err == nil && mode != "wal" {
		err = contract.Errorf(duly.CodeUnavailable,
			"the file can't have a write-ahead log here, SQLite keeps journal mode %q; put it on a local disk", mode)
	}
	return err
}

// userVersion returns the layout version of the file, including its log.
func userVersion(c *sqliteconn.Conn) (int, error) {
	text, err := c.Query("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}
