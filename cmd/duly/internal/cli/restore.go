package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/sqliteengine"
)

// restoreView is what `duly restore --json` prints.
type restoreView struct {
	File  string `json:"file"`
	From  string `json:"from"`
	Jobs  int64  `json:"jobs"`
	Bytes int64  `json:"bytes"`
	Kept  string `json:"kept,omitempty"`
}

func restoreCommand(a *app) *cobra.Command {
	discard := false
	cmd := a.command("restore FILE", "Replace the store by a backup, after a check of it",
		`Stop the server and its workers first: a store that a process has open is refused. FILE is a backup, or "-" for one
on standard input. It is copied beside the store and checked there, as by check. Then it takes the store's name at once:
a restore that is killed leaves the old store or the new one. The old store stays as NAME.before-restore-TIME.

The store is the file of --url, or duly.db in the data folder. Jobs that were pushed after the backup are not in it.
Jobs that were finished after it run again. Leases of its moment run out, which counts as a stall.`,
		`  duly restore duly-2030-01-01.db
  duly restore duly-2030-01-01.db --url sqlite:/var/lib/duly/duly.db
  zstd -dc duly.db.zst | duly restore -
  duly restore duly-data/duly.db.before-restore-20300101-063000   # the way back`,
		func(ctx context.Context, p *printer, args []string) error { return a.restore(ctx, p, args[0], discard) })
	cmd.Args = wants("FILE")
	cmd.Flags().BoolVar(&discard, "discard-old", false, "remove the old store instead of keeping it")
	return cmd
}

func (a *app) restore(ctx context.Context, p *printer, from string, discard bool) error {
	url, err := a.storeToReplace()
	if err != nil {
		return err
	}
	params := sqliteengine.RestoreParams{From: from, DiscardOld: discard, Clock: a.env.Clock}
	if from == "-" {
		if a.env.Terminal(a.env.Stdin) {
			return misusef("FILE is -, and standard input is a terminal; pipe a backup into it")
		}
		params.From, params.Reader = "the backup on standard input", a.env.Stdin
	}

	bars := stageBars{a: a}
	params.Progress = bars.set
	done, err := open.Restore(ctx, url, params)
	bars.end()
	if err != nil {
		return a.adviseOnRestore(inStoreURL(err, url, "--url"), url)
	}
	if p.json {
		return p.value(restoreView{done.Path, from, done.Jobs, done.Bytes, done.Kept})
	}
	p.printf("restored %s from %s: %s, %s\n",
		oneLine(done.Path), oneLine(from), plural(done.Jobs, "job"), bytesText(done.Bytes))
	if done.Kept != "" {
		p.printf("the old store is %s; remove it when you no longer need it\n", oneLine(done.Kept))
	}
	return nil
}

// storeFile is the store of a server that was given no engine, in its data folder.
const storeFile = "duly.db"

// storeToReplace returns the URL of the store. The server does not run, so its
// address, by which other commands find it, says nothing.
func (a *app) storeToReplace() (string, error) {
	if url := a.setting(a.url, "DULY_URL"); url != "" {
		return url, nil
	}
	if dir := a.setting(a.data, "DULY_DATA"); dir != "" {
		return open.File(filepath.Join(dir, storeFile)), nil
	}
	folders := a.dataFolders()
	for _, dir := range folders {
		path := filepath.Join(dir, storeFile)
		if _, err := os.Lstat(path); err == nil {
			return open.File(path), nil
		}
	}
	return "", misusef("there is no %s in %s; name the store to restore: --url sqlite:PATH",
		storeFile, strings.Join(folders, " or "))
}

// adviseOnRestore takes away what an error's code advises: that is for a server or
// for a queue. The error says what to do itself.
func (a *app) adviseOnRestore(err error, url string) error {
	if remote(url) {
		return adviseOn(duly.CodeUnsupported, err, "write: %s restore FILE --url sqlite:PATH", a.program())
	}
	for _, code := range []duly.Code{duly.CodeUnavailable, duly.CodeUnsupported, duly.CodeCorrupt} {
		err = adviseOn(code, err, "")
	}
	return adviseOn(duly.CodeNotFound, err, "check the path")
}

// stageBars shows the stages of a restore, one bar after the other.
type stageBars struct {
	a     *app
	stage sqliteengine.RestoreStage
	bar   *progress
}

func (b *stageBars) set(stage sqliteengine.RestoreStage, done, total int64) {
	if stage != b.stage {
		b.end()
		b.stage, b.bar = stage, b.a.newProgress(string(stage), total)
		if b.bar != nil {
			b.bar.bytes = stage == sqliteengine.RestoreCopy
		}
	}
	b.bar.set(done, total, 0)
}

func (b *stageBars) end() { b.bar.end() }
