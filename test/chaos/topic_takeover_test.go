package chaos

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// TestTakeoverBehindLongLeases has many messages with leases of an hour, followed in the log by a
// hundred whose leases expire. These are delivered again within a second, because the engine
// searches by lease end instead of by message.
//
// C12.87, C12.95
func TestTakeoverBehindLongLeases(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		takeOver(t, openAt(t, redistest.Single(t).URL()))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		takeOver(t, openAt(t, open.File(filepath.Join(t.TempDir(), "duly.db"))))
	})
}

func takeOver(t *testing.T, engine closer) {
	const short, lease = 100, 2 * time.Second
	long, group := counts(5_000, 100_000), duly.Q(theGroups[0])
	topics := engine.(contract.Topics)
	_, err := topics.CreateGroup(t.Context(), group, duly.FromStart)
	must(t, err)
	must(t, engine.Configure(t.Context(), group, duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: long + short}}))
	publishNumbers(t, topics, long+short)

	before := meanStep(t, engine, group, short, 20)
	for n := 0; n < long; {
		n += len(reserveAll(t, engine, group, min(duly.MaxBatch, long-n), time.Hour))
	}
	began := time.Now()
	reserveAll(t, engine, group, short, lease)
	held := time.Now()

	var seen int
	var last time.Duration
	for seen < short {
		ds := reserveAll(t, engine, group, duly.MaxBatch, time.Hour)
		if len(ds) > 0 && time.Since(began) < lease {
			t.Fatalf("%d messages are delivered again %v after they were reserved for %v", len(ds), time.Since(began), lease)
		}
		for _, d := range ds {
			if number, _ := strconv.Atoi(string(d.Body)); number < long {
				t.Fatalf("message %s is delivered before its lease has ended", d.Body)
			}
		}
		seen += len(ds)
		last = time.Since(held) - lease
		if last > 10*time.Second { // ten times the promised 1 s
			t.Fatalf("%d of %d messages are delivered %v after the end of their leases", seen, short, last)
		}
		if len(ds) == 0 {
			time.Sleep(breath)
		}
	}
	after := meanStep(t, engine, group, 0, 20)
	t.Logf("%d messages behind %d held ones were delivered within %v; a step took %v before and %v then", short, long,
		last.Round(time.Millisecond), before, after)
}

// publishNumbers publishes messages whose bodies count from 0.
func publishNumbers(t *testing.T, topics contract.Topics, messages int) {
	t.Helper()
	for n := 0; n < messages; {
		batch := make([]duly.Message, min(duly.MaxBatch, messages-n))
		for i := range batch {
			batch[i] = duly.Message{Topic: theTopic.Name, Body: []byte(strconv.Itoa(n + i))}
		}
		results, err := topics.Publish(t.Context(), batch)
		must(t, err)
		for _, r := range results {
			must(t, r.Err)
		}
		n += len(batch)
	}
}

func reserveAll(t *testing.T, engine duly.Engine, group duly.QueueRef, most int, lease time.Duration) []duly.Delivery {
	t.Helper()
	ds, err := engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{group.Name}, Max: most, Lease: lease})
	must(t, err)
	return ds
}

// meanStep returns the mean time of a Step of the group while it holds this many messages. It
// releases them afterwards.
func meanStep(t *testing.T, engine closer, group duly.QueueRef, held, rounds int) time.Duration {
	t.Helper()
	var outcomes []duly.SettleRequest
	if held > 0 {
		for _, d := range reserveAll(t, engine, group, held, time.Hour) {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Release})
		}
	}
	began := time.Now()
	for range rounds {
		_, err := engine.(contract.Maintainer).Step(t.Context(), group)
		must(t, err)
	}
	took := time.Since(began) / time.Duration(rounds)
	if len(outcomes) > 0 {
		results, err := engine.Settle(t.Context(), "", outcomes)
		must(t, err)
		for _, err := range results {
			must(t, err)
		}
	}
	return took
}
