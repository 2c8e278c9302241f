package logtest_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly/internal/logtest"
)

func TestALogKeepsConcurrentWrites(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 50
	var log logtest.Log
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for range each {
				log.Logger().Info("from", "writer", i)
				_ = log.String()
			}
		})
	}

	all.Wait()
	lines := log.Lines("writer=3")
	if log.Count("msg=from") != writers*each || len(lines) != each || !strings.HasSuffix(lines[0], "writer=3\n") {
		t.Errorf("%d lines, %d of them of one writer: %q", log.Count("msg=from"), len(lines), log.String())
	}
	if n := log.CountLines("msg=from", "writer=3"); n != each {
		t.Errorf("%d lines contain both texts, want %d", n, each)
	}
	if log.Count("nothing") != 0 || log.Lines("nothing") != nil {
		t.Errorf("a text that was never logged was found in %q", log.String())
	}
}
