package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly/internal/durable"
)

// backupView is the JSON of `duly backup`.
type backupView struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func backupCommand(a *app) *cobra.Command {
	force, pool := false, ""
	cmd := a.command("backup FILE", "Copy the whole storage to a file while the engine runs",
		`The copy is a consistent snapshot, and can be opened as an engine. It gets its name when it is complete and synced.
"-" writes it to standard output. For a server it needs the admin address, and copies the default pool or that of
--pool.`,
		`  duly backup duly-2030-01-01.db
  duly backup - | zstd > duly.db.zst
  duly check --url sqlite:duly-2030-01-01.db`,
		func(ctx context.Context, p *printer, args []string) error {
			path := args[0]

			// A pipe has no name to rename, so the snapshot goes to standard output directly.
			if path == "-" {
				return a.withAdmin(ctx, func(admin Admin, _ endpoint) error { return admin.BackupOf(ctx, pool, p.out) })
			}

			// Lstat also finds a dangling link, which the rename would replace.
			if _, err := os.Lstat(path); err == nil && !force {
				err := &fs.PathError{Op: "backup", Path: path, Err: fs.ErrExist}
				return withHint(err, "choose another name, or add --force to replace it")
			}

			// Not even --force may replace a store in use.
			if belongsToStore(path) {
				err := &fs.PathError{Op: "backup", Path: path, Err: errStoreInUse}
				return withHint(err, "choose another name")
			}
			return a.backupTo(ctx, p, pool, path)
		})

	cmd.Args = takesArgs("FILE")
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	cmd.Flags().StringVar(&pool, "pool", "", "`name` of the server's pool to copy")
	return cmd
}

var errStoreInUse = errors.New("belongs to a store that is open or was not closed")

// belongsToStore reports whether a path belongs to a store in use, or to one of its
// other files. If a backup replaced it, the store's process would continue to write to
// the old file, which no longer has a name.
func belongsToStore(path string) bool {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }

	// SQLite removes these files when the last connection closes, so the store is open or was not closed.
	if exists(path+"-wal") || exists(path+"-shm") {
		return true
	}
	for _, suffix := range []string{"-wal", "-shm", "-lock", "-ballast"} {
		if store, found := strings.CutSuffix(path, suffix); found && exists(store) {
			return true
		}
	}
	return false
}

// backupTo writes a temporary file in the same folder and renames it at the end, so that
// the name never belongs to an incomplete copy.
func (a *app) backupTo(ctx context.Context, p *printer, pool, path string) (err error) {
	// CreateTemp makes the file readable only by its owner, because it has all bodies.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			pathErr.Path = path // instead of the temporary name
		}
		return err
	}

	// A second signal skips deferred calls, so the temporary file needs an abort hook too.
	remove := a.onAbort(func() { os.Remove(f.Name()) })
	defer remove()
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()

	bar := a.newProgress("backup", 0)
	if bar != nil {
		bar.bytes = true
	}

	// The size of a snapshot is known only at its end, so the bar counts bytes without a total.
	w := &countingWriter{w: f, bar: bar}
	err = a.withAdmin(ctx, func(admin Admin, _ endpoint) error { return admin.BackupOf(ctx, pool, w) })
	bar.end()
	if err == nil {
		// Place syncs before it renames, so that the name survives a crash only with a complete file.
		err = durable.Place(f, path)
	}
	if err != nil {
		return err
	}

	if p.json {
		return p.value(backupView{path, w.n})
	}
	p.printf("wrote %s, %s\n", oneLine(path), bytesText(w.n))
	return nil
}

// countingWriter counts the bytes that it writes.
type countingWriter struct {
	w   io.Writer
	bar *progress
	n   int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.bar.add(int64(n), 0)
	return n, err
}
