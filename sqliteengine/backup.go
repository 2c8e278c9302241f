package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

var _ duly.Backuper = (*Engine)(nil)

// A copy that is being made is PATH-backup-NUMBER.part, which is nobody's name
// for a backup of his own.
const copyMark, copyEnd = "-backup-", ".part"

// dropLeftovers removes what a process has left that was killed while it made or
// restored a backup. The caller holds the lock of the file.
func dropLeftovers(path string) error {
	beside, err := os.ReadDir(filepath.Dir(path))
	for _, f := range beside {
		if isLeftover(f.Name(), filepath.Base(path)) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), f.Name())))
		}
	}
	return errors.Join(err, dropKept(path, beside))
}

// isLeftover reports whether a file beside a store is a copy that was being made,
// or belongs to one.
func isLeftover(name, store string) bool {
	for _, mark := range []string{copyMark, restoreMark} {
		number, marked := strings.CutPrefix(name, store+mark)
		number, end, part := strings.Cut(number, copyEnd)
		if _, bad := strconv.ParseUint(number, 10, 64); marked && part && bad == nil && slices.Contains(asideEnds, end) {
			return true
		}
	}
	return false
}

// Backup implements duly.Backuper. It copies the file as it is at one commit,
// while everything else goes on, into a file beside it, and writes that out:
// the store is held still for as long as the disk takes, not for as long as the
// receiver does.
func (e *Engine) Backup(ctx context.Context, w io.Writer) error {
	made, err := os.CreateTemp(filepath.Dir(e.cfg.Path), filepath.Base(e.cfg.Path)+copyMark+"*"+copyEnd)
	if err != nil {
		return cannotWrite(e.cfg.Path, err)
	}
	defer os.Remove(made.Name())
	defer made.Close()

	// Not in a transaction, which VACUUM does not allow; it makes its own.
	err = e.onReader(ctx, func(ctx context.Context, c *conn) error {
		if err := e.readers.gate.enter(ctx); err != nil {
			return err
		}
		defer e.readers.gate.leave()
		_, err := c.stmt("backup").Text(1, made.Name()).Run()
		return err
	})
	if err != nil {
		return err
	}

	return copyOut(ctx, w, made)
}

// copyOut writes a file to its receiver, as long as that still waits for it.
func copyOut(ctx context.Context, w io.Writer, from io.Reader) error {
	if _, err := io.Copy(w, contextReader{ctx, from}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err, Message: fmt.Sprintf("the backup was not written to its end: %s", plain(err))}
	}
	return nil
}

// contextReader ends when its context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
