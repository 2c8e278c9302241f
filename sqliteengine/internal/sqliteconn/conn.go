package sqliteconn

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is one connection to a database file. One goroutine at a time may use it.
type Conn struct {
	tls *libc.TLS
	db  uintptr
	out uintptr // address of a buffer of outBytes, for results that SQLite returns by pointer
}

const outBytes = 16

// Mode is the access mode of a connection.
type Mode int32

// The modes in which Open opens a file.
const (
	// ReadWrite opens an existing file for reading and writing.
	ReadWrite Mode = sqlite3.SQLITE_OPEN_READWRITE
	// ReadOnly opens an existing file for reading.
	ReadOnly Mode = sqlite3.SQLITE_OPEN_READONLY
	// Create opens a file for reading and writing and creates it if necessary.
	Create Mode = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
)

// Version returns the version of SQLite as a number: 3.51.3 is 3051003.
func Version() int { return sqlite3.SQLITE_VERSION_NUMBER }

// Open opens the file at path.
func Open(path string, mode Mode) (*Conn, error) {
	tls := libc.NewTLS()
	c := &Conn{tls: tls, out: libc.Xmalloc(tls, outBytes)}
	if c.out == 0 {
		tls.Close()
		return nil, errNoMemory
	}

	name, err := libc.CString(path)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("sqliteconn: %w", err)
	}
	defer libc.Xfree(tls, name)

	// One goroutine at a time uses the connection, so SQLite needs no mutex.
	rc := sqlite3.Xsqlite3_open_v2(tls, name, c.out, int32(mode)|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	// SQLite sets the handle even if opening failed. The handle must be closed in both cases.
	c.db = *(*uintptr)(at(c.out))
	if rc != sqlite3.SQLITE_OK {
		err := c.fail(rc)
		c.Close()
		return nil, err
	}

	sqlite3.Xsqlite3_extended_result_codes(tls, c.db, 1)
	// Without this setting, SQLite compiles a statement again whenever its LIMIT has another value.
	if err := c.configure(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG); err != nil {
		c.Close()
		return nil, err
	}

	return c, nil
}

// Close closes the connection. Its statements must have been finalized.
func (c *Conn) Close() error {
	var err error
	if c.db != 0 {
		if rc := sqlite3.Xsqlite3_close(c.tls, c.db); rc != sqlite3.SQLITE_OK {
			err = c.fail(rc)
			// A statement is still open. This frees the connection with the last statement.
			sqlite3.Xsqlite3_close_v2(c.tls, c.db)
		}
	}
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	c.db, c.out = 0, 0
	return err
}

