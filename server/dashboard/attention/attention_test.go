package attention

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/dashboard/history"
)

// P2.1: each condition holds beyond its threshold and not at it. The table has all eleven.
func TestConditions(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	ready := duly.Stats{Sizes: duly.Sizes{Ready: 3}}
	seen := map[string]bool{}
	for _, tt := range []struct {
		code     string
		over, at Queue
		// server is for conditions of the server.
		sick, well Server
	}{
		{code: "late",
			over: Queue{Stats: &duly.Stats{OldestReady: time.Minute + 1}},
			at:   Queue{Stats: &duly.Stats{OldestReady: time.Minute}}},
		{code: "no_consumer",
			over: Queue{Stats: &ready, Recent: history.Recent{Waiting: ago(time.Minute)}},
			at:   Queue{Stats: &ready, Recent: history.Recent{Waiting: ago(time.Minute - 1)}}},
		{code: "dead_growing",
			over: Queue{Recent: history.Recent{Died: ago(15*time.Minute - 1)}},
			at:   Queue{Recent: history.Recent{Died: ago(15 * time.Minute)}}},
		{code: "stalls", over: Queue{Stalls: 61}, at: Queue{Stalls: 60}},
		{code: "limit_saturated",
			over: Queue{Recent: history.Recent{Full: ago(5*time.Minute + 1)}},
			at:   Queue{Recent: history.Recent{Full: ago(5 * time.Minute)}}},
		{code: "dead_dropped",
			over: Queue{Recent: history.Recent{Dropped: ago(time.Hour - 1)}},
			at:   Queue{Recent: history.Recent{Dropped: ago(time.Hour)}}},
		{code: "paused_long",
			over: Queue{Recent: history.Recent{Paused: ago(24*time.Hour + 1)}},
			at:   Queue{Recent: history.Recent{Paused: ago(24 * time.Hour)}}},
		{code: "engine_slow",
			sick: Server{Slow: 251 * time.Millisecond}, well: Server{Slow: 250 * time.Millisecond}},
		{code: "store_reset",
			sick: Server{Reset: ago(24*time.Hour - 1)}, well: Server{Reset: ago(24 * time.Hour)}},
		{code: "not_stored",
			sick: Server{Refused: ago(5*time.Minute - 1)}, well: Server{Refused: ago(5 * time.Minute)}},
		{code: "queues_not_seen", sick: Server{Incomplete: true}},
	} {
		seen[tt.code] = true
		for name, side := range map[string]struct {
			queue  Queue
			server Server
			want   bool
		}{"over": {tt.over, tt.sick, true}, "at": {tt.at, tt.well, false}} {
			side.queue.Name = "mail"
			if side.queue.Stats == nil {
				side.queue.Stats = &duly.Stats{}
			}
			found := evaluate([]Queue{side.queue}, &side.server, now)
			holds := len(found) == 1 && found[0].Code == tt.code && found[0].Fact != "" && found[0].Next != ""
			if holds != side.want || !side.want && len(found) > 0 {
				t.Errorf("%s %s its threshold: %+v", tt.code, name, found)
			}
		}
	}
	if len(seen) != 11 || len(conditions) != 11 {
		t.Errorf("%d conditions are tested, the table has %d, want 11", len(seen), len(conditions))
	}
}

// A paused queue is not late, and a paused, limited or closed one may have no consumer.
func TestQueuesThatCannotDeliverAreNotReported(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	stats := duly.Stats{Sizes: duly.Sizes{Ready: 3}, OldestReady: time.Hour}
	idle := history.Recent{Waiting: now.Add(-time.Hour)}
	closed := stats
	closed.OldestReady, closed.Closing.Until = 0, now.Add(time.Minute)
	for name, q := range map[string]Queue{
		"paused":  {Stats: &stats, Recent: idle, Throttle: contract.Throttle{Paused: true}},
		"closed":  {Stats: &closed, Recent: idle},
		"limited": {Stats: &duly.Stats{Sizes: stats.Sizes}, Recent: idle, Throttle: contract.Throttle{MaxLeased: 1}},
	} {
		if found := evaluate([]Queue{q}, &Server{}, now); len(found) > 0 {
			t.Errorf("a %s queue has %+v", name, found)
		}
	}
}

// The worst condition is first, then queues by name. A condition keeps its begin while it holds.
func TestTracker(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	late := &duly.Stats{OldestReady: time.Hour}
	queues := []Queue{{Name: "b", Stats: late}, {Name: "a", Stats: late}}
	var tracker Tracker
	tracker.Observe("shop", queues, &Server{}, now)
	tracker.Observe("shop", queues, &Server{Slow: time.Second}, now.Add(time.Minute))
	var list []string
	for _, f := range tracker.List("shop") {
		list = append(list, f.Code+" "+f.Queue+" "+f.Since.Sub(now).String())
	}
	if got := strings.Join(list, ", "); got != "engine_slow  1m0s, late a 0s, late b 0s" {
		t.Errorf("the findings are %s", got)
	}

	tracker.Observe("shop", nil, &Server{}, now.Add(2*time.Minute))
	if list := tracker.List("shop"); len(list) != 0 || len(tracker.list) != 0 {
		t.Errorf("after the end there is %v", list)
	}
	tracker.Observe("shop", queues[:1], &Server{}, now.Add(3*time.Minute))
	if list := tracker.List("shop"); len(list) != 1 || list[0].Since != now.Add(3*time.Minute) {
		t.Errorf("a condition that comes back is %+v", list)
	}
}
