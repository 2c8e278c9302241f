package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// Open opens the engine of a file and creates the file if it does not exist. It returns
// [duly.ErrInvalid] for a bad configuration and [duly.ErrUnavailable] if the file is open elsewhere
// or not writable. It returns [duly.ErrCorrupt] for a damaged file or one of another program, and
// [duly.ErrUnsupported] for a file of a newer version. A file that can't be opened is not changed.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	cfg = cfg.withDefaults()
	path, err := resolvePath(cfg.Path)
	if err != nil {
		return nil, err
	}

	cfg.Path = path
	// The check comes before the lock, because the lock creates a file next to this one.
	if err := checkRegular(path); err != nil {
		return nil, err
	}

	held, err := storefile.Lock(path, openElsewhere)
	if err != nil {
		return nil, err
	}
	// While this process has the lock, no other process can be making a backup or restoring.
	if err := dropLeftovers(path); err != nil {
		cfg.Logger.Warn("leftover files of a backup or restore can't be removed", "path", path, "error", err)
	}

	e, err := newEngine(cfg, current)
	if err != nil {
		storefile.Unlock(held)
		return nil, storeError(path, err)
	}

	e.lock = held
	go e.w.run()
	return e, nil
}

// openElsewhere is the advice to a process that opens the file.
const openElsewhere = "one file serves one process: use its server, or stop it first"

// resolvePath creates the folder and resolves symbolic links, so that two paths of
// one file share one lock.
func resolvePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", contract.Invalid("path", "can't be resolved: %s", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", storefile.NotWritable(path, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", storefile.NotWritable(path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// openStore creates or upgrades the file and opens it.
func openStore(cfg Config, l layout) (*store, error) {
	h, err := l.readHeader(cfg.Path)
	switch {
	case err != nil:
		return nil, err
	case h.missing:
		err = l.create(cfg.Path)
	// A newer layout is refused by readHeader.
	case h.version < l.version():
		cfg.Logger.Info("upgrading the file to the current layout; a copy of the old file is kept next to it",
			"path", cfg.Path, "from", h.version, "to", l.version())
		err = l.upgrade(cfg.Path, h.version)
	}
	if err != nil {
		return nil, err
	}

	e := newStore(cfg, l)
	// The copy of a restore is written only briefly and needs no ballast.
	if !cfg.isCopy {
		e.w.space.Ballast = storefile.OpenBallast(cfg.Path)
		err = e.w.space.Check()
	}
	if err == nil {
		err = e.openWriter()
	}
	if err != nil {
		return nil, errors.Join(err, e.w.space.Close())
	}
	return e, nil
}

func newStore(cfg Config, l layout) *store {
	e := &store{cfg: cfg, layout: l, stopped: make(chan struct{})}
	e.inbox.init()

	// Pauses of readers are measured by the system clock, not by the engine's.
	e.readers.gate.clock, e.readers.long = clock.System(), newLongReads(clock.System(), runtime.GOMAXPROCS(0))
	e.readers.slots = make(chan struct{}, maxReaders)
	e.readers.inUse = map[*conn]context.CancelFunc{}

	e.w = &writer{e: e, clock: cfg.Clock, log: cfg.Logger, maxQueues: cfg.MaxQueues}
	e.w.space = diskSpace{Ballast: storefile.NoBallast(cfg.Path), file: cfg.Path}
	e.notifier = newNotifier(e)
	e.firing = schedule.NewFiring(scheduleAPI{e}, cfg.Clock, cfg.Logger)
	return e
}

// openWriter opens the file for the writer. If the disk is full, it frees half of the ballast first,
// because SQLite needs space for the WAL's index.
func (e *store) openWriter() error {
	w := e.w
	err := w.open()
	if w.space.Size() > 0 && (sqliteconn.IsFull(err) || sqliteconn.IsIO(err)) {
		if err = w.space.borrow(); err == nil {
			err = w.open()
		}
	}
	if err == nil {
		w.sizeBallast()
	}
	return err
}

// connect opens a connection with the engine's settings.
func (e *store) connect(mode sqliteconn.Mode) (*conn, error) {
	c, err := sqliteconn.Open(e.cfg.Path, mode)
	if err != nil {
		return nil, err
	}

	sync := "FULL"
	if e.cfg.Synchronous == SyncNormal {
		sync = "NORMAL"
	}

	// busy_timeout is set first, because the next settings read the file while another connection
	// may be recovering the WAL. Only the checkpointer moves the WAL, so automatic checkpoints are
	// off. On macOS a sync reaches the disk only with both fullfsync settings.
	err = c.Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d;
PRAGMA synchronous = %s; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%d;
PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;`, busyTimeout, sync, cacheKiB))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}

	return newConn(c), nil
}

// busyTimeout is how many milliseconds a connection waits for another one's lock.
const busyTimeout = 10_000

// cacheKiB is the size of a connection's page cache.
const cacheKiB = 16 << 10

// closeStore closes all connections and the lock, after the writer has returned.
func (e *store) closeStore() error {
	w := e.w
	w.checkpoints.stop()
	err := e.readers.pause()
	if w.c != nil {
		if w.space.shortage { // Closing moves the WAL into the file, which needs space.
			err = errors.Join(err, w.space.borrow())
		}
		err = errors.Join(err, w.c.close())
		w.c = nil
	}
	if w.space.shortage {
		w.refillBallast()
	}
	err = errors.Join(err, w.space.Close())
	return storeError(e.cfg.Path, errors.Join(err, storefile.Unlock(e.lock)))
}
