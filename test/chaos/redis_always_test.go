package chaos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// TestPowerLossUnderAlwaysLosesNothing simulates a power failure of a server that syncs its log
// before each answer. It kills the server and cuts off what it wrote since its last sync, at any
// byte. The server loads the log with the torn tail, and nothing that was answered is lost (fault C7).
//
// C9.1, C9.5
func TestPowerLossUnderAlwaysLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	proctest.Need(t, "strace")
	server := redistest.Single(t, redistest.AOF("always"), redistest.Config("auto-aof-rewrite-percentage 0"))
	s := lightLoad()
	s.rest = 20 * time.Millisecond
	f := setOut(t, server.URL(), 2, s)
	r := f.random()
	var lost int64
	kills, torn := counts(4, 150), 0
	for range kills {
		trace := filepath.Join(t.TempDir(), "trace")
		// Delay the syncs, so that a kill often hits the time between a write and its sync.
		ended := watchServer(t, server, trace, "-e", "trace=write,fdatasync", "-s", "0", "-e",
			"inject=fdatasync:delay_enter=30000")
		restUpTo(r, 200*time.Millisecond, 600*time.Millisecond)
		server.Kill()
		ended()

		path := logOf(t, server)
		unsynced := unsyncedBytes(readTrace(t, trace), filepath.Base(path))
		cut := r.Int64N(unsynced + 1)
		if cut > 0 {
			torn++
		}
		lost += cut
		shorten(t, path, cut)
		server.Restart()
		server.RewriteLog() // docs/redis.md requires a rewrite of the log after a crash
		f.serves()
	}
	f.rest()
	t.Logf("%d kills, %d of them with a torn tail, %d bytes lost", kills, torn, lost)
	f.conclude(trial{})
	if torn == 0 {
		t.Error("no tail was torn, so the run proves nothing")
	}
}

// logOf returns the path of the file that the server appends to.
func logOf(t *testing.T, server *redistest.Server) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(server.Folder(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the server's log is %v, %v", files, err)
	}
	return files[0]
}

// unsyncedBytes returns how many bytes were written to a file since its last sync.
func unsyncedBytes(calls []call, name string) (n int64) {
	for _, c := range calls {
		if !c.ok || !strings.Contains(c.text, name+">") {
			continue
		}
		switch c.name {
		case "write":
			size, _ := strconv.ParseInt(c.text[strings.LastIndex(c.text, " ")+1:], 10, 64)
			n += size
		case "fdatasync":
			n = 0
		}
	}
	return n
}

// shorten cuts this many bytes off the end of a file.
func shorten(t *testing.T, path string, by int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-by)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnsyncedBytesAreCounted checks that a server's trace yields the bytes that a power failure
// may take.
func TestUnsyncedBytesAreCounted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trace")
	text := `1 write(7</d/a.1.incr.aof>, ""..., 100) = 100
1 fdatasync(7</d/a.1.incr.aof>) = 0 (DELAYED)
1 write(8<socket:[1]>, ""..., 4) = 4
1 write(7</d/a.1.incr.aof>, ""..., 30) = 30
1 write(7</d/a.1.incr.aof>, ""..., 3) = 3
1 write(7</d/a.2.incr.aof>, ""..., 5) = 5
1 fdatasync(7</d/a.1.incr.aof> <unfinished ...>
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := unsyncedBytes(readTrace(t, path), "a.1.incr.aof"); n != 33 {
		t.Errorf("%d bytes are not synced, want 33", n)
	}
}