// Exec runs statements without arguments and ignores their rows.
func (c *Conn) Exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return fmt.Errorf("sqliteconn: %w", err)
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// Changes returns the number of rows changed by the connection's last INSERT, UPDATE or
// DELETE.
func (c *Conn) Changes() int { return int(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// InTx reports whether a transaction is open. SQLite ends a transaction itself after some
// errors.
func (c *Conn) InTx() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// PagesWritten returns the number of pages written by the connection since the last call.
func (c *Conn) PagesWritten() int {
	rc := sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, c.out, c.out+4, 1)
	if rc != sqlite3.SQLITE_OK {
		return 0
	}
	return int(*(*int32)(at(c.out)))
}

// NoCheckpointOnClose makes Close keep the write-ahead log unchanged, instead of moving it into the
// database file and deleting it.
func (c *Conn) NoCheckpointOnClose() error {
	return c.configure(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
}

// configure enables an option of the connection.
func (c *Conn) configure(option int32) error {
	list := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(c.tls, list)
	rc := sqlite3.Xsqlite3_db_config(c.tls, c.db, option, list)
	if rc != sqlite3.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// Interrupt makes the running statement of the connection fail soon. It is the only
// method that other goroutines may call, and only while the connection is open.
func (c *Conn) Interrupt() {
	// A TLS belongs to one goroutine, and the running statement uses the TLS of the connection.
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.db)
}

// YieldEvery makes the connection's statements yield their processor to other goroutines
// after that many SQLite instructions. Otherwise a long statement keeps its processor for
// 10 ms at a time, until the scheduler preempts it.
func (c *Conn) YieldEvery(instructions int) {
	sqlite3.Xsqlite3_progress_handler(c.tls, c.db, int32(instructions), yieldFunc, 0)
}

// yieldFunc is yield as a C function pointer.
var yieldFunc = *(*uintptr)(unsafe.Pointer(&struct {
	f func(*libc.TLS, uintptr) int32
}{yield}))

// yield returns 0, which continues the statement.
func yield(*libc.TLS, uintptr) int32 {
	runtime.Gosched()
	return 0
}

// CheckpointMode is the mode of a checkpoint.
type CheckpointMode int32

// The modes of a checkpoint.
const (
	// Noop moves nothing. Checkpoint then only returns the numbers of pages.
	Noop CheckpointMode = sqlite3.SQLITE_CHECKPOINT_NOOP
	// Passive moves as many pages as it can without waiting.
	Passive CheckpointMode = sqlite3.SQLITE_CHECKPOINT_PASSIVE
	// Restart moves all pages, waits for reads that need the log, and makes the next
	// transaction write to the beginning of the log. It fails as busy if the wait exceeds
	// busy_timeout.
	Restart CheckpointMode = sqlite3.SQLITE_CHECKPOINT_RESTART
	// Truncate moves all pages and truncates the log.
	Truncate CheckpointMode = sqlite3.SQLITE_CHECKPOINT_TRUNCATE
)

// Checkpoint moves pages from the write-ahead log into the database file. It returns the number of
// pages in the log and how many of these pages have been moved so far. During a write of another
// connection it may fail as busy in any mode, because SQLite reads the log's header without a lock.
func (c *Conn) Checkpoint(mode CheckpointMode) (log, moved int, err error) {
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, int32(mode), c.out, c.out+4)
	if rc != sqlite3.SQLITE_OK {
		return 0, 0, c.fail(rc)
	}
	return int(*(*int32)(at(c.out))), int(*(*int32)(at(c.out + 4))), nil
}

// at converts an address outside the Go heap to a pointer. The conversion goes through memory,
// because vet reports a direct conversion.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Error is an error of SQLite.
type Error struct {
	Code    int // extended result code of SQLite
	Message string
}

var errNoMemory = errors.New("sqliteconn: out of memory")

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.Message, e.Code) }

// IsBusy reports whether another connection held a lock.
func IsBusy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code&0xff == sqlite3.SQLITE_BUSY
}

func (c *Conn) fail(rc int32) error {
	message := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		message = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
		// The extended code may be from an earlier error, so it counts only if it belongs to rc.
		if extended := sqlite3.Xsqlite3_extended_errcode(c.tls, c.db); extended&0xff == rc&0xff {
			rc = extended
		}
	}
	return &Error{Code: int(rc), Message: message}
}

// primary returns the primary result code of an error, or 0 for an error that is not from SQLite.
func primary(err error) int {
	var e *Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code & 0xff
}

// ErrFull is SQLite's error for a full disk.
var ErrFull error = &Error{Code: sqlite3.SQLITE_FULL, Message: "database or disk is full"}

// IsFull reports whether the disk was full.
func IsFull(err error) bool { return primary(err) == sqlite3.SQLITE_FULL }

// IsInterrupted reports whether Interrupt ended a statement.
func IsInterrupted(err error) bool { return primary(err) == sqlite3.SQLITE_INTERRUPT }

// IsConstraint reports whether a change violated a constraint. The statement has changed
// nothing, and the transaction continues.
func IsConstraint(err error) bool { return primary(err) == sqlite3.SQLITE_CONSTRAINT }

// IsCorrupt reports whether the file is damaged or not a database.
func IsCorrupt(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// IsIO reports whether the operating system failed to read, write, sync or map the file,
// or whether its lock protocol failed. The state of the disk is then unknown.
func IsIO(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// IsReadOnly reports whether the file or its folder is not writable.
func IsReadOnly(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM
}
