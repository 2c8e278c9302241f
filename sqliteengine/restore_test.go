package sqliteengine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// The jobs of the stores in these tests. Those of the old store are only in its WAL.
var (
	oldJobs = []string{"old-1", "old-2"}
	newJobs = []string{"new"}
)

// restoring is a folder with a store of a killed process, and a backup of another store.
type restoring struct {
	*testing.T
	dir, path, backup string
}

func newRestoring(t *testing.T) *restoring {
	t.Helper()
	r := restoringIn(t, t.TempDir())
	e := mustOpen(t, filepath.Join(r.dir, "source.db"))
	r.push(e, newJobs...)
	var copied bytes.Buffer
	if err := e.Backup(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	r.must(os.WriteFile(r.backup, copied.Bytes(), 0o600))
	r.must(e.Close())
	r.removeAll("source.db")

	e = mustOpen(t, filepath.Join(r.dir, "killed.db"))
	r.push(e, oldJobs...)
	for _, end := range []string{"", "-wal", "-shm", "-ballast", "-lock"} {
		text, err := os.ReadFile(e.cfg.Path + end)
		r.must(err)
		r.must(os.WriteFile(r.path+end, text, 0o600))
	}
	r.must(e.Close())
	r.removeAll("killed.db")
	return r
}

func restoringIn(t *testing.T, dir string) *restoring {
	return &restoring{T: t, dir: dir, path: filepath.Join(dir, "duly.db"), backup: filepath.Join(dir, "backup.db")}
}

func (r *restoring) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// removeAll removes the files with that prefix.
func (r *restoring) removeAll(prefix string) {
	r.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, prefix) + "*")
	r.must(err)
	for _, name := range names {
		r.must(os.Remove(name))
	}
}

func (r *restoring) push(e *Engine, ids ...string) {
	r.Helper()
	for _, id := range ids {
		results, err := e.Push(r.Context(), []duly.Job{{Queue: "q", ID: id, Body: make([]byte, 5000)}})
		r.must(err)
		r.must(results[0].Err)
	}
}

func (r *restoring) params() RestoreParams {
	c := clock.NewFake()
	return RestoreParams{Path: r.path, From: r.backup, Clock: c}
}

func (r *restoring) restore(change func(*RestoreParams)) Restored {
	r.Helper()
	p := r.params()
	if change != nil {
		change(&p)
	}
	done, err := Restore(r.Context(), p)
	r.must(err)
	return done
}

