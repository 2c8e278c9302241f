package codec

import "testing"

// TestJobsAreDistinctInAnyOrder checks that only repeated IDs make jobs equal. Concurrent calls are
// joined in any order, so one call's numbers may be lower than those of a call before it.
func TestJobsAreDistinctInAnyOrder(t *testing.T) {
	for _, c := range []struct {
		name     string
		calls    []*CallArgs
		distinct bool
	}{
		{"rising numbers", []*CallArgs{bare("1", "2"), bare("3")}, true},
		{"numbers that fall", []*CallArgs{bare("3"), bare("1", "2")}, true},
		{"a number twice", []*CallArgs{bare("3"), bare("1", "3")}, false},
		{"callers' IDs", []*CallArgs{named(bare("1"), "a"), named(bare("2"), "b")}, true},
		{"a caller's ID twice", []*CallArgs{named(bare("1"), "a"), named(bare("2"), "a")}, false},
		{"a caller's ID that is a number", []*CallArgs{named(bare("1"), "n2"), bare("2")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := distinct(c.calls); got != c.distinct {
				t.Errorf("distinct returns %t, want %t", got, c.distinct)
			}
		})
	}

	if got := packAbout([]*CallArgs{bare("3"), bare("1", "2")}, 3); got != "" {
		t.Errorf("bare jobs whose numbers fall are described by %q, want nothing", got)
	}
}

// bare returns a call with bare jobs that are due now.
func bare(numbers ...string) *CallArgs {
	return &CallArgs{Args: numbers, kinds: make([]jobKind, len(numbers)), whens: make([]int64, len(numbers))}
}

// named gives the first job of a call a caller's ID.
func named(c *CallArgs, id string) *CallArgs {
	c.names = []string{id}
	return c
}
