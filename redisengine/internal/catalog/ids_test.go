package catalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/dulymq/duly"
)

// TestFailedShardsKeepOtherResults checks that the error of a shard is reported at its own IDs alone, that a
// retry asks only the shards without results, and that an error before any result is that of the call.
func TestFailedShardsKeepOtherResults(t *testing.T) {
	t.Parallel()
	q := &Queue{Shards: []*Shard{{}, {}, {}, {}}}
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", ""}
	down := errors.New("the shard is down")

	for _, together := range []bool{false, true} {
		refused := make([]error, len(ids))
		l := NewIDs(duly.Q("q"), ids, func(i int, err error) { refused[i] = err })

		// The last shard with an ID fails, so that others come before it also in turn.
		var shards []*Shard
		if err := l.EachShard(q, false, func(s *Shard, _ []int) error {
			shards = append(shards, s)
			return nil
		}); err != nil || len(shards) < 2 {
			t.Fatalf("the IDs are in %d shards, %v, want several", len(shards), err)
		}
		broken := shards[len(shards)-1]

		l = NewIDs(duly.Q("q"), ids, func(i int, err error) { refused[i] = err })
		var left []int
		err := l.EachShard(q, together, func(s *Shard, indexes []int) error {
			if s == broken {
				left = indexes
				return down
			}
			return nil
		})
		if !errors.Is(err, down) {
			t.Fatalf("EachShard returned %v", err)
		}

		// A retry asks the broken shard alone.
		if again := l.EachShard(q, together, func(s *Shard, indexes []int) error {
			if s != broken || !slices.Equal(indexes, left) {
				t.Errorf("the retry asked for the IDs %v", indexes)
			}
			return down
		}); !errors.Is(again, down) {
			t.Fatalf("the retry returned %v", again)
		}

		if err := l.Finish(err); err != nil {
			t.Errorf("Finish returned %v although most IDs have results", err)
		}
		for i, err := range refused[:len(ids)-1] {
			if slices.Contains(left, i) != errors.Is(err, down) {
				t.Errorf("%q has the error %v", ids[i], err)
			}
		}
		if !errors.Is(refused[len(ids)-1], duly.ErrInvalid) {
			t.Errorf("an empty ID has the error %v", refused[len(ids)-1])
		}
	}

	l := NewIDs(duly.Q("q"), ids[:1], func(int, error) { t.Error("an ID was refused") })
	if err := l.Finish(down); !errors.Is(err, down) {
		t.Errorf("Finish returned %v without any result, want the error", err)
	}
}
