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

// C4.82: a backup is a store of one moment, made while everything goes on.
func TestBackupOpensAsAStore(t *testing.T) {
	t.Parallel()
	r := &ruin{T: t, path: filepath.Join(t.TempDir(), "duly.db"), ids: map[string]bool{}}
	r.open()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int)
	go func() { // pushes of two at a time, each pair in one commit
		n := 0
		for ; ctx.Err() == nil; n += 2 {
			r.e.Push(ctx, []duly.Job{{Queue: ruinQueue.Name}, {Queue: ruinQueue.Name, Body: make([]byte, 4000)}})
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
	if _, err := r.e.Get(context.Background(), ruinQueue, "before"); err != nil {
		t.Errorf("a job from before the backup: %v", err)
	}
	s, err := r.e.Stats(context.Background(), ruinQueue)
	if err != nil || s.Sizes.Ready%2 != 1 || s.Sizes.Ready != s.Counters.Pushed {
		t.Errorf("the backup holds %+v, %v: not one moment", s, err)
	}
	if faults := r.check(false); len(faults) > 0 {
		t.Errorf("the backup has faults: %+v", faults)
	}
}

// A receiver that fails is told of, and no file is left beside the store.
func TestBackupToAFailingReceiver(t *testing.T) {
	t.Parallel()
	r := newRuin(t)
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

// What a process that was killed has left behind goes when the file is opened;
// what anybody else has put beside it stays.
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
