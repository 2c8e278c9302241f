package sqliteconn

import (
	"cmp"
	"fmt"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement. Arguments are numbered from 1, columns from 0.
//
// To run it, bind every argument and call Step until it returns false. The next Step
// returns the error of a bind. A run that ends before its last row must be Reset.
type Stmt struct {
	c     *Conn
	p     uintptr
	err   error
	buf   uintptr   // buffer for the arguments of a run; allocated by the first run
	used  int       // number of bytes used in buf
	extra []uintptr // memory of arguments that did not fit into buf
	why   error     // the reason why the statement could not be prepared
}

// Broken returns a statement whose runs all fail with the error why.
func Broken(c *Conn, why error) *Stmt { return &Stmt{c: c, why: why} }

// bufBytes is the size of a statement's argument buffer. It is enough for fifty rows of
// small jobs.
const bufBytes = 64 << 10

// Prepare compiles a statement.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, fmt.Errorf("sqliteconn: %w", err)
	}
	defer libc.Xfree(c.tls, text)
	// A persistent statement does not occupy SQLite's lookaside memory.
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.out, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fail(rc)
	}
	s := &Stmt{c: c, p: *(*uintptr)(at(c.out))}
	// SQLite compiles an empty text or a comment to no statement.
	if s.p == 0 {
		return nil, fmt.Errorf("sqliteconn: no statement in %q", sql)
	}
	return s, nil
}

// Query runs a statement without arguments and returns the first column of its first row
// as text, or "" without a row.
func (c *Conn) Query(sql string) (string, error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return "", err
	}
	defer s.Finalize()
	text, first := "", true
	// Some statements do their work only after the first row.
	for {
		row, err := s.Step()
		if err != nil || !row {
			return text, err
		}
		if first {
			text, first = s.ColText(0), false
		}
	}
}

// Finalize frees the statement.
func (s *Stmt) Finalize() {
	s.Reset()
	sqlite3.Xsqlite3_finalize(s.c.tls, s.p)
	libc.Xfree(s.c.tls, s.buf)
	s.p, s.buf = 0, 0
}

// Args returns the number of arguments of the statement.
func (s *Stmt) Args() int { return int(sqlite3.Xsqlite3_bind_parameter_count(s.c.tls, s.p)) }

// Int binds an integer.
func (s *Stmt) Int(i int, v int64) *Stmt {
	s.check(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v))
	return s
}

// Float binds a floating-point number.
func (s *Stmt) Float(i int, v float64) *Stmt {
	s.check(sqlite3.Xsqlite3_bind_double(s.c.tls, s.p, int32(i), v))
	return s
}

// Null binds NULL.
func (s *Stmt) Null(i int) *Stmt {
	s.check(sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, int32(i)))
	return s
}

// IntOrNull binds an integer, or NULL for 0.
func (s *Stmt) IntOrNull(i int, v int64) *Stmt {
	if v == 0 {
		return s.Null(i)
	}
	return s.Int(i, v)
}

// Blob binds bytes. Both nil and an empty slice are the empty blob.
func (s *Stmt) Blob(i int, b []byte) *Stmt {
	p := s.copy(unsafe.SliceData(b), len(b))
	if p != 0 {
		s.check(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), p, int32(len(b)), sqlite3.SQLITE_STATIC))
	}
	return s
}

// BlobOrNull binds bytes, or NULL for nil.
func (s *Stmt) BlobOrNull(i int, b []byte) *Stmt {
	if b == nil {
		return s.Null(i)
	}
	return s.Blob(i, b)
}

// Text binds a string.
func (s *Stmt) Text(i int, v string) *Stmt {
	p := s.copy(unsafe.StringData(v), len(v))
	if p != 0 {
		s.check(sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC))
	}
	return s
}

// TextOrNull binds a string, or NULL for an empty one.
func (s *Stmt) TextOrNull(i int, v string) *Stmt {
	if v == "" {
		return s.Null(i)
	}
	return s.Text(i, v)
}

func (s *Stmt) check(rc int32) {
	if rc != sqlite3.SQLITE_OK && s.err == nil {
		s.err = s.c.fail(rc)
	}
}

// copy copies an argument to memory that SQLite can read until the run ends. It returns 0 if no
// memory is free.
func (s *Stmt) copy(from *byte, n int) uintptr {
	if s.buf == 0 {
		s.buf = libc.Xmalloc(s.c.tls, bufBytes)
	}

	// The buffer can't move, because SQLite keeps pointers into it. Long arguments get separate
	// memory.
	p := s.buf + uintptr(s.used)
	switch {
	case s.buf == 0:
		p = 0
	case n < bufBytes-s.used:
		s.used += n
	default:
		// The additional byte makes the size of an empty argument more than 0.
		p = libc.Xmalloc(s.c.tls, libc.Tsize_t(n+1))
		s.extra = append(s.extra, p)
	}

	if p == 0 {
		s.err = errNoMemory
		return 0
	}

	copy(unsafe.Slice((*byte)(at(p)), n), unsafe.Slice(from, n))
	return p
}

// Step advances to the next row and reports whether there is one. It resets the statement
// after the last row and after an error.
func (s *Stmt) Step() (bool, error) {
	if s.why != nil || s.err != nil {
		err := cmp.Or(s.why, s.err)
		s.Reset()
		return false, err
	}
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.p); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		s.Reset()
		return false, nil
	default:
		// SQLite's message belongs to its last call, so it is read before the reset.
		err := s.c.fail(rc)
		s.Reset()
		return false, err
	}
}

// Run runs a statement, ignores its rows, and returns how many rows it changed.
func (s *Stmt) Run() (changed int, err error) {
	for {
		row, err := s.Step()
		if err != nil {
			return 0, err
		}
		if !row {
			return s.c.Changes(), nil
		}
	}
}

// Reset ends a run. The next run must bind every argument.
func (s *Stmt) Reset() {
	sqlite3.Xsqlite3_reset(s.c.tls, s.p)
	for _, p := range s.extra {
		libc.Xfree(s.c.tls, p)
	}
	s.extra, s.used, s.err = s.extra[:0], 0, nil
}

// ColInt returns a column as an integer. NULL is 0.
func (s *Stmt) ColInt(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

// ColFloat returns a column as a floating-point number. NULL is 0.
func (s *Stmt) ColFloat(i int) float64 {
	return sqlite3.Xsqlite3_column_double(s.c.tls, s.p, int32(i))
}

// ColNull reports whether a column is NULL.
func (s *Stmt) ColNull(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) == sqlite3.SQLITE_NULL
}

// ColRaw returns the bytes of a column without a copy. They are valid until the next Step or Reset.
// It returns nil for NULL.
func (s *Stmt) ColRaw(i int) []byte {
	// The pointer is read before the length, because reading it may convert the column and change
	// its length.
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), n)
}

// ColBytes returns a copy of the bytes of a column. NULL is nil, an empty blob is not.
func (s *Stmt) ColBytes(i int) []byte {
	raw := s.ColRaw(i)
	if raw == nil && s.ColNull(i) {
		return nil
	}
	return append(make([]byte, 0, len(raw)), raw...)
}

// ColText returns a copy of the text of a column. NULL is "".
func (s *Stmt) ColText(i int) string { return string(s.ColRaw(i)) }
