package sqliteengine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// applicationID stands in the header of every file of ours: "DULY".
const applicationID = 0x44554c59

// pageSize keeps a row of up to two kilobytes in one page, without an overflow
// page of its own.
const pageSize = 8192

// migration brings a file from layout version-1 to version.
type migration struct {
	version int
	name    string // of its file in sql/migrations
	sql     string
}

// layout is every migration in order, without a gap: layout[i] leads to version
// i+1, and the last one to the layout that this version reads and writes.
type layout []migration

// current is the layout of this version of duly. It is read once and never
// changed.
var current = readMigrations()

func readMigrations() layout {
	files, err := sqlFiles.ReadDir("sql/migrations")
	if err != nil {
		panic(err)
	}

	var all layout
	for i, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic(fmt.Sprintf("sqliteengine: migration %s is not number %d", f.Name(), i+1))
		}
		text, err := sqlFiles.ReadFile("sql/migrations/" + f.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, migration{version, f.Name(), string(text)})
	}

	return all
}

func (l layout) version() int { return len(l) }

// header is what the first bytes of a database file say.
type header struct {
	missing bool // there is no file, or an empty one
	version int
}

// readHeader judges a file before SQLite touches it, so that a file which is
// not ours stays as it is, byte for byte.
func (l layout) readHeader(path string) (header, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{missing: true}, strayLog(path, "is not there")
	}
	if err != nil {
		return header{}, &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s can't be read: %s", path, plain(err))}
	}
	defer f.Close()
	return l.parseHeader(f, path)
}

func (l layout) parseHeader(f *os.File, path string) (header, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return header{}, notFile(path, err)
	}
	if info.Size() == 0 {
		return header{missing: true}, strayLog(path, "is empty")
	}

	var b [100]byte
	if _, err := io.ReadFull(f, b[:]); err != nil || string(b[:16]) != "SQLite format 3\x00" {
		return header{}, foreign(path, "it is not a SQLite file")
	}
	if id := binary.BigEndian.Uint32(b[68:]); id != applicationID {
		return header{}, foreign(path, "it belongs to another program")
	}

	page := int64(binary.BigEndian.Uint16(b[16:]))
	if page == 1 {
		page = 65536
	}
	// A file is shorter than its header says only if it was cut. Pages that are
	// still in the log count as well, so a log must be there to make up for it.
	if pages := int64(binary.BigEndian.Uint32(b[28:])); info.Size() < pages*page && !exists(path+"-wal") {
		return header{}, &duly.Error{Code: duly.CodeCorrupt, Cause: errCut,
			Message: fmt.Sprintf("%s is damaged: it is shorter than it says; restore a backup", path)}
	}

	const rollback = 1 // in place of 2, which tells of a log
	if b[18] == rollback {
		if err := strayLog(path, "is a backup or a copy"); err != nil {
			return header{}, err
		}
	}

	h := header{version: int(binary.BigEndian.Uint32(b[60:]))}
	return h, l.check(path, h.version)
}

// check refuses a layout that this version does not know.
func (l layout) check(path string, version int) error {
	switch {
	case version > l.version():
		return duly.Errorf(duly.CodeUnsupported, "%s has layout %d and this version knows %d at most; use the newer version of duly that wrote it",
			path, version, l.version())
	case version < 1:
		return foreign(path, "it has no layout of ours")
	}
	return nil
}

func foreign(path, why string) error {
	return &duly.Error{Code: duly.CodeCorrupt, Cause: errForeign,
		Message: fmt.Sprintf("%s is not a file of duly: %s; it was left as it is, give another path", path, why)}
}

// What is wrong with a file, for Restore: one that was cut may be replaced, one of
// another program may not.
var (
	errCut     = errors.New("sqliteengine: the file is shorter than it says")
	errForeign = errors.New("sqliteengine: not a file of duly")
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// create makes an empty store beside path and moves it there when it is whole,
// so that there is never half a store under that name.
func (l layout) create(path string) error {
	making := path + "-new"
	for _, end := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(making + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannotWrite(path, err)
		}
	}

	// Made here and not by SQLite, which would let the group read it.
	f, err := os.OpenFile(making, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cannotWrite(path, err)
	}
	if err = l.fill(making); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		os.Remove(making)
		return storeError(path, err)
	}

	return storeError(path, durable.SyncFolder(filepath.Dir(path)))
}

// fill gives an empty file every migration. Nothing is synced: whoever calls
// does that once, when all is there.
func (l layout) fill(path string) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	err = c.Exec(fmt.Sprintf(`PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA application_id = %d;`, pageSize, applicationID))
	if err == nil {
		err = l.migrate(c, 0)
	}
	if err == nil {
		err = c.Exec("PRAGMA journal_mode = WAL")
	}
	return errors.Join(err, c.Close())
}

// migrate runs every migration above version in one transaction.
func (l layout) migrate(c *sq.Conn, version int) error {
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, m := range l[version:] {
		if err := c.Exec(m.sql); err != nil {
			return errors.Join(fmt.Errorf("migration %s: %w", m.name, err), c.Exec("ROLLBACK"))
		}
	}
	return c.Exec(fmt.Sprintf("PRAGMA user_version = %d; COMMIT", l.version()))
}

// upgrade brings an older file to this version's layout, after a copy of it
// was put beside it.
func (l layout) upgrade(path string, version int) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	if version, err = userVersion(c); err == nil && version < l.version() {
		if err = saveCopy(c, path, version); err == nil {
			err = l.migrate(c, version)
		}
	}
	if err == nil {
		// The header of the file itself must tell the new version, for an older
		// duly reads it without the log. An upgrade that was cut short before
		// this point stands in the log, and is seen above.
		_, _, err = c.Checkpoint(sq.Truncate)
	}
	return errors.Join(err, c.Close())
}

// saveCopy writes PATH.vN, the file as it was before the migration. One that
// is there already is from a try that did not end, and is made anew.
func saveCopy(c *sq.Conn, path string, version int) error {
	copied := fmt.Sprintf("%s.v%d", path, version)
	making := copied + "-new"
	for _, old := range []string{making, copied} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	f, err := os.OpenFile(making, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()

	s, err := c.Prepare("VACUUM INTO ?1")
	if err != nil {
		return err
	}

	_, err = s.Text(1, making).Run()
	s.Finalize()
	if err != nil {
		return err
	}
	return durable.Place(f, copied)
}
