package sqliteengine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dulymq/duly"
)

// C4.82: a backup is a snapshot of the store, made while other calls continue.
func TestBackupOpensAsAStore(t *testing.T) {
	t.Parallel()
	r := &damagedStore{T: t, path: filepath.Join(t.TempDir(), "duly.db"), ids: map[string]bool{}}
	r.open()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int)
	go func() { // pushes two jobs in each call, so each commit has a pair
		n := 0
		for ; ctx.Err() == nil; n += 2 {
			r.e.Push(ctx, []duly.Job{{Queue: damagedQueue.Name}, {Queue: damagedQueue.Name, Body: make([]byte, 4000)}})
		}
		done <- n
	}()
	r.push(duly.Job{ID: "before"})
	var copied bytes.Buffer
	if err := r.e.Backup(context.Background(), &copied); err != nil {
		t.Fatal(err)
	}
	stop()
	<-done
	r.e.Close()

	r.path = filepath.Join(t.TempDir(), "restored.db")
	if err := os.WriteFile(r.path, copied.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	if _, err := r.e.Get(context.Background(), damagedQueue, "before"); err != nil {
		t.Errorf("a job from before the backup: %v", err)
	}
	s, err := r.e.Stats(context.Background(), damagedQueue)
	if err != nil || s.Sizes.Ready%2 != 1 || s.Sizes.Ready != s.Counters.Pushed {
		t.Errorf("the backup holds %+v, %v: not one moment", s, err)
	}
	if faults := r.check(false); len(faults) > 0 {
		t.Errorf("the backup has faults: %+v", faults)
	}
}

// Backup returns the error of a failing writer and leaves no file behind.
func TestBackupReturnsTheErrorOfItsWriter(t *testing.T) {
	t.Parallel()
	r := newDamagedStore(t)
	r.open()
	if err := r.e.Backup(context.Background(), failingWriter{}); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the backup ended with %v, want unavailable", err)
	}
	left, err := filepath.Glob(r.path + "-backup-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the wire broke") }

// Open removes the files of a killed backup and keeps all others.
func TestCopiesOfKilledBackupsAreRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly[1].db")
	keep := []string{"-backup-monday", "-backup-20261122", "-backup-.part", "-backup-x.part", "-copy.part"}
	for _, end := range append([]string{"-backup-1234567.part"}, keep...) {
		if err := os.WriteFile(path+end, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if err := mustOpen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if exists(path + "-backup-1234567.part") {
		t.Error("the copy is still there")
	}

	for _, end := range keep {
		if !exists(path + end) {
			t.Errorf("%s is gone", end)
		}
	}
}
