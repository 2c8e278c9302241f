package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestRedisOnAFullDiskLosesNothing fills the disk of a server's append-only file. A server that
// syncs every second refuses writes, which the engine reports as full. It accepts them again once
// there is room. A server that syncs always exits, and the engine is unavailable until it is
// started again. No answered job is lost (fault D2).
//
// C9.1, C9.11, C13.9
func TestRedisOnAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	proctest.NeedRoot(t)
	proctest.Need(t, "nsenter")
	for sync, round := range map[string]func(*redisDisk){"everysec": (*redisDisk).recovers,
		"always": (*redisDisk).isStartedAgain} {
		t.Run(sync, func(t *testing.T) {
			t.Parallel()
			d := newRedisDisk(t, sync)
			for range counts(1, 50) {
				d.fill()
				round(d)
				d.drain()
			}
			t.Logf("%d pushes answered, %d refused as full, %d without an answer", d.answered, d.full, d.open)
		})
	}
}

// redisDisk is a server with its files on a small disk, and the results of the pushes.
type redisDisk struct {
	*testing.T
	server  *redistest.Server
	engine  *redisengine.Engine
	ballast string // a file that fills a part of the disk

	mu   sync.Mutex
	jobs map[string]bool // by job ID: true if the push was answered, false if it may have been executed

	answered, full, open int
}

func newRedisDisk(t *testing.T, sync string) *redisDisk {
	t.Helper()
	folder := t.TempDir()
	holder := proctest.Start(t, proctest.Options{Prepare: func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	}}, "smalldisk", folder, "6m")
	if !holder.Await("mounted", 1, patience) {
		t.Fatal("no small disk was mounted", holder.Lines())
	}

	inside := fmt.Sprintf("/proc/%d", holder.Pid())
	server := redistest.Single(t, redistest.AOF(sync), redistest.Config("dir %q", folder),
		redistest.Config("auto-aof-rewrite-percentage 0"), redistest.Under("nsenter", "--mount="+inside+"/ns/mnt"))
	d := &redisDisk{T: t, server: server, ballast: filepath.Join(inside, "root", folder, "ballast"),
		jobs: map[string]bool{}}
	d.block()
	var err error
	cfg := redisengine.Config{URL: server.URL() + "?retry=100ms", Logger: slog.New(slog.DiscardHandler)}
	if d.engine, err = redisengine.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.engine.Close() })
	return d
}

// runSmallDisk mounts a tmpfs and holds its mount namespace until it is killed.
func runSmallDisk(args []string) error {
	if err := mountTmpfs(args[0], args[1]); err != nil {
		return err
	}
	fmt.Println("mounted")
	select {}
}

// block fills a third of the disk.
func (d *redisDisk) block() {
	d.Helper()
	if err := os.WriteFile(d.ballast, make([]byte, 2<<20), 0o600); err != nil {
		d.Fatal(err)
	}
}

func (d *redisDisk) unblock() {
	d.Helper()
	if err := os.Remove(d.ballast); err != nil {
		d.Fatal(err)
	}
}

// push pushes one job and notes the result.
func (d *redisDisk) push() error {
	j := duly.Job{Queue: theQueue.Name, Body: make([]byte, 8<<10)}
	j.ID, j.Made = duly.MakeID(&j), true
	results, err := d.engine.Push(context.Background(), []duly.Job{j})
	if err == nil {
		err = results[0].Err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.jobs[j.ID] = true
		d.answered++
	case errors.Is(err, duly.ErrFull):
		d.full++
	case errors.Is(err, duly.ErrUnavailable):
		d.jobs[j.ID] = false
		d.open++
	default:
		d.Errorf("a push on a full disk: %v", err)
	}
	return err
}

// fill lets several callers push until all of them are refused.
func (d *redisDisk) fill() {
	d.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10_000 {
				if d.push() != nil {
					return
				}
			}
			d.Error("the disk never became full")
		})
	}
	all.Wait()
}

// recovers checks a server that refuses writes and answers reads. It accepts writes again when
// there is room, without a restart.
func (d *redisDisk) recovers() {
	d.Helper()
	if err := d.push(); !errors.Is(err, duly.ErrFull) {
		d.Errorf("a push on a full disk: %v, want full", err)
	}
	_, err := d.engine.Reserve(d.Context(), duly.ReserveParams{Queues: []string{theQueue.Name}, Max: 1})
	if !errors.Is(err, duly.ErrFull) {
		d.Errorf("a reserve on a full disk: %v, want full", err)
	}
	for id, answered := range d.jobs {
		if _, err := d.engine.Get(d.Context(), theQueue, id); answered && err != nil {
			d.Errorf("job %s on a full disk: %v", id, err)
		}
	}

	d.unblock()
	redistest.Await(d, "a push is answered when there is room", func() bool { return d.push() == nil })
	// Docs/redis.md requires the rewrite, because the log may end with a part of a command.
	d.server.RewriteLog()
	d.server.Kill()
	d.server.Restart()
	d.server.RewriteLog()
}

// isStartedAgain checks a server that has exited because of the full disk.
func (d *redisDisk) isStartedAgain() {
	d.Helper()
	if err := d.push(); !errors.Is(err, duly.ErrUnavailable) {
		d.Errorf("a push to a server that has exited: %v, want unavailable", err)
	}
	d.unblock()
	d.server.Restart()
	d.server.RewriteLog()
}

// drain reserves all jobs. Each job whose push was answered must be delivered, and no job that
// was refused.
func (d *redisDisk) drain() {
	d.Helper()
	redistest.Await(d, "the queue can be read", func() bool {
		_, err := d.engine.Stats(d.Context(), theQueue)
		return err == nil
	})
	report, err := d.engine.Check(d.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		d.Errorf("Check: %v, %+v", err, report.Faults)
	}
	for {
		got, err := d.engine.Reserve(d.Context(), duly.ReserveParams{Queues: []string{theQueue.Name}, Max: 100,
			Lease: time.Hour})
		if err != nil {
			d.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		outcomes := make([]duly.SettleRequest, len(got))
		for i := range got {
			outcomes[i] = duly.SettleRequest{Receipt: got[i].Receipt, As: duly.Ack}
			if _, known := d.jobs[got[i].ID]; !known {
				d.Errorf("job %s was refused or acked, but was delivered", got[i].ID)
			}
			delete(d.jobs, got[i].ID)
		}
		errs, err := d.engine.Settle(d.Context(), "", outcomes)
		if err = errors.Join(append(errs, err)...); err != nil {
			d.Fatal(err)
		}
	}
	for id, answered := range d.jobs {
		if answered {
			d.Errorf("job %s is lost", id)
		}
	}
	clear(d.jobs)
	d.server.RewriteLog()
	d.block()
}
