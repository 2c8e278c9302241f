package chaos

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// TestKilledRedisUnderEverysecLosesWhatASyncHeldUp kills the process of a server that syncs its
// log every second. It measures how old the lost writes are. The server writes its log before it
// answers, so the kernel has it. But it does not write while a sync runs, for at most two
// seconds. What it answers in that time is lost with the process (fault C4).
//
// C9.5
func TestKilledRedisUnderEverysecLosesWhatASyncHeldUp(t *testing.T) {
	t.Parallel()
	t.Run("Disk", func(t *testing.T) {
		t.Parallel()
		k := newEverysec(t)
		for range counts(3, 100) {
			k.kill(k.restUpTo(400 * time.Millisecond))
		}
		k.report()
	})
	t.Run("SlowDisk", func(t *testing.T) {
		t.Parallel()
		proctest.Need(t, "strace")
		k := newEverysec(t)
		// A kill between two syncs loses nothing, so several kills are needed to show a loss.
		const loss = 100 * time.Millisecond
		most := counts(1, 20)
		for i := 0; i < most || k.furthest < loss && i < most+8; i++ {
			k.slowSyncs()
			k.kill(2500*time.Millisecond + k.restUpTo(time.Second))
		}
		k.report()
		if k.furthest < loss {
			t.Error("nothing was lost, although each sync took three seconds, so the run proves nothing")
		}
	})
}

// everysec is a server that syncs its log every second, and its losses.
type everysec struct {
	*testing.T
	server          *redistest.Server
	kills, answered int
	lost, unlucky   int // number of lost writes, and of kills that lost any
	furthest        time.Duration
}

func newEverysec(t *testing.T) *everysec {
	return &everysec{T: t, server: redistest.Single(t, redistest.AOF("everysec"),
		redistest.Config("auto-aof-rewrite-percentage 0"))}
}

func (k *everysec) restUpTo(most time.Duration) time.Duration {
	return time.Duration(time.Now().UnixNano() % int64(most))
}

// slowSyncs delays every sync of the server's log by three seconds.
func (k *everysec) slowSyncs() {
	k.Helper()
	watchServer(k.T, k.server, os.DevNull, "-e", "trace=fdatasync,fsync", "-e",
		"inject=fdatasync,fsync:delay_enter=3000000")
}

// watchServer attaches strace to a server and returns when it is attached. ended waits until the
// server and strace have ended.
func watchServer(t *testing.T, server *redistest.Server, out string, flags ...string) (ended func()) {
	t.Helper()
	info, _ := server.Must("INFO", "server").(string)
	_, pid, _ := strings.Cut(info, "process_id:")
	pid, _, _ = strings.Cut(pid, "\r\n")
	cmd := exec.Command("strace", append([]string{"-f", "-q", "-y", "-p", pid, "-o", out}, flags...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The error is the exit status of the killed server, so it is ignored.
	ended = sync.OnceFunc(func() { cmd.Wait() })
	t.Cleanup(func() { cmd.Process.Kill(); ended() })
	redistest.Await(t, "strace watches the server", func() bool {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		return err == nil && strings.Contains(string(status), "TracerPid:\t"+strconv.Itoa(cmd.Process.Pid))
	})
	return ended
}

// kill writes for a while, kills the server, starts it again and compares.
func (k *everysec) kill(after time.Duration) {
	k.Helper()
	key := "written:" + strconv.Itoa(k.kills)
	k.kills++
	written := make(chan []int64)
	go func() { written <- k.write(key) }()
	time.Sleep(after) // a real server uses the real clock
	killed := at()
	k.server.Kill()
	answered := <-written
	k.server.Restart()

	kept := map[int64]bool{}
	for _, sent := range momentsIn(k.T, k.server, key, 0) {
		kept[sent] = true
	}
	before := k.lost
	for _, sent := range answered {
		if !kept[sent] {
			k.lost++
			k.furthest = max(k.furthest, us(killed-sent))
		}
	}
	k.answered += len(answered)
	if k.lost > before {
		k.unlucky++
	}
}

// write appends the time to a list until the server is gone. It returns the answered times.
func (k *everysec) write(key string) (answered []int64) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := k.server.Dial(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	for {
		sent := at()
		if _, err := c.Do(ctx, "RPUSH", key, sent); err != nil {
			return answered
		}
		answered = append(answered, sent)
	}
}

func (k *everysec) report() {
	k.Helper()
	k.Logf("%d kills of the process: %d of %d answered writes lost, by %d kills; the oldest was answered %v before "+
		"its kill",
		k.kills, k.lost, k.answered, k.unlucky, k.furthest.Round(time.Millisecond))
	if k.answered == 0 {
		k.Error("no write was answered, so the run proves nothing")
	}
	if k.furthest > 10*2*time.Second { // ten times the documented window
		k.Errorf("a write was lost that was answered %v before the kill", k.furthest)
	}
}
