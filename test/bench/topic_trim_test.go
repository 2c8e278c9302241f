package bench

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// TestPublishDuringTrimming measures how long calls to Publish take while a group acknowledges
// the messages immediately. One topic is trimmed behind the group, the other keeps its messages. It
// reports both for docs/benchmarks.md. It checks that only the first topic was trimmed.
func TestPublishDuringTrimming(t *testing.T) {
	measures(t)
	for _, c := range []struct{ name, url string }{
		{"Redis", redistest.Single(t, redistest.AOF("everysec")).URL()},
		{"SQLite", open.File(filepath.Join(t.TempDir(), "duly.db"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			measures(t)
			engine, err := open.Engine(t.Context(), c.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { engine.Close() })
			calls, rounds := 300, 1
			if proctest.Long() {
				calls, rounds = 10_000, 3
			}

			var kept, trimmed bench.Histogram
			for range rounds {
				left := publishBeside(t, engine, "kept", time.Hour, calls, &kept)
				if left != int64(calls*perCall) {
					t.Errorf("%d messages are left of %d that are kept", left, calls*perCall)
				}
				left = publishBeside(t, engine, "trimmed", duly.None, calls, &trimmed)
				if left > int64(calls*perCall)/2 {
					t.Errorf("%d messages are left of %d", left, calls*perCall)
				}
			}
			t.Logf("p99 of a Publish of %d messages: %v with trimming, %v without (p50 %v and %v)", perCall,
				trimmed.Percentile(99), kept.Percentile(99), trimmed.Percentile(50), kept.Percentile(50))
		})
	}
}

const (
	perCall = 100
	// callEvery leaves the machine idle for more than half of the time. Otherwise the calls would
	// measure how long they wait for a processor.
	callEvery = 5 * time.Millisecond
)

// publishBeside makes timed calls to Publish at a constant rate while a group acknowledges the
// messages. It returns how many messages are in the log when the group has acknowledged all of
// them, and destroys the topic.
func publishBeside(t *testing.T, engine contract.Engine, name string, keep time.Duration, calls int,
	took *bench.Histogram) (left int64) {
	t.Helper()
	ctx, topics, real := t.Context(), engine.(contract.Topics), clock.System()
	topic, group := duly.Q(name), duly.Q(duly.GroupName(name, "prompt"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(topics.ConfigureTopic(ctx, topic, duly.TopicConfig{Keep: keep}))
	_, err := topics.CreateGroup(ctx, group, duly.FromStart)
	must(err)

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ackAll(ctx, t, engine, group, calls*perCall) })
	batch := make([]duly.Message, perCall)
	for i := range batch {
		batch[i] = duly.Message{Topic: name, Body: make([]byte, 100)}
	}
	begin := real.Mono()
	for n := range calls {
		if wait := begin + time.Duration(n)*callEvery - real.Mono(); wait > 0 {
			must(clock.Sleep(ctx, real, wait))
		}
		before := real.Mono()
		results, err := topics.Publish(ctx, batch)
		took.Record(real.Mono() - before)
		must(err)
		for _, r := range results {
			must(r.Err)
		}
	}
	wg.Wait()

	for more := true; more; {
		more, err = engine.(interface {
			Step(ctx context.Context, q duly.QueueRef) (more bool, err error)
		}).Step(ctx, topic)
		must(err)
	}
	info, err := topics.Topic(ctx, topic)
	must(err)
	must(topics.DestroyTopic(ctx, topic))
	return info.Stats.Messages
}

// ackAll reserves and acknowledges this many messages of a group.
func ackAll(ctx context.Context, t *testing.T, engine contract.Engine, group duly.QueueRef, messages int) {
	for messages > 0 {
		ds, err := engine.Reserve(ctx, duly.ReserveParams{Queues: []string{group.Name}, Max: 500, Lease: time.Minute})
		if err == nil && len(ds) == 0 {
			_, err = engine.Wait(ctx, duly.WaitParams{Queues: []string{group.Name}, Timeout: time.Second})
		}
		if err != nil {
			t.Error(err)
			return
		}
		outcomes := make([]duly.SettleRequest, len(ds))
		for i := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack}
		}
		if len(ds) > 0 {
			if _, err := engine.Settle(ctx, "", outcomes); err != nil {
				t.Error(err)
				return
			}
		}
		messages -= len(ds)
	}
}