// jobsOf returns the IDs of the jobs of a store and checks that it has no fault.
func (r *restoring) jobsOf(path string) (ids []string) {
	r.Helper()
	e, err := Open(r.Context(), Config{Path: path, Logger: quiet(), Manual: true})
	r.must(err)
	defer e.Close()
	page, err := e.List(r.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
	r.must(err)
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	report, err := e.Check(r.Context(), contract.CheckParams{})
	r.must(err)
	if len(report.Faults) > 0 {
		r.Errorf("%s has faults: %+v", path, report.Faults)
	}
	return ids
}

func (r *restoring) holds(path string, want []string) {
	r.Helper()
	if got := r.jobsOf(path); !slices.Equal(got, want) {
		r.Errorf("%s holds %q, want %q", path, got, want)
	}
}

// files returns the files of the folder with their hashes, without locks and ballasts.
func (r *restoring) files() map[string]string {
	r.Helper()
	found, err := os.ReadDir(r.dir)
	r.must(err)
	files := map[string]string{}
	for _, f := range found {
		if strings.HasSuffix(f.Name(), "-lock") || strings.HasSuffix(f.Name(), "-ballast") {
			continue
		}
		if strings.HasSuffix(f.Name(), "-shm") { // SQLite changes this file while the store is open
			files[f.Name()] = ""
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, f.Name()))
		r.must(err)
		files[f.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return files
}

// named checks that the folder has these files, without locks and ballasts.
func (r *restoring) named(want ...string) {
	r.Helper()
	var names []string
	for name := range r.files() {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		r.Errorf("the folder has %q, want %q", names, want)
	}
}

const keptName = "duly.db.before-restore-20300101-000000"

// C15.55: the backup replaces a store that was not closed, and the WAL of that store is kept
// in the old file.
func TestRestoreReplacesAStore(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	var stages []RestoreStage
	done := r.restore(func(p *RestoreParams) {
		p.Progress = func(stage RestoreStage, n, total int64) {
			if n > total || total == 0 {
				t.Errorf("%s: %d of %d", stage, n, total)
			}
			if len(stages) == 0 || stages[len(stages)-1] != stage {
				stages = append(stages, stage)
			}
		}
	})
	kept := filepath.Join(r.dir, keptName)
	info, err := os.Stat(r.path)
	r.must(err)
	if want := (Restored{Path: r.path, Kept: kept, Bytes: info.Size(), Jobs: 1}); done != want {
		t.Errorf("the answer is %+v, want %+v", done, want)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the store: %v", info.Mode())
	}
	if !slices.Equal(stages, []RestoreStage{RestoreCopy, RestoreCheck}) {
		t.Errorf("the stages are %q", stages)
	}
	r.named("backup.db", "duly.db", keptName)
	r.holds(r.path, newJobs)
	r.holds(kept, oldJobs)

	// Another restore brings the old store back.
	back := r.restore(func(p *RestoreParams) { p.From = kept })
	if back.Kept != kept+"-2" {
		t.Errorf("the new store is kept as %s", back.Kept)
	}
	r.holds(r.path, oldJobs)
	r.holds(back.Kept, newJobs)
	r.holds(kept, oldJobs)
}

func TestRestoreDiscardsTheOldStore(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	if done := r.restore(func(p *RestoreParams) { p.DiscardOld = true }); done.Kept != "" {
		t.Errorf("it was kept as %s", done.Kept)
	}
	r.named("backup.db", "duly.db")
	r.holds(r.path, newJobs)
}

func TestRestoreCreatesStore(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	r.path = filepath.Join(r.dir, "fresh", "duly.db")
	if done := r.restore(nil); done.Kept != "" {
		t.Errorf("nothing was kept as %s", done.Kept)
	}
	r.holds(r.path, newJobs)
}

func TestRestoreReadsFromReader(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	text, err := os.ReadFile(r.backup)
	r.must(err)
	r.restore(func(p *RestoreParams) { p.From, p.Reader = "standard input", bytes.NewReader(text) })
	r.holds(r.path, newJobs)
}

// A backup of an older layout is upgraded. The file of the backup is not changed.
func TestRestoreUpgradesAnOlderBackup(t *testing.T) {
	t.Parallel()
	for version := 1; version < current.version(); version++ {
		r := restoringIn(t, t.TempDir())
		unpack(t, fmt.Sprintf("testdata/v%d.db.gz", version), r.backup)
		before := r.files()["backup.db"]
		done := r.restore(nil)
		if h, err := current.readHeader(r.path); err != nil || h.version != current.version() {
			t.Errorf("from layout %d: the store has %+v, %v", version, h, err)
		}
		if done.Jobs != int64(goldenCount(version)) || r.files()["backup.db"] != before {
			t.Errorf("from layout %d: %+v", version, done)
		}
		r.named("backup.db", "duly.db")
	}
}

// A store that was closed can be replaced even if it is damaged.
func TestRestoreReplacesADamagedStore(t *testing.T) {
	t.Parallel()
	for how, damage := range map[string]func(path string) error{
		"the middle is lost": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte("x"), 5*pageSize), 2*pageSize)
			}
			return errors.Join(err, f.Close())
		},
		"the end is lost": func(path string) error { return os.Truncate(path, 3*pageSize) },
		"a newer version wrote it": func(path string) error {
			c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
			return errors.Join(err, c.Exec("PRAGMA user_version = 99"), c.Close())
		},
	} {
		r := newRestoring(t)
		r.must(mustOpen(t, r.path).Close())
		r.must(damage(r.path))
		r.restore(nil)
		r.named("backup.db", "duly.db", keptName)
		if r.holds(r.path, newJobs); t.Failed() {
			t.Fatal(how)
		}
	}
}

