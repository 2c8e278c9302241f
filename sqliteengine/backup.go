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
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// A copy in progress is named PATH-backup-NUMBER.part, which no user would choose for a
// backup.
const copyMark, copySuffix = "-backup-", ".part"

// dropLeftovers removes files of a process that was killed during a backup or restore. The
// caller holds the lock of the file.
func dropLeftovers(path string) error {
	beside, err := os.ReadDir(filepath.Dir(path))
	for _, f := range beside {
		if isLeftover(f.Name(), filepath.Base(path)) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), f.Name())))
		}
	}
	return errors.Join(err, dropKept(path, beside))
}

// isLeftover reports whether a file is a copy in progress or belongs to one.
func isLeftover(name, store string) bool {
	for _, mark := range []string{copyMark, restoreMark} {
		number, marked := strings.CutPrefix(name, store+mark)
		number, end, part := strings.Cut(number, copySuffix)
		if _, bad := strconv.ParseUint(number, 10, 64); marked && part && bad == nil &&
			slices.Contains(copySuffixes, end) {
			return true
		}
	}
	return false
}

// copyOut writes a file to w until ctx ends.
func copyOut(ctx context.Context, w io.Writer, from io.Reader) error {
	if _, err := io.Copy(w, contextReader{ctx, from}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("the backup is incomplete: %s", storefile.Reason(err))}
	}
	return nil
}

// contextReader fails when its context ends.
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
