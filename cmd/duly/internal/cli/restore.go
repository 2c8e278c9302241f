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

// restoreView is the JSON of `duly restore`.
type restoreView struct {
	File  string `json:"file"`
	From  string `json:"from"`
	Jobs  int64  `json:"jobs"`
	Bytes int64  `json:"bytes"`
	Kept  string `json:"kept,omitempty"`
}

func restoreCommand(a *app) *cobra.Command {
	discard := false
	cmd := a.command("restore FILE", "Replace the store by a backup, after checking it",
		`Stop the server and its workers first: restore refuses a store that a process has open. FILE is a backup, or "-" for
standard input. It is copied to the folder of the store and checked like by duly check. Then it atomically gets the
store's name: a restore that is killed leaves the old store or the new one. The old store is renamed to
NAME.before-restore-TIME.

The store is the file of --url, or duly.db in the data folder. Jobs that were pushed after the backup are lost. Jobs
that finished after the backup run again. Leases at the time of the backup expire, which counts as a stall.`,
		`  duly restore duly-2030-01-01.db
  duly restore duly-2030-01-01.db --url sqlite:/var/lib/duly/duly.db
  zstd -dc duly.db.zst | duly restore -
  duly restore duly-data/duly.db.before-restore-20300101-063000   # to undo it`,
		func(ctx context.Context, p *printer, args []string) error { return a.restore(ctx, p, args[0], discard) })
	cmd.Args = takesArgs("FILE")
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
		// Reading a terminal would wait silently for a person to type a database.
		if a.env.Terminal(a.env.Stdin) {
			return usageErrorf("FILE is -, but standard input is a terminal; pipe a backup into it")
		}
		params.From, params.Reader = "the backup on standard input", a.env.Stdin
	}

	bars := stageBars{a: a}
	params.Progress = bars.set
	done, err := open.Restore(ctx, url, params)
	bars.end()
	if err != nil {
		return a.withRestoreHint(namingURLFlag(err, url, "--url"), url)
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

// storeFile is the default store of a server in its data folder.
const storeFile = "duly.db"

// storeToReplace returns the URL of the store. The server is not running, so the command
// cannot use the address in the data folder.
func (a *app) storeToReplace() (string, error) {
	// A given URL or folder is the only candidate, so that no other store is replaced by accident.
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
	return "", usageErrorf("no %s in %s; name the store to restore: --url sqlite:PATH",
		storeFile, strings.Join(folders, " or "))
}

// withRestoreHint removes the hints of codes that are for a server or a queue. The errors
// of a restore say what to do.
func (a *app) withRestoreHint(err error, url string) error {
	if isRemote(url) {
		return withHintFor(duly.CodeUnsupported, err, "write: %s restore FILE --url sqlite:PATH", a.program())
	}
	for _, code := range []duly.Code{duly.CodeUnavailable, duly.CodeUnsupported, duly.CodeCorrupt} {
		err = withHintFor(code, err, "")
	}
	return withHintFor(duly.CodeNotFound, err, "check the path")
}

// stageBars shows a progress bar for each stage of a restore.
type stageBars struct {
	a     *app
	stage sqliteengine.RestoreStage
	bar   *progress
}

func (b *stageBars) set(stage sqliteengine.RestoreStage, done, total int64) {
	// Each stage counts something else, so each has its own bar.
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
