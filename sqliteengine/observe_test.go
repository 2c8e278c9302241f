package sqliteengine

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// Observe is called for every transaction, for its commit, and for every read.
func TestObserveIsCalledForEveryTransaction(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls, took := map[string]int{}, map[string]time.Duration{}
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Manual: true,
		Observe: func(call string, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			calls[call]++
			took[call] += d
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	const pushes = 3
	for range pushes {
		if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}}); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := e.Stats(t.Context(), duly.Q("q")); err != nil {
		t.Fatal(err)
	}

	mu.Lock()
	defer mu.Unlock()
	if calls["transaction"] < pushes || calls["commit"] < pushes || calls["read"] != 1 || took["commit"] <= 0 ||
		took["commit"] > took["transaction"] {
		t.Errorf("the observed calls are %v, %v", calls, took)
	}
}