// refusalOfRestore is a restore that must fail and change nothing.
type refusalOfRestore struct {
	prepare func(r *restoring, p *RestoreParams)
	code    error
	says    string
}

func refusalsOfRestore() map[string]refusalOfRestore {
	return map[string]refusalOfRestore{
		"the store is open": {func(r *restoring, _ *RestoreParams) {
			mustOpen(r.T, r.path)
		}, duly.ErrUnavailable, "stop it, then restore"},
		"no path":  {func(_ *restoring, p *RestoreParams) { p.Path = "" }, duly.ErrInvalid, "path is missing"},
		"a folder": {func(r *restoring, p *RestoreParams) { p.Path = r.dir }, duly.ErrInvalid, "is not a regular file"},
		"no backup": {func(_ *restoring, p *RestoreParams) {
			p.From += "x"
		}, duly.ErrNotFound, "backup.dbx can't be read"},
		"the backup is a folder": {func(r *restoring, p *RestoreParams) { p.From = r.dir }, duly.ErrInvalid,
			"is not a regular file"},
		"the backup is the store": {func(r *restoring, p *RestoreParams) {
			p.From = r.path
		}, duly.ErrInvalid, "is the store itself"},
		"the backup is empty": {func(r *restoring, _ *RestoreParams) {
			r.must(os.Truncate(r.backup, 0))
		}, duly.ErrCorrupt, "backup.db is not a file of duly: it is empty"},
		"the backup is not a store": {func(r *restoring, _ *RestoreParams) {
			r.must(os.WriteFile(r.backup, []byte("my thesis"), 0o600))
		}, duly.ErrCorrupt, "backup.db is not a file of duly: it is not a SQLite file"},
		"the brought file is not a store": {func(_ *restoring, p *RestoreParams) {
			p.From, p.Reader = "standard input", strings.NewReader("my thesis")
		}, duly.ErrCorrupt, "standard input is not a file of duly"},
		"what is brought breaks": {func(_ *restoring, p *RestoreParams) {
			p.From, p.Reader = "standard input", io.MultiReader(strings.NewReader("SQLite"),
				brokenReader{io.ErrUnexpectedEOF})
		}, duly.ErrUnavailable, "standard input can't be copied"},
		// The disk is full: the error comes from a write.
		"the disk is full": {func(_ *restoring, p *RestoreParams) {
			p.From, p.Reader = "standard input", brokenReader{&os.PathError{Op: "write", Path: "x",
				Err: syscall.ENOSPC}}
		}, duly.ErrFull, "no space left on device; nothing was restored: free some space and repeat"},
		"the backup is an open store": {func(r *restoring, p *RestoreParams) {
			p.From = filepath.Join(r.dir, "other.db")
			r.push(mustOpen(r.T, p.From), "x")
		}, duly.ErrInvalid, "other.db-wal"},
		"the backup is a store that was not closed": {func(r *restoring, p *RestoreParams) {
			p.Path, p.From = r.backup, r.path
		}, duly.ErrInvalid, "make a backup of it first"},
		"the backup is an idle store": {func(r *restoring, p *RestoreParams) {
			p.From = filepath.Join(r.dir, "other.db")
			mustOpen(r.T, p.From)
			r.must(r.sql(p.From, "PRAGMA wal_checkpoint(TRUNCATE)"))
		}, duly.ErrUnavailable, "other.db is a store that is open in this process already"},
		"the backup is newer": {func(r *restoring, _ *RestoreParams) {
			r.must(r.sql(r.backup, "PRAGMA user_version = 99"))
		}, duly.ErrUnsupported, "backup.db has layout 99"},
		"the backup is cut": {func(r *restoring, _ *RestoreParams) {
			r.must(os.Truncate(r.backup, 3*pageSize))
		}, duly.ErrCorrupt, "backup.db is damaged"},
		"the backup is damaged": {func(r *restoring, _ *RestoreParams) {
			text, err := os.ReadFile(r.backup)
			r.must(err)
			for i := 2 * pageSize; i < len(text); i++ {
				text[i] ^= 0x55
			}
			r.must(os.WriteFile(r.backup, text, 0o600))
		}, duly.ErrCorrupt, "backup.db is damaged; nothing was restored"},
		"the backup has a fault": {func(r *restoring, _ *RestoreParams) {
			r.must(r.sql(r.backup, "UPDATE tallies SET ready = ready + 7"))
		}, duly.ErrCorrupt, "backup.db has faults (1), the first is counters_differ"},
		// The WAL has changes of the store, and can't be moved into what is left of it.
		"the store was not closed and is cut": {func(r *restoring, _ *RestoreParams) {
			r.must(os.Truncate(r.path, pageSize))
		}, duly.ErrCorrupt, "its write-ahead log can't be moved into it; nothing was restored"},
		"the store is another program's": {func(r *restoring, p *RestoreParams) {
			p.Path = filepath.Join(r.dir, "other.db")
			r.must(os.WriteFile(p.Path, nil, 0o600))
			r.must(r.sql(p.Path, "CREATE TABLE bookmarks (url TEXT)"))
		}, duly.ErrCorrupt, "other.db is not a file of duly and was left as it is"},
		"the store is gone and its log is there": {func(r *restoring, _ *RestoreParams) {
			r.must(os.Remove(r.path))
		}, duly.ErrCorrupt, "duly.db-wal belongs to another file"},
		"the store is a copy beside the log of another": {func(r *restoring, _ *RestoreParams) {
			text, err := os.ReadFile(r.backup)
			r.must(err)
			r.must(os.WriteFile(r.path, text, 0o600))
		}, duly.ErrCorrupt, "duly.db-wal belongs to another file"},
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// sql changes a file without the engine.
func (r *restoring) sql(path, text string) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(c.Exec(text), c.Close())
}

// C15.55: a refused restore changes no file and leaves no file behind.
func TestRefusedRestoreChangesNoFile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs without -short: a refused restore starts no goroutine")
	}
	for what, c := range refusalsOfRestore() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRestoring(t)
			p := r.params()
			c.prepare(r, &p)
			before := r.files()
			done, err := Restore(t.Context(), p)
			if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it answers %+v, %v; want %v with %q", done, err, duly.CodeOf(c.code), c.says)
			}

			if strings.Contains(fmt.Sprint(err), restoreMark) {
				t.Errorf("the error names a file of its own: %v", err)
			}
			if after := r.files(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the files were %v, and are %v", before, after)
			}
		})
	}
}

