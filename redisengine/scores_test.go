package redisengine_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// oddScores are scores that no job's time or rank can have.
var oddScores = []string{"inf", "-inf", "1e300", "-1e300", "9007199254740992", "-9007199254740992"}

// TestStatsIgnoresImpossibleScores checks that Stats counts every job, and computes the oldest and
// the next job only from the possible scores.
func TestStatsIgnoresImpossibleScores(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"ready", "delayed"} {
		for _, score := range oddScores {
			t.Run(set+score, func(t *testing.T) {
				t.Parallel()
				r := openDamaged(t, 1, clock.NewFake())
				r.push(duly.Job{Body: []byte("odd")}, duly.Job{Body: []byte("right"), Priority: -1000})
				r.push(duly.Job{Body: []byte("later-odd"), Delay: time.Minute}, duly.Job{Body: []byte("later"), Delay: time.Hour})
				r.clock.Advance(time.Second)
				r.locate()
				odd := map[string]string{"ready": "odd", "delayed": "later-odd"}[set]
				r.do("ZADD", r.key(0, set), score, r.jobs[odd].number)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				st, err := r.e.Stats(ctx, damageQueue)
				if err != nil || st.Sizes.Ready+st.Sizes.Delayed != 4 || st.OldestReady != time.Second {
					t.Fatalf("Stats returned %+v, %v", st, err)
				}
				next := time.Minute
				if set == "delayed" {
					next = time.Hour
				}
				if want := clock.Epoch.Add(next); !st.NextDue.Equal(want) {
					t.Errorf("the next job is due at %v, want %v", st.NextDue, want)
				}
			})
		}
	}
}

// TestStatsEndsWithoutProgress checks that the call ends if an answer sends Stats back to its
// starting position.
func TestStatsEndsWithoutProgress(t *testing.T) {
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
			t.Error("the replacement did not change the script")
		}
		return changed
	}))
	must(t, err)
	t.Cleanup(func() { e.Close() })
	must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := e.Stats(ctx, duly.Q("q")); duly.CodeOf(err) != duly.CodeInternal {
		t.Errorf("Stats returned %v", err)
	}
}

// TestCheckRepairsScores checks that an impossible score is found and corrected, and is the only
// fault.
func TestCheckRepairsScores(t *testing.T) {
	t.Parallel()
	year := strconv.FormatInt(clock.Epoch.Add(400*24*time.Hour).UnixMilli(), 10)
	week := strconv.FormatInt(clock.Epoch.Add(7*24*time.Hour).UnixMilli(), 10)
	for _, c := range []struct {
		kind, set string
		more      string
	}{
		{"taken", "leased", year}, {"head", "leased", year}, {"buried", "dead", week}, {"done", "done", week},
		{"behind", "blocked", "5"},
		{"plain", "ready", week}, {"later", "delayed", week},
	} {
		for _, score := range append([]string{c.more}, oddScores...) {
			t.Run(c.kind+score, func(t *testing.T) {
				t.Parallel()
				r := newDamaged(t, 1, 1)
				misscored(c.kind, c.set, score)(r)
				faults := r.check(false).Faults
				if len(faults) != 1 || faults[0].Kind != "place_wrong" || faults[0].Detail != c.set {
					t.Errorf("Check found %+v", faults)
				}
				r.findAndMend("place_wrong")
			})
		}
	}
}

// TestCheckRepairsTheEndOfALease checks that a job whose lease would never end becomes ready, and
// that the old receipt is void.
func TestCheckRepairsTheEndOfALease(t *testing.T) {
	t.Parallel()
	r := openDamaged(t, 1, clock.NewFake())
	r.push(duly.Job{Body: []byte("taken")})
	held := r.reserve()[0]
	r.locate()
	r.do("ZADD", r.key(0, "leased"), "inf", r.jobs["taken"].number)
	// This Reserve sets the next due time.
	if got := r.reserve(); len(got) > 0 {
		t.Fatal(got)
	}
	r.check(true)
	again := r.reserve()
	if len(again) != 1 || again[0].ID != held.ID || again[0].Stalls != 1 {
		t.Fatalf("after the repair Reserve returned %+v", again)
	}
	errs, err := r.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: held.Receipt, As: duly.Ack}})
	if err != nil || duly.CodeOf(errs[0]) != duly.CodeLeaseLost {
		t.Error(errs, err)
	}
	r.sound()
}

// TestCheckRepairsTheEndOfAJob checks that a done job gets the end that its expiry implies. Without
// an expiry it gets the current time, like a dead job. So the job is not kept forever.
func TestCheckRepairsTheEndOfAJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, set, expiry string
		ago               time.Duration
	}{{"done", "done", "", time.Minute}, {"done", "done", "inf", 0}, {"done", "done", "-inf", 0},
		{"buried", "dead", "", 0}} {
		t.Run(c.kind+c.expiry, func(t *testing.T) {
			t.Parallel()
			r := newDamaged(t, 1, 1)
			r.clock.Advance(time.Minute)
			v := r.take(c.kind)
			v.on("ZADD", c.set, "inf", v.number)
			if c.expiry != "" {
				v.on("ZADD", "expiry", c.expiry, v.number)
			}
			r.check(true)
			at := r.clock.Now().Add(-c.ago)
			if got, want := v.score(c.set), strconv.FormatInt(at.UnixMilli(), 10); got != want {
				t.Errorf("the job ended at %s, want %s", got, want)
			}
			if got, want := v.score("expiry"), strconv.FormatInt(at.Add(time.Hour).UnixMilli(), 10); c.kind == "done" &&
				got != want {
				t.Errorf("the job is kept until %s, want %s", got, want)
			}
			r.sound()
		})
	}
}

// TestTheLongestLeaseIsNoFault checks that Check reports no fault for the longest lease, and none
// for times in the future after the server's clock was set back by hours.
func TestTheLongestLeaseIsNoFault(t *testing.T) {
	t.Parallel()
	r := openDamaged(t, 1, clock.NewFake())
	r.push(duly.Job{Body: []byte("long"), Lease: duly.MaxLease}, duly.Job{Body: []byte("dead")},
		duly.Job{Body: []byte("done"), Retain: time.Hour})
	for _, d := range r.reserve() {
		switch name(&d.Job) {
		case "dead":
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Bury})
		case "done":
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
	}
	r.sound()
	r.clock.Step(-14 * time.Hour)
	r.sound()
}

// TestLeaseWithoutEndCausesNoPolling checks that a waiter polls no more often because of a lease
// that can't end.
func TestLeaseWithoutEndCausesNoPolling(t *testing.T) {
	t.Parallel()
	for _, score := range []string{"inf", "1e300"} {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			e := open(t, server.URL())
			reserve := func() {
				_, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
				must(t, err)
			}
			_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
			must(t, err)
			reserve()
			leased := "duly:{default/q/0}:leased"
			server.Must("ZADD", leased, score, server.Must("ZRANGE", leased, 0, 0).([]any)[0])
			server.Must("HDEL", "duly:{default/q/0}:tally", "later")
			// This Reserve sets the next due time.
			reserve()
			_, err = e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: 3 * time.Second})
			must(t, err)
			stats := server.Must("INFO", "commandstats").(string)
			_, stats, _ = strings.Cut(stats, "cmdstat_fcall_ro:calls=")
			calls, _, _ := strings.Cut(stats, ",")
			if n, err := strconv.Atoi(calls); err != nil || n > 40 {
				t.Errorf("got %s read-only calls in 3 s, %v", calls, err)
			}
		})
	}
}
