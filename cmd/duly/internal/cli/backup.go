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

// backupView is what `duly backup --json` prints.
type backupView struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func backupCommand(a *app) *cobra.Command {
	force, pool := false, ""
	cmd := a.command("backup FILE", "Copy the whole storage to a file while the engine runs",
		`The copy is of one moment and opens as an engine. It stands under its name only when it is whole and synced. "-" writes
it to standard output. A server is asked at its admin address; of its pools the default one is copied, or that of --pool.`,
		`  duly backup duly-2030-01-01.db
  duly backup - | zstd > duly.db.zst
  duly check --url sqlite:duly-2030-01-01.db`,
		func(ctx context.Context, p *printer, args []string) error {
			if args[0] == "-" {
				return a.withAdmin(ctx, func(admin Admin, _ place) error { return admin.BackupOf(ctx, pool, p.out) })
			}
			if _, err := os.Lstat(args[0]); err == nil && !force {
				return advise(&fs.PathError{Op: "backup", Path: args[0], Err: fs.ErrExist}, "choose another name, or add --force to replace it")
			}
			if partOfStore(args[0]) {
				return advise(&fs.PathError{Op: "backup", Path: args[0], Err: errors.New("belongs to a store that is open or was not closed")}, "choose another name")
			}
			return a.backupTo(ctx, p, pool, args[0])
		})
	cmd.Args = wants("FILE")
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	cmd.Flags().StringVar(&pool, "pool", "", "`name` of the server's pool to copy")
	return cmd
}

// partOfStore tells whether a name is that of a store in use, or of a file
// beside one. To put a copy in its place would lose all that is written from
// then on: the store's owner goes on with the file that has lost its name.
func partOfStore(path string) bool {
	beside := func(end string) bool { _, err := os.Stat(path + end); return err == nil }
	if beside("-wal") || beside("-shm") {
		return true
	}
	for _, end := range []string{"-wal", "-shm", "-lock", "-ballast"} {
		if file, found := strings.CutSuffix(path, end); found {
			if _, err := os.Stat(file); err == nil {
				return true
			}
		}
	}
	return false
}

// backupTo writes beside the file and renames at the end, so that a name never
// stands for half a copy.
func (a *app) backupTo(ctx context.Context, p *printer, pool, path string) (err error) {
	// CreateTemp makes it readable by its owner alone: it holds every body.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			at.Path = path // the name that was asked for
		}
		return err
	}
	forget := a.finally(func() { os.Remove(f.Name()) })
	defer forget()
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
	w := &counting{w: f, bar: bar}
	err = a.withAdmin(ctx, func(admin Admin, _ place) error { return admin.BackupOf(ctx, pool, w) })
	bar.end()
	if err == nil {
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

// counting counts what goes through.
type counting struct {
	w   io.Writer
	bar *progress
	n   int64
}

// Write implements io.Writer.
func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.bar.add(int64(n), 0)
	return n, err
}
