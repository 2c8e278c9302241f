package sq

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is one connection to a database file.
type Conn struct {
	tls *libc.TLS
	db  uintptr
	out uintptr // outBytes of scratch for results by pointer
}

const outBytes = 16

// Mode is how a file is opened.
type Mode int32

// The modes.
const (
	// ReadWrite opens a file that must be there.
	ReadWrite Mode = sqlite3.SQLITE_OPEN_READWRITE
	// ReadOnly opens a file that must be there, and can't write to it.
	ReadOnly Mode = sqlite3.SQLITE_OPEN_READONLY
	// Create opens a file and makes it if it is not there.
	Create Mode = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
)

// Version is SQLite's own version, as a number: 3.51.3 is 3051003.
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
		return nil, fmt.Errorf("sq: %w", err)
	}
	defer libc.Xfree(tls, name)

	rc := sqlite3.Xsqlite3_open_v2(tls, name, c.out, int32(mode)|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	c.db = *(*uintptr)(at(c.out)) // set even where opening failed
	if rc != sqlite3.SQLITE_OK {
		err := c.fail(rc)
		c.Close()
		return nil, err
	}

	sqlite3.Xsqlite3_extended_result_codes(tls, c.db, 1)
	// Without this, SQLite plans a statement anew whenever another LIMIT is
	// bound to it.
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
			sqlite3.Xsqlite3_close_v2(c.tls, c.db) // goes when its last statement does
		}
	}
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	c.db, c.out = 0, 0
	return err
}

// Exec runs statements that have no arguments and whose rows nobody reads.
func (c *Conn) Exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return fmt.Errorf("sq: %w", err)
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// Changes is the number of rows that the last INSERT, UPDATE or DELETE of the
// connection has changed.
func (c *Conn) Changes() int { return int(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// InTx tells whether a transaction is open. SQLite ends one by itself on some
// errors.
func (c *Conn) InTx() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// PagesWritten is the number of pages that the connection has written since
// it was asked last.
func (c *Conn) PagesWritten() int {
	rc := sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, c.out, c.out+4, 1)
	if rc != sqlite3.SQLITE_OK {
		return 0
	}
	return int(*(*int32)(at(c.out)))
}

// NoCheckpointOnClose keeps Close from moving the write-ahead log into the
// database file and deleting it.
func (c *Conn) NoCheckpointOnClose() error {
	return c.configure(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
}

// configure switches an option of the connection on.
func (c *Conn) configure(option int32) error {
	list := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(c.tls, list)
	rc := sqlite3.Xsqlite3_db_config(c.tls, c.db, option, list)
	if rc != sqlite3.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// Interrupt lets the statement that runs on the connection fail soon. It is
// the one method that another goroutine may call, as long as the connection is
// not closed meanwhile.
func (c *Conn) Interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.db)
}

// YieldEvery lets every statement of the connection yield the processor to other
// goroutines after so many of SQLite's instructions. A statement of seconds
// would otherwise keep its processor until the scheduler takes it away, 10 ms at
// a time.
func (c *Conn) YieldEvery(instructions int) {
	sqlite3.Xsqlite3_progress_handler(c.tls, c.db, int32(instructions), yieldFunc, 0)
}

// yieldFunc is the C function pointer of yield.
var yieldFunc = *(*uintptr)(unsafe.Pointer(&struct {
	f func(*libc.TLS, uintptr) int32
}{yield}))

// yield lets the statement go on.
func yield(*libc.TLS, uintptr) int32 {
	runtime.Gosched()
	return 0
}

// CheckpointMode is how much a checkpoint insists.
type CheckpointMode int32

// The modes.
const (
	// Noop moves nothing and returns what there is.
	Noop CheckpointMode = sqlite3.SQLITE_CHECKPOINT_NOOP
	// Passive moves what it can without waiting for anybody.
	Passive CheckpointMode = sqlite3.SQLITE_CHECKPOINT_PASSIVE
	// Restart moves everything, waits for reads that need the log, and lets the
	// next transaction write to the log's beginning. It fails as busy if it may
	// not wait that long.
	Restart CheckpointMode = sqlite3.SQLITE_CHECKPOINT_RESTART
	// Truncate moves everything and cuts the log to nothing.
	Truncate CheckpointMode = sqlite3.SQLITE_CHECKPOINT_TRUNCATE
)

// Checkpoint moves pages from the write-ahead log into the database file. Of
// log pages, moved have been moved by now; they are equal when all have. Beside
// a writer it may fail as busy in any mode: the log's header is read without a
// lock, and SQLite waits for nobody when it was just being written.
func (c *Conn) Checkpoint(mode CheckpointMode) (log, moved int, err error) {
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, int32(mode), c.out, c.out+4)
	if rc != sqlite3.SQLITE_OK {
		return 0, 0, c.fail(rc)
	}
	return int(*(*int32)(at(c.out))), int(*(*int32)(at(c.out + 4))), nil
}

// at turns an address outside of Go's heap into a pointer. It goes through
// memory because the address is a number to Go, which vet would question.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Error is an error of SQLite.
type Error struct {
	Code    int // extended result code
	Message string
}

var errNoMemory = errors.New("sq: out of memory")

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.Message, e.Code) }

// IsBusy tells whether an error of SQLite is that another connection was in the way.
func IsBusy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code&0xff == sqlite3.SQLITE_BUSY
}

func (c *Conn) fail(rc int32) error {
	message := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		message = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
		if extended := sqlite3.Xsqlite3_extended_errcode(c.tls, c.db); extended&0xff == rc&0xff {
			rc = extended
		}
	}
	return &Error{Code: int(rc), Message: message}
}

// primary is an error's primary result code; 0 if it is not SQLite's.
func primary(err error) int {
	var e *Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code & 0xff
}

// ErrFull is the error of a full disk.
var ErrFull error = &Error{Code: sqlite3.SQLITE_FULL, Message: "database or disk is full"}

// IsFull tells whether there was no room on the disk.
func IsFull(err error) bool { return primary(err) == sqlite3.SQLITE_FULL }

// IsInterrupted tells whether Interrupt has ended a statement.
func IsInterrupted(err error) bool { return primary(err) == sqlite3.SQLITE_INTERRUPT }

// IsConstraint tells whether a constraint of the schema forbade a change. The
// statement has then changed nothing; the transaction goes on.
func IsConstraint(err error) bool { return primary(err) == sqlite3.SQLITE_CONSTRAINT }

// IsCorrupt tells whether the file is damaged, or not a database at all.
func IsCorrupt(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// IsIO tells whether the operating system failed to read, write, sync or map
// the file, or whether its lock protocol broke down: what is on the disk is
// then unknown.
func IsIO(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// IsReadOnly tells whether the file or its folder can't be written to.
func IsReadOnly(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM
}
