package sqliteengine

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dulymq/duly"
)

// A gathering writer answers every caller, including the last one, after which no further call
// comes.
func TestGatherAnswersAllCallers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, err := Open(ctx, Config{Path: filepath.Join(t.TempDir(), "duly.db"), Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	const callers, calls = 32, 50
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				if r, err := e.Push(ctx, []duly.Job{{Queue: "q"}}); err != nil || r[0].Status != duly.Created {
					t.Error(r, err)
				}
			}
		})
	}

	all.Wait()
	if r, err := e.Push(ctx, []duly.Job{{Queue: "q"}}); err != nil || r[0].Status != duly.Created {
		t.Error(r, err)
	}
	if s, err := e.Stats(ctx, duly.Q("q")); err != nil || s.Sizes.Ready != callers*calls+1 {
		t.Errorf("%+v, %v", s.Sizes, err)
	}
}
