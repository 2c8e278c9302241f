package catalog

import "testing"

// Of two questions for a namespace's mark that are on their way at once, the one
// that was asked last may be heard first: that it found none yet is no reset.
func TestAnAnswerThatWasOvertakenIsNoReset(t *testing.T) {
	t.Parallel()
	var b marks
	making, looking := b.Begin(), b.Begin()
	if lost, _ := b.Update("ns", "mark", making); lost {
		t.Error("the first mark was reported as a reset")
	}
	if lost, _ := b.Update("ns", "", looking); lost {
		t.Error("an answer from before the mark was created was reported as a reset")
	}
	if lost, was := b.Update("ns", "", b.Begin()); !lost || was != "mark" {
		t.Errorf("a mark that has gone: lost %t, was %q", lost, was)
	}
}
