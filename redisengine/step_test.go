package redisengine

import (
	"strconv"
	"testing"

	"github.com/dulymq/duly"
)

// TestStepOfATopicIsBounded checks that a Step of a topic with many shards and groups does a
// limited amount of work, and that the next Step continues.
//
// C12.138
func TestStepOfATopicIsBounded(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	const shards, groups = 256, 5
	topic := duly.Q("t")
	if err := g.e.ConfigureTopic(t.Context(), topic, duly.TopicConfig{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		if _, err := g.e.CreateGroup(t.Context(), duly.Q("t@g"+strconv.Itoa(i)), duly.FromStart); err != nil {
			t.Fatal(err)
		}
	}

	for i, want := range []struct {
		calls int
		more  bool
	}{{1000, true}, {shards*(1+groups) - 1000, false}, {1000, true}} {
		var more bool
		calls := g.calls(func() {
			var err error
			if more, err = g.e.Step(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
		})
		if n := calls["FCALL"]; n != want.calls || more != want.more {
			t.Errorf("Step %d made %d calls and returned more %v, want %d and %v", i, n, more, want.calls, want.more)
		}
	}
}