// The error of a restore names the process that has the store open.
func TestRestoreNamesTheProcessThatHasTheStore(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	mustOpen(t, r.path)
	p := proctest.Start(t, proctest.Options{}, "restore", r.path, r.backup)
	r.must(p.Wait(time.Minute))
	says := strings.Join(p.Lines(), " ")
	want := fmt.Sprintf("%s is open in another process (%d); stop it, then restore", r.path, os.Getpid())
	if !strings.Contains(says, want) {
		t.Errorf("it says %q, want %q", says, want)
	}
}

// A canceled restore leaves nothing behind, both while it copies and while it checks.
func TestRestoreEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	for _, stage := range []RestoreStage{RestoreCopy, RestoreCheck} {
		r := newRestoring(t)
		before := r.files()
		ctx, cancel := context.WithCancel(t.Context())
		p := r.params()
		p.Progress = func(at RestoreStage, _, _ int64) {
			if at == stage {
				cancel()
			}
		}

		if _, err := Restore(ctx, p); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: it answers %v", stage, err)
		}
		if after := r.files(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the files were %v, and are %v", stage, before, after)
		}
	}
}

// A restore that is killed before its rename leaves the old file with a second hard link.
func TestOpenRemovesTheLinkOfAKilledRestore(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	r.must(foldWAL(r.path))
	kept, other := filepath.Join(r.dir, keptName), r.path+keptMark+"20290101-000000"
	r.must(os.WriteFile(other, []byte("an older store"), 0o600))
	if err := os.Link(r.path, kept); err != nil {
		t.Skip(err)
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal", "-ballast"} {
		r.must(os.WriteFile(r.path+restoreMark+"123"+copySuffix+end, nil, 0o600))
	}
	r.holds(r.path, oldJobs)
	r.named("backup.db", "duly.db", filepath.Base(other))

	r.must(os.Link(r.path, filepath.Join(r.dir, "second.db")))
	mustRefuse(t, r.path, duly.ErrInvalid, "hard link")
}

