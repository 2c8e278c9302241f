package chaos

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
)

// runPusher pushes this many jobs one after another. It prints P after each answer and E after
// each error.
func runPusher(args []string) error {
	engine, err := openStore(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range n {
		j := duly.Job{Queue: theQueue.Name, Body: make([]byte, 100)}
		j.ID, j.Made = duly.MakeID(&j), true
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		results, err := engine.Push(ctx, []duly.Job{j})
		cancel()
		switch {
		case err != nil:
			fmt.Fprintf(os.Stdout, "E %s\n", duly.CodeOf(err))
			time.Sleep(5 * time.Millisecond) // gives the store time to recover
		case results[0].Err != nil:
			fmt.Fprintf(os.Stdout, "E %s\n", duly.CodeOf(results[0].Err))
		default:
			fmt.Fprintf(os.Stdout, "P %s\n", j.ID)
		}
	}
	return engine.Close()
}

// call is one system call of a trace.
type call struct {
	name   string
	text   string
	failed bool // strace has injected the failure
	ok     bool
}

var (
	wholeCall = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += +(-?\d+|\?)(.*)$`)
	cutCall   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	restCall  = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += +(-?\d+|\?)(.*)$`)
)

// readTrace reads the output of strace. Each call is at the time of its end.
func readTrace(t *testing.T, path string) (calls []call) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begun := map[string]string{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		if m := cutCall.FindStringSubmatch(line); m != nil {
			begun[m[1]] = m[3]
		} else if m := restCall.FindStringSubmatch(line); m != nil {
			calls = append(calls, newCall(m[2], begun[m[1]]+m[3], m[4], m[5]))
		} else if m := wholeCall.FindStringSubmatch(line); m != nil {
			calls = append(calls, newCall(m[2], m[3], m[4], m[5]))
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

func newCall(name, text, result, rest string) call {
	// SQLite ignores a failed sync of the folder. The engine repeats it after it has opened the
	// store, and checks the result. So only syncs of the store's files count here.
	ofStore := strings.Contains(text, "duly.db>") || strings.Contains(text, "duly.db-wal>")
	return call{
		name: name, text: text, ok: !strings.HasPrefix(result, "-") && result != "?",
		failed: ofStore && strings.Contains(rest, "INJECTED"),
	}
}

func (c call) writesLog() bool {
	return strings.Contains(c.name, "write") && strings.Contains(c.text, "duly.db-wal>")
}

// emptiesLog reports whether the call cuts the log to no bytes, as the end of each recovery does.
func (c call) emptiesLog() bool {
	return c.name == "ftruncate" && c.ok && strings.HasSuffix(c.text, "duly.db-wal>, 0")
}

func (c call) syncs() bool { return c.name == "fsync" || c.name == "fdatasync" }

func (c call) answers() bool { return c.name == "write" && strings.Contains(c.text, `, "P `) }

// opens reports whether the call opens the database file itself.
func (c call) opens() bool {
	return strings.HasPrefix(c.name, "open") && c.ok && strings.Contains(c.text, `duly.db"`)
}

// opensLog reports whether the call opens the log. SQLite opens it after the database file, the
// recovery before it.
func (c call) opensLog() bool {
	return strings.HasPrefix(c.name, "open") && c.ok && strings.Contains(c.text, `duly.db-wal"`)
}

func (c call) syncsLog() bool { return c.syncs() && c.ok && strings.Contains(c.text, "duly.db-wal>") }

// renames reports whether the call gives a complete store its name.
func (c call) renames() bool {
	return strings.HasPrefix(c.name, "rename") && c.ok && strings.Contains(c.text, `duly.db"`)
}

// traced runs the pusher under strace.
func traced(t *testing.T, path string, pushes int, flags ...string) (*proctest.Process, []call) {
	t.Helper()
	trace := path + ".trace"
	before := append([]string{"strace", "-f", "--seccomp-bpf", "-y", "-s", "64", "-o", trace,
		"-e", "trace=open,openat,write,pwrite64,pwritev,ftruncate,fsync,fdatasync,rename,renameat,renameat2"}, flags...)
	p := proctest.Start(t, proctest.Options{Before: before}, "pusher", path, strconv.Itoa(pushes))
	if err := p.Wait(2 * time.Minute); err != nil && len(flags) == 0 {
		t.Fatal(err, p.Lines())
	}
	return p, readTrace(t, trace)
}

// TestSyncPrecedesAnswer checks that a sync of the same file lies between a push's last write and
// its answer.
//
// C4.9, C9.3, C11.22
func TestSyncPrecedesAnswer(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "strace")
	path := filepath.Join(t.TempDir(), "duly.db")
	_, calls := traced(t, path, 50)
	folderSyncedAfterRename(t, filepath.Dir(path), calls)
	answers, dirty := 0, true
	for _, c := range calls {
		switch {
		case c.writesLog():
			dirty = true
		case c.syncs() && c.ok && strings.Contains(c.text, "duly.db-wal>"):
			dirty = false
		case c.answers():
			answers++
			if dirty {
				t.Fatalf("answer %d was given before its last write was synced", answers)
			}
			dirty = true // the next answer needs its own sync
		}
	}
	if answers != 50 {
		t.Fatalf("saw %d answers in the trace, want 50", answers)
	}
}

// folderSyncedAfterRename checks that the new store's name is synced before the store is opened.
//
// C11.29
func folderSyncedAfterRename(t *testing.T, folder string, calls []call) {
	t.Helper()
	renames, dirty := 0, false
	for _, c := range calls {
		switch {
		case c.renames():
			renames++
			dirty = true
		case c.syncs() && c.ok && strings.HasSuffix(c.text, "<"+folder+">"):
			dirty = false
		case c.opens() && dirty:
			t.Error("the store was opened before its folder was synced")
			return
		}
	}
	if renames != 1 {
		t.Errorf("saw %d renames in the trace, want 1", renames)
	}
}

// TestSyncFailureStopsAnswers makes the n-th sync or write fail. No push may be answered until
// the file is opened again, and nothing that was answered is lost.
//
// C9.4
func TestSyncFailureStopsAnswers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	proctest.Need(t, "strace")
	// The short form lets every second of the first calls fail.
	most, step := 20, 2
	if proctest.Long() {
		most, step = 50, 1
	}
	runs, recovered := 0, 0
	for n := 1; n <= most; n += step {
		runs += 2
		// The calls that SQLite uses here. There are many writes per sync, and the first hundred
		// create the file.
		if failCall(t, "fsync", n, 40+n) {
			recovered++
		}
		if failCall(t, "pwrite64", 20*n, 40+4*n) {
			recovered++
		}
	}
	if 2*recovered < runs {
		t.Errorf("only %d of %d runs answered again after a failure", recovered, runs)
	}
}

