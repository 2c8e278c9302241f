package chaos

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestPowerLossUnderEverysecLosesTheStatedWindow simulates a power failure of a server that syncs
// its log every second. It kills the server and cuts the log to its length up to a second before.
// Nothing older than the documented two seconds is lost, and the rest is consistent (fault C4).
//
// C9.5
func TestPowerLossUnderEverysecLosesTheStatedWindow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	server := redistest.Single(t, redistest.AOF("everysec"), redistest.Config("auto-aof-rewrite-percentage 0"))
	s := lightLoad()
	makeQueues(t, server.URL(), s.queues)
	log := watchLog(t, server)
	beats := tellTheTime(t, server)
	f := setOut(t, server.URL(), 2, s)
	r := f.random()
	var undone []window
	var cut, behind int64
	kills := counts(3, 100)
	for range kills {
		restUpTo(r, 500*time.Millisecond, 2*time.Second)
		age := time.Duration(r.Int64N(int64(time.Second)))
		server.Kill()
		now := at()
		size, since := log.back(age)
		cut += log.cut(size)
		server.Restart()
		server.RewriteLog() // docs/redis.md requires a rewrite of the log after a crash
		log.reopen(server)
		// The server may answer up to a second before it writes, and longer while a slow sync
		// runs.
		from := since - time.Second.Microseconds()
		if kept := beats.lastKept(t, now); kept < from {
			behind, from = max(behind, since-kept), kept
		}
		undone = append(undone, window{from: from, to: now})
		f.serves()
	}
	f.rest()
	t.Logf("%d kills, and %d bytes of the log lost; during slow syncs the log lacked what was answered up to %v before",
		kills, cut, us(behind))
	f.conclude(trial{undone: undone})
	if behind > 10*second {
		t.Errorf("the log lacked what was answered %v before", us(behind))
	}
	if cut == 0 {
		t.Error("no byte of the log was lost, so the run proves nothing")
	}
	if n := f.logged("store reset"); n != 0 {
		t.Errorf("%d resets were logged, although only the last second was lost", n)
	}
}

// makeQueues creates the queues with the default settings.
func makeQueues(t *testing.T, url string, queues []string) {
	t.Helper()
	e, _ := openRedis(t, url)
	for _, q := range queues {
		if err := e.Configure(t.Context(), duly.Q(q), duly.QueueConfig{}); err != nil {
			t.Fatal(err)
		}
	}
}

// log records the length of a server's log over time.
type log struct {
	t    *testing.T
	path string
	mu   sync.Mutex
	seen []length
}

// length is the length of the log at a time in µs.
type length struct{ at, bytes int64 }

func watchLog(t *testing.T, server *redistest.Server) *log {
	t.Helper()
	l := &log{t: t, path: logOf(t, server)}
	l.look()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			l.look()
			time.Sleep(10 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	return l
}

// reopen follows the server to the log that it writes after a rewrite.
func (l *log) reopen(server *redistest.Server) {
	l.t.Helper()
	l.mu.Lock()
	l.path, l.seen = logOf(l.t, server), nil
	l.mu.Unlock()
	l.look()
}

func (l *log) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := at() // before the stat: the log has what was answered by then
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) { // a rewrite has replaced the log
		return
	}
	if err != nil {
		l.t.Error(err)
		return
	}
	l.seen = append(l.seen, length{now, info.Size()})
}

// back returns the length of the log this long ago, and the time of that measurement.
func (l *log) back(age time.Duration) (bytes, since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	then := at() - age.Microseconds()
	found := l.seen[0]
	for _, s := range l.seen {
		if s.at <= then {
			found = s
		}
	}
	return found.bytes, found.at
}

// cut shortens the log and returns by how many bytes.
func (l *log) cut(to int64) int64 {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	if err == nil {
		err = os.Truncate(l.path, to)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.seen = []length{{at(), to}}
	return info.Size() - to
}

// TestResetOfRedisWithoutLogIsReportedOnce kills a server that stores nothing on disk. Each
// process reports each reset once, and its queues work again (faults C4, F10).
//
// C9.5, C9.10
func TestResetOfRedisWithoutLogIsReportedOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	server := redistest.Single(t)
	f := setOut(t, server.URL(), 3, lightLoad())
	r := f.random()
	kills := counts(3, 100)
	var undone window
	for i := range kills {
		restUpTo(r, 300*time.Millisecond, time.Second)
		server.Kill()
		undone.to = at()
		server.Restart()
		f.serves()
		for n, j := range f.logs {
			redistest.Await(t, "a process reports the reset", func() bool { return j.Count("store reset") > i })
			if reported := j.Count("store reset"); reported != i+1 {
				t.Errorf("after %d kills process %d has reported %d resets:\n%s", i+1, n, reported, j)
			}
		}
	}
	f.rest()
	f.conclude(trial{undone: []window{undone}})
	if n := f.logged("store reset"); n != kills*len(f.engines) {
		t.Errorf("%d processes reported %d resets, want each to report %d", len(f.engines), n, kills)
	}
}