// Where hard links are not possible, keepOld calls copyFile. The copy has all jobs of the old store.
func TestCopyOfTheOldStoreIsComplete(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	r.must(foldWAL(r.path))
	kept := filepath.Join(r.dir, keptName)
	r.must(copyFile(r.path, kept))
	r.holds(kept, oldJobs)
	r.named("backup.db", "duly.db", keptName)
}

// A lease of the backup has run out since, so its job stalls. Jobs acked after the backup are
// ready again.
func TestRestoredLeasesRunOut(t *testing.T) {
	t.Parallel()
	r := restoringIn(t, t.TempDir())
	c := clock.NewFake()
	open := func() *Engine {
		e, err := Open(t.Context(), Config{Path: r.path, Clock: c, Manual: true, Logger: quiet()})
		r.must(err)
		return e
	}
	take := func(e *Engine) duly.Delivery {
		t.Helper()
		ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
		r.must(err)
		if len(ds) != 1 {
			t.Fatalf("%d jobs were delivered, want 1", len(ds))
		}
		return ds[0]
	}
	e := open()
	r.push(e, "leased", "later")
	d := take(e)
	f, err := os.Create(r.backup)
	r.must(err)
	r.must(errors.Join(e.Backup(t.Context(), f), f.Close()))
	for _, d := range []duly.Delivery{d, take(e)} {
		errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
		r.must(errors.Join(err, errs[0]))
	}
	r.must(e.Close())

	c.Advance(time.Hour)
	r.restore(nil)
	e = open()
	defer e.Close()
	if d := take(e); d.ID != "later" || d.Stalls != 0 {
		t.Errorf("the first is %s with %d stalls, want later without one", d.ID, d.Stalls)
	}
	if d := take(e); d.ID != "leased" || d.Stalls != 1 || d.Attempt != 1 {
		t.Errorf("the second is %s with %d stalls, want leased with one", d.ID, d.Stalls)
	}
}

// A restore by root keeps the owner of the store.
func TestRestoreKeepsOwnerOfStore(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}

	const user = 12345 // the ID of any other user
	r := newRestoring(t)
	r.must(os.Chown(r.dir, user, user))
	r.must(os.Chown(r.path, user, user))

	for _, path := range []string{r.path, filepath.Join(r.dir, "new.db")} {
		r.restore(func(p *RestoreParams) { p.Path = path })
		for _, end := range []string{"", "-lock"} {
			info, err := os.Stat(path + end)
			r.must(err)
			if got := fmt.Sprintf("%+v", info.Sys()); !strings.Contains(got, "Uid:12345") {
				t.Errorf("%s%s is %s", path, end, got)
			}
		}
	}
}

// A power cut must not bring back the WAL of the old store: its removal is synced before the
// rename. Even if that WAL exists, it is not read into the new file.
func TestRestoredFileIgnoresOldWAL(t *testing.T) {
	t.Parallel()
	r := newRestoring(t)
	log, err := os.ReadFile(r.path + "-wal")
	r.must(err)
	r.restore(nil)
	r.must(os.WriteFile(r.path+"-wal", log, 0o600))
	mustRefuse(t, r.path, duly.ErrCorrupt, r.path+"-wal")
	r.must(os.Remove(r.path + "-wal"))
	r.holds(r.path, newJobs)
}
