package redisengine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// oddScores are no moments and no ranks of any job.
var oddScores = []string{"inf", "-inf", "1e300", "-1e300", "9007199254740992", "-9007199254740992"}

// TestStatsEndWhateverTheScoresAre: Stats counts every job, and tells the oldest
// and the next one of those whose scores can be right.
func TestStatsEndWhateverTheScoresAre(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"ready", "delayed"} {
		for _, score := range oddScores {
			t.Run(set+score, func(t *testing.T) {
				t.Parallel()
				r := openRuin(t, 1, clock.NewFake())
				r.push(duly.Job{Body: []byte("odd")}, duly.Job{Body: []byte("right"), Priority: -1000})
				r.push(duly.Job{Body: []byte("later-odd"), Delay: time.Minute}, duly.Job{Body: []byte("later"), Delay: time.Hour})
				r.clock.Advance(time.Second)
				r.locate()
				odd := map[string]string{"ready": "odd", "delayed": "later-odd"}[set]
				r.do("ZADD", r.key(0, set), score, r.jobs[odd].number)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				st, err := r.e.Stats(ctx, ruinQueue)
				if err != nil || st.Sizes.Ready+st.Sizes.Delayed != 4 || st.OldestReady != time.Second {
					t.Fatalf("Stats answers %+v, %v", st, err)
				}
				next := time.Minute
				if set == "delayed" {
					next = time.Hour
				}
				if want := clock.Epoch.Add(next); !st.NextDue.Equal(want) {
					t.Errorf("the next one is due at %v, want %v", st.NextDue, want)
				}
			})
		}
	}
}

// TestStatsGoOnOnlyForward: where an answer sends Stats to the place from which
// it came, the call ends.
func TestStatsGoOnOnlyForward(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, err := redisengine.Open(t.Context(), redisengine.Sending(redisengine.Config{
		URL: server.URL() + "?prefix=" + prefix, Manual: true, Logger: slog.New(slog.DiscardHandler),
	}, func(name, source string) string {
		if name != "stats" {
			return source
		}
		changed := strings.Replace(source, "rank and string.format('%.0f', rank) or ''", "'7'", 1)
		if changed == source {
			t.Error("the script is as it was: this test shows nothing")
		}
		return changed
	}))
	must(t, err)
	t.Cleanup(func() { e.Close() })
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := e.Stats(ctx, duly.Q("q")); duly.CodeOf(err) != duly.CodeInternal {
		t.Errorf("Stats answers %v", err)
	}
}