// failCall performs one run. It reports whether a call on the store's files failed and pushes were
// answered again afterwards.
func failCall(t *testing.T, what string, n, pushes int) (recovered bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duly.db")
	p, calls := traced(t, path, pushes, "-e", fmt.Sprintf("inject=%s:error=EIO:when=%d", what, n))
	broken, failures := false, 0
	var log rewritten
	for _, c := range calls {
		log.note(c)
		switch {
		case c.failed:
			broken = true
			failures++
		case c.opens():
			if broken && !log.whole() {
				t.Errorf("%s %d failed, and the store was opened before its log was written again: %+v", what, n, log)
			}
			broken = false
		case c.answers() && broken:
			t.Fatalf("%s %d failed, and a push was answered before the file was opened again", what, n)
		case c.answers() && failures > 0:
			recovered = true
		}
	}
	mustHold(t, path, p.Lines())
	return recovered
}

// rewritten follows the log after a failure. Every byte has to be written and synced again before
// SQLite reads the log, because the kernel may have dropped what it could not write.
type rewritten struct {
	written                bool // the log has content
	opened, again, settled bool // since the last failure
}

func (r *rewritten) note(c call) {
	switch {
	case c.failed:
		r.opened, r.again, r.settled = false, false, false
	case c.opensLog():
		r.opened = true
	case c.emptiesLog():
		r.written = false
	case c.writesLog() && c.ok:
		r.written = true
		r.again = r.opened
	case c.syncsLog():
		r.settled = r.opened && (r.again || !r.written)
	}
}

// whole reports whether the log is complete. An empty log is complete.
func (r *rewritten) whole() bool { return r.settled || !r.written }

// TestEmptyLogIsWhole checks that a log without content needs no rewrite. strace counts the calls of
// each thread, so a second call can fail just after a recovery has emptied the log.
func TestEmptyLogIsWhole(t *testing.T) {
	t.Parallel()
	var log rewritten
	log.note(newCall("pwrite64", `11</s/duly.db-wal>, "", 24, 32`, "24", ""))
	log.note(newCall("ftruncate", `11</s/duly.db-wal>, 0`, "0", ""))
	log.note(newCall("pwrite64", `11</s/duly.db-wal>, "", 32, 0`, "-1", " EIO (INJECTED)"))
	if !log.whole() {
		t.Errorf("a log that was emptied before the failure is not whole: %+v", log)
	}

	log.note(newCall("pwrite64", `11</s/duly.db-wal>, "", 24, 32`, "24", ""))
	if log.whole() {
		t.Errorf("a log with content is whole before it was written again: %+v", log)
	}
}

// mustHold opens the store and checks that it has every answered push.
func mustHold(t *testing.T, path string, lines []string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return // the very first sync failed, so there is neither a store nor an answer
	}
	engine, err := openStore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for _, line := range lines {
		if id, ok := strings.CutPrefix(line, "P "); ok {
			if _, err := engine.Get(context.Background(), theQueue, id); err != nil {
				t.Fatalf("an answered push is lost: %v", err)
			}
		}
	}
	report, err := engine.Check(context.Background(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Fatalf("Check: %v, %+v", err, report.Faults)
	}
}
