package catalog

import (
	"testing"
	"time"
)

// TestLateAnswerIsNotAReset checks two concurrent reads of a namespace's mark. If the later read is
// answered first, the earlier answer, which has no mark, does not count as a reset.
func TestLateAnswerIsNotAReset(t *testing.T) {
	t.Parallel()
	var b marks
	making, looking := b.Begin(), b.Begin()
	if lost, _ := b.Update("ns", "mark", making, time.Time{}); lost {
		t.Error("the first mark was reported as a reset")
	}
	if lost, _ := b.Update("ns", "", looking, time.Time{}); lost {
		t.Error("an answer from before the mark was created was reported as a reset")
	}
	if lost, was := b.Update("ns", "", b.Begin(), time.Time{}); !lost || was != "mark" {
		t.Errorf("a deleted mark: lost %t, was %q", lost, was)
	}
}
