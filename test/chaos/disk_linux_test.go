package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
)

// TestFullDiskRefusesAndRecovers fills a small file system. Pushes are then refused as full, and
// stored jobs stay complete. Pushing works again when there is room, without a restart.
//
// C9.11, C9.12
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	proctest.NeedRoot(t)
	p := proctest.Start(t, proctest.Options{Prepare: func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}}, "fulldisk", t.TempDir())
	err := p.Wait(2 * time.Minute)
	for _, line := range p.Lines() {
		t.Log(line)
		if strings.HasPrefix(line, "BAD ") {
			t.Fail()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runFullDisk mounts a tmpfs, fills it and checks the store. The mount ends with the process.
func runFullDisk(args []string) error {
	folder := args[0]
	if err := mountTmpfs(folder, "12m"); err != nil {
		return err
	}
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		return err
	}
	engine, err := openStore(filepath.Join(folder, "duly.db"))
	if err != nil {
		return err
	}
	f := &fullDisk{engine: engine, stored: map[string]bool{}}
	f.fill()
	f.look()
	f.work()
	if err := os.Remove(ballast); err != nil {
		return err
	}
	f.recover()
	f.drain()
	return engine.Close()
}

// mountTmpfs mounts a file system of this size in the mount namespace of the process.
func mountTmpfs(folder, size string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size)
}

type fullDisk struct {
	engine drainable
	stored map[string]bool
}

func (f *fullDisk) bad(format string, args ...any) { fmt.Printf("BAD "+format+"\n", args...) }

func (f *fullDisk) push() error {
	j := duly.Job{Queue: theQueue.Name, Body: make([]byte, 8<<10), Lease: time.Second}
	j.ID, j.Made = duly.MakeID(&j), true
	results, err := f.engine.Push(context.Background(), []duly.Job{j})
	if err == nil {
		err = results[0].Err
	}
	if err == nil {
		f.stored[j.ID] = true
	}
	return err
}

// fill pushes until the disk is full.
func (f *fullDisk) fill() {
	for range 100_000 {
		if err := f.push(); err != nil {
			fmt.Printf("full after %d jobs: %v\n", len(f.stored), err)
			if !errors.Is(err, duly.ErrFull) {
				f.bad("the push was refused with %v, want full", err)
			}
			return
		}
	}
	f.bad("the disk never became full")
}

// look checks that every job is stored whose push was answered.
func (f *fullDisk) look() {
	for id := range f.stored {
		if _, err := f.engine.Get(context.Background(), theQueue, id); err != nil {
			f.bad("job %s: %v", id, err)
		}
	}
}

// work checks that jobs can still be reserved and acknowledged.
func (f *fullDisk) work() {
	ctx := context.Background()
	got, err := f.engine.Reserve(ctx, duly.ReserveParams{Queues: []string{theQueue.Name}, Max: 5})
	if err != nil || len(got) != 5 {
		f.bad("reserve on a full disk: %d jobs, %v", len(got), err)
	}
	for _, d := range got {
		errs, err := f.engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
		switch {
		case err == nil && errs[0] == nil:
			delete(f.stored, d.ID)
		default:
			f.bad("ack on a full disk: %v, %v", errs, err)
		}
	}
	fmt.Printf("on the full disk %d jobs were taken\n", len(got))
}

// recover frees space. After that, a push must succeed within ten seconds. The promise is one
// second.
func (f *fullDisk) recover() {
	begun := time.Now()
	for {
		err := f.push()
		if err == nil {
			fmt.Printf("pushing again %v after there was room\n", time.Since(begun))
			return
		}
		if time.Since(begun) > 10*time.Second {
			f.bad("no push 10s after there was room: %v", err)
			return
		}
		time.Sleep(10 * time.Millisecond) // a disk has no clock that a test could move
	}
}

// drain checks that exactly the jobs that were stored and not acknowledged are delivered.
func (f *fullDisk) drain() {
	ctx := context.Background()
	report, err := f.engine.Check(ctx, contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		f.bad("Check: %v, %+v", err, report.Faults)
	}
	for deadline := time.Now().Add(30 * time.Second); len(f.stored) > 0 && time.Now().Before(deadline); {
		got, err := f.engine.Reserve(ctx, duly.ReserveParams{Queues: []string{theQueue.Name}, Max: 100, Lease: time.Minute})
		if err != nil {
			f.bad("reserve: %v", err)
			return
		}
		if len(got) == 0 {
			f.engine.Wait(ctx, duly.WaitParams{Queues: []string{theQueue.Name}, Timeout: time.Second})
		}
		for _, d := range got {
			if !f.stored[d.ID] {
				f.bad("job %s was acked, or its push refused, and came out", d.ID)
			}
			delete(f.stored, d.ID)
			f.engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
		}
	}
	if len(f.stored) > 0 {
		f.bad("%d stored jobs are lost", len(f.stored))
	}
}
