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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// applicationID marks the header of every file of duly: "DULY".
const applicationID = 0x44554c59

// pageSize is large enough to keep rows of up to two kilobytes without overflow pages.
const pageSize = 8192

// migration upgrades a file from layout version-1 to version.
type migration struct {
	version int
	name    string // name of the file in sql/migrations
	sql     string
}

// layout lists all migrations in order: layout[i] leads to version i+1. The last migration leads to
// the layout that this version of duly reads and writes.
type layout []migration

// current is the layout of this version of duly. It never changes.
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

// header is the part of a database file's header that Open checks.
type header struct {
	missing bool // whether the file does not exist or is empty
	version int
}

// readHeader checks a file before SQLite opens it, so that the file of another program
// stays unchanged.
func (l layout) readHeader(path string) (header, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{missing: true}, checkStrayWAL(path, "is not there")
	}
	if err != nil {
		return header{}, &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s can't be read: %s", path, storefile.Reason(err))}
	}
	defer f.Close()
	return l.parseHeader(f, path)
}

func (l layout) parseHeader(f *os.File, path string) (header, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return header{}, notRegular(path, err)
	}
	if info.Size() == 0 {
		return header{missing: true}, checkStrayWAL(path, "is empty")
	}

	var b [100]byte
	if _, err := io.ReadFull(f, b[:]); err != nil || string(b[:16]) != "SQLite format 3\x00" {
		return header{}, foreignFile(path, "it is not a SQLite file")
	}
	if id := binary.BigEndian.Uint32(b[68:]); id != applicationID {
		return header{}, foreignFile(path, "it belongs to another program")
	}

	page := int64(binary.BigEndian.Uint16(b[16:]))
	if page == 1 {
		page = 65536
	}
	// Pages that are still in the WAL count as well. So a file without a WAL was cut if it is
	// shorter than its header says.
	if pages := int64(binary.BigEndian.Uint32(b[28:])); info.Size() < pages*page && !exists(path+"-wal") {
		return header{}, &duly.Error{Code: duly.CodeCorrupt, Cause: errCut,
			Message: fmt.Sprintf("%s is damaged: it is shorter than its header says; restore a backup", path)}
	}

	// The read version is 2 in a file with a WAL.
	const rollback = 1
	if b[18] == rollback {
		if err := checkStrayWAL(path, "is a backup or a copy"); err != nil {
			return header{}, err
		}
	}

	h := header{version: int(binary.BigEndian.Uint32(b[60:]))}
	return h, l.check(path, h.version)
}

// check returns an error for a layout that this version does not know.
func (l layout) check(path string, version int) error {
	switch {
	case version > l.version():
		return contract.Errorf(duly.CodeUnsupported,
			"%s has layout %d, this version knows only up to %d; use the newer version of duly that wrote it",
			path, version, l.version())
	case version < 1:
		return foreignFile(path, "it has no layout of duly")
	}
	return nil
}

// foreignFile returns the error for a file of another program.
func foreignFile(path, why string) error {
	return &duly.Error{Code: duly.CodeCorrupt, Cause: errForeign,
		Message: fmt.Sprintf("%s is not a file of duly: %s; it was left as it is, give another path", path, why)}
}

// Causes of errors that Restore distinguishes: it may replace a file that was cut, but not a file
// of another program.
var (
	errCut     = errors.New("sqliteengine: the file is shorter than its header says")
	errForeign = errors.New("sqliteengine: the file was not created by duly")
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// create makes an empty store under a temporary name and renames it, so that path never
// names a partial store.
func (l layout) create(path string) error {
	making := path + "-new"
	for _, end := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(making + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storefile.NotWritable(path, err)
		}
	}

	// SQLite would create a file that the group can read.
	f, err := os.OpenFile(making, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return storefile.NotWritable(path, err)
	}
	if err = l.initialize(making); err == nil {
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

// initialize runs all migrations on an empty file. It does not sync, because create syncs the
// complete file.
func (l layout) initialize(path string) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
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

// migrate runs all migrations above version in one transaction.
func (l layout) migrate(c *sqliteconn.Conn, version int) error {
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

// upgrade migrates an older file to this layout, after it has saved a copy of the file.
func (l layout) upgrade(path string, version int) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	if version, err = userVersion(c); err == nil && version < l.version() {
		if err = saveCopy(c, path, version); err == nil {
			err = l.migrate(c, version)
		}
	}
	if err == nil {
		// An older duly reads the version from the file's header without the WAL. A
		// migration that was interrupted before this point is in the WAL, and
		// userVersion above has seen it.
		_, _, err = c.Checkpoint(sqliteconn.Truncate)
	}
	return errors.Join(err, c.Close())
}

// saveCopy writes PATH.vN, a copy of the file before the migration. It replaces a copy
// left by an interrupted try.
func saveCopy(c *sqliteconn.Conn, path string, version int) error {
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
