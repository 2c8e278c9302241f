package sqliteengine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
)

// runRestore restores a backup: args are the store and the backup. It uses one thread for its
// own system calls, because strace counts them per thread.
func runRestore(args []string) error {
	runtime.LockOSThread()
	done, err := Restore(context.Background(), RestoreParams{Path: args[0], From: args[1], Clock: clock.NewFake()})
	fmt.Println("restored", done.Kept, err)
	return nil
}

// steps returns the system calls that change the disk. A kill before one of them equals a kill after
// the previous one.
func steps() []string {
	calls := []string{"linkat", "renameat", "unlinkat", "fsync", "ftruncate"}
	if proctest.Long() {
		calls = append(calls, "openat", "write", "pwrite64")
	}
	return calls
}

// C15.55: a kill before any step leaves the old or the new store, each complete, and a
// repeated restore succeeds.
func TestRestoreIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs without -short: a killed process reports no data race")
	}
	proctest.Need(t, "strace")
	template := newRestoring(t)
	for _, call := range steps() {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			kills := map[string]int{}
			for n := 1; ; n++ {
				r := restoringIn(t, filepath.Join(t.TempDir(), fmt.Sprint(n)))
				r.must(os.CopyFS(r.dir, os.DirFS(template.dir)))
				killed := r.killAt(call, n)
				if !killed {
					break
				}
				kills[r.oldOrNew()]++
				r.must(os.RemoveAll(r.dir))
			}

			t.Logf("%v", kills)
			if kills["old"] == 0 {
				t.Errorf("no kill at %s left the old store: %v", call, kills)
			}
		})
	}
}

// killAt runs a restore in a process that is killed before its n-th call of that name. It reports
// whether the restore makes so many calls.
func (r *restoring) killAt(call string, n int) bool {
	r.Helper()
	inject := fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n)
	strace := []string{"strace", "-f", "-qq", "-o", filepath.Join(r.dir, "trace"), "-e", "trace=" + call, "-e", inject}
	p := proctest.Start(r, proctest.Options{Before: strace}, "restore", r.path, r.backup)
	err := p.Wait(time.Minute)
	r.must(os.Remove(filepath.Join(r.dir, "trace")))
	said := strings.Join(p.Lines(), "\n")
	if err == nil && !strings.HasSuffix(said, "<nil>") {
		r.Fatalf("a restore that was not killed says %q", said)
	}
	return err != nil
}

// oldOrNew returns which store exists after a kill, and restores again.
func (r *restoring) oldOrNew() string {
	r.Helper()
	got := r.jobsOf(r.path)
	which := map[bool]string{true: "new", false: "old"}[slices.Equal(got, newJobs)]
	if which == "old" && !slices.Equal(got, oldJobs) {
		r.Fatalf("the store has %q, which is neither the old one nor the new", got)
	}

	// An open store has no second name. Only the old store is left of the killed restore.
	want := []string{"backup.db", "duly.db"}
	if which == "new" {
		want = append(want, keptName)
		r.holds(filepath.Join(r.dir, keptName), oldJobs)
	}
	r.named(want...)

	done := r.restore(nil)
	r.holds(r.path, newJobs)
	r.holds(done.Kept, got)
	return which
}

// The old WAL is deleted before the old file gets its second name, and that exists before the
// new file is renamed. Each step is synced.
func TestRestoreSyncsItsStepsInOrder(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "strace")
	r := newRestoring(t)
	trace := filepath.Join(t.TempDir(), "trace")
	calls := "trace=fsync,?rename,renameat,?unlink,unlinkat,linkat"
	strace := []string{"strace", "-f", "-qq", "-y", "-o", trace, "-e", calls}
	p := proctest.Start(t, proctest.Options{Before: strace}, "restore", r.path, r.backup)
	if err := p.Wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	r.must(err)

	var steps []string
	for line := range strings.Lines(string(text)) {
		if step := r.stepOf(line); step != "" && (len(steps) == 0 || steps[len(steps)-1] != step) {
			steps = append(steps, step)
		}
	}
	want := []string{
		"sync of the store", "removal of the log", "sync of the folder", "second name", "sync of the folder",
		"sync of the copy", "rename", "sync of the folder",
	}
	if len(steps) < len(want) || !slices.Equal(steps[len(steps)-len(want):], want) {
		t.Errorf("the last steps are %q, want %q, in the trace\n%s", steps, want, text)
	}
}

// stepOf returns which step a line of a trace shows, or "".
func (r *restoring) stepOf(line string) string {
	call := strings.Join(strings.Fields(line)[1:], " ")
	switch {
	case strings.Contains(call, "unlink") && strings.Contains(call, r.path+`-wal"`):
		return "removal of the log"
	case strings.HasPrefix(call, "linkat("):
		return "second name"
	case strings.HasPrefix(call, "rename") && strings.Contains(call, `"`+r.path+`"`):
		return "rename"
	case !strings.HasPrefix(call, "fsync("):
		return ""
	case strings.Contains(call, "<"+r.dir+">"):
		return "sync of the folder"
	case strings.Contains(call, "<"+r.path+">"):
		return "sync of the store"
	case strings.Contains(call, restoreMark) && strings.Contains(call, copySuffix+">"):
		return "sync of the copy"
	}

	return ""
}
