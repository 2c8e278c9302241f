package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Open opens the engine of a file, and makes the file if there is none. It
// reports [duly.ErrInvalid] for a bad configuration, [duly.ErrUnavailable]
// where the file is open elsewhere or can't be written, [duly.ErrCorrupt] for
// a file that is not duly's or is damaged and [duly.ErrUnsupported] for one of
// a newer version. Such files are left as they are.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	cfg = cfg.withDefaults()
	path, err := settlePath(cfg.Path)
	if err != nil {
		return nil, err
	}

	cfg.Path = path
	if err := mustBeFile(path); err != nil {
		return nil, err
	}

	held, err := lock(path, openElsewhere)
	if err != nil {
		return nil, err
	}
	if err := dropLeftovers(path); err != nil {
		cfg.Logger.Warn("what a backup or a restore has left behind can't be removed", "path", path, "error", err)
	}

	e, err := start(cfg, current)
	if err != nil {
		unlock(held)
		return nil, storeError(path, err)
	}

	e.lock = held
	go e.w.loop()
	return e, nil
}

// settlePath makes the folder and names the file by its real path, so that two
// ways to it are one lock.
func settlePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", duly.Invalid("path", "can't be resolved: %s", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", cannotWrite(path, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", cannotWrite(path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// start brings the file up to this version and reads what is known of it.
func start(cfg Config, l layout) (*Engine, error) {
	h, err := l.readHeader(cfg.Path)
	switch {
	case err != nil:
		return nil, err
	case h.missing:
		err = l.create(cfg.Path)
	case h.version < l.version():
		cfg.Logger.Info("upgrading the file; a copy stays beside it", "path", cfg.Path, "from", h.version, "to", l.version())
		err = l.upgrade(cfg.Path, h.version)
	}
	if err != nil {
		return nil, err
	}

	e := &Engine{cfg: cfg, layout: l, stopped: make(chan struct{})}
	e.inbox.init()
	e.readers.turn = make(chan struct{}, maxReaders)
	e.readers.lent = map[*conn]context.CancelFunc{}
	// Pauses and rests last as long as the machine's clock says, whatever the engine's clock does.
	e.readers.gate.clock, e.readers.long = clock.System(), newLongReads(clock.System(), runtime.GOMAXPROCS(0))
	e.w = &writer{e: e, clock: cfg.Clock, log: cfg.Logger, maxQueues: cfg.MaxQueues}
	e.hub = newHub(e)
	e.w.room = room{ballast: cfg.openBallast(), file: cfg.Path}
	if !cfg.aside {
		err = e.w.room.check()
	}
	if err == nil {
		err = e.openStore()
	}
	if err != nil {
		return nil, errors.Join(err, e.w.room.close())
	}

	return e, nil
}

// openStore opens the store, on a full disk in the room of the ballast: the
// log's index needs some.
func (e *Engine) openStore() error {
	w := e.w
	err := w.open()
	if w.room.size > 0 && (sq.IsFull(err) || sq.IsIO(err)) {
		if err = w.room.lend(); err == nil {
			err = w.open()
		}
	}
	if err == nil {
		w.findRoom()
	}
	return err
}

// connect opens a connection as the engine uses it.
func (e *Engine) connect(mode sq.Mode) (*conn, error) {
	c, err := sq.Open(e.cfg.Path, mode)
	if err != nil {
		return nil, err
	}

	sync := "FULL"
	if e.cfg.Synchronous == SyncNormal {
		sync = "NORMAL"
	}

	// The checkpointer alone decides when the log is moved into the file. On
	// macOS a sync reaches the disk only with the two fullfsync settings.
	// The patience comes first: what follows reads the file, of which another
	// connection may be reading the log for the first time.
	err = c.Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d;
PRAGMA synchronous = %s; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%d;
PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;`, busyTimeout, sync, cacheKiB))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}

	return newConn(c), nil
}

// busyTimeout is for how many milliseconds a connection waits for the lock of
// another one.
const busyTimeout = 10_000

// cacheKiB is the page cache of one connection.
const cacheKiB = 16 << 10

// open connects the writer and reads the queues.
func (w *writer) open() error {
	c, err := w.e.connect(sq.ReadWrite)
	if err != nil {
		return err
	}
	if err = w.load(c); err == nil {
		err = useLog(c)
	}
	if err == nil {
		// A killed process may have left a long log, which would make the start
		// after the next kill slow as well: a checkpoint moves it soon.
		w.pages, _, err = c.Checkpoint(sq.Noop)
	}
	if err == nil {
		// The log has been made by now. SQLite syncs the folder too when it
		// first syncs the log, but takes no notice if that fails.
		err = durable.SyncFolder(filepath.Dir(w.e.cfg.Path))
	}
	if err != nil {
		return errors.Join(err, c.close())
	}

	w.checkpoints = checkpoints{w: w, done: make(chan passed, 1)}
	w.c, w.graves, w.vacuum = c, true, true
	w.e.hub.reset(w.queues)
	return nil
}

// useLog lets the file have a write-ahead log. It has one from its making on,
// but a copy made by a backup does not say so any more.
func useLog(c *conn) error {
	mode, err := c.Query("PRAGMA journal_mode = WAL")
	if err == nil && mode != "wal" {
		err = duly.Errorf(duly.CodeUnavailable, "the file can't have a write-ahead log here, SQLite keeps to %q; put it on a local disk", mode)
	}
	return err
}

func (w *writer) load(c *conn) error {
	version, err := userVersion(c.Conn)
	if err == nil { // the log may be newer than the file's own header
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
		if !ref.IsGroup() {
			w.perNamespace[ref.Namespace]++
		}
	}
	return nil
}

// userVersion is the layout that the file has, as its log says too.
func userVersion(c *sq.Conn) (int, error) {
	text, err := c.Query("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// shut closes everything once the writer has ended.
func (e *Engine) shut() error {
	w := e.w
	w.checkpoints.stop()
	err := e.readers.pause()
	if w.c != nil {
		if w.room.short { // SQLite moves the log when it is closed
			err = errors.Join(err, w.room.lend())
		}
		err = errors.Join(err, w.c.close())
		w.c = nil
	}
	if w.room.short {
		w.refill()
	}
	err = errors.Join(err, w.room.close())
	return storeError(e.cfg.Path, errors.Join(err, unlock(e.lock)))
}
