package redisengine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// closing is an engine whose calls to the other shards of a closed queue are lost.
type closing struct {
	*testing.T
	e     *redisengine.Engine
	clock *clock.Fake
}

func newClosing(t *testing.T) *closing {
	c := &closing{T: t, clock: clock.NewFake()}
	server, prefix := redistest.Shared(t)
	cfg := redisengine.Config{
		URL: server.URL() + "?prefix=" + prefix, Manual: true, Clock: c.clock, Logger: slog.New(slog.DiscardHandler),
	}
	e, err := redisengine.Open(t.Context(), redisengine.Sending(cfg, func(name, source string) string {
		if name != "slow" {
			return source
		}
		lost := strings.Replace(source, "closing.copy(tonumber(slow), reason)", "closing.keep()", 1)
		if lost == source {
			t.Error("the replacement did not change the script")
		}
		return lost
	}))
	must(t, err)
	t.Cleanup(func() { e.Close() })
	c.e = e
	return c
}

// takeAll takes every job that is deliverable, by shard.
func (c *closing) takeAll() (byShard map[string][]duly.Delivery) {
	c.Helper()
	byShard = map[string][]duly.Delivery{}
	for {
		ds, err := c.e.Reserve(c.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100, Lease: time.Hour})
		must(c, err)
		if len(ds) == 0 {
			return byShard
		}
		for _, d := range ds {
			shard := strings.Split(string(d.Receipt), ":")[1]
			byShard[shard] = append(byShard[shard], d)
		}
	}
}

func (c *closing) release(d duly.Delivery, slow *time.Duration) {
	c.Helper()
	o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Slow: slow}
	errs, err := c.e.Settle(c.Context(), "", []duly.SettleRequest{o})
	must(c, errors.Join(append(errs, err)...))
}

// C18.14: a shard that misses the call of another one stays open until one of its own deliveries
// closes it.
func TestShardThatMissesTheCallLearnsFromItsDeliveries(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	must(t, c.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 2}))
	var jobs []duly.Job
	for i := range 20 {
		jobs = append(jobs, duly.Job{Queue: "q", ID: fmt.Sprint(i)})
	}
	_, err := c.e.Push(t.Context(), jobs)
	must(t, err)

	held := c.takeAll()
	if len(held["0"]) < 2 || len(held["1"]) < 2 {
		t.Fatalf("the shards have %d and %d jobs, want at least 2 in each", len(held["0"]), len(held["1"]))
	}
	slow := 10 * time.Second
	c.release(held["0"][0], &slow)
	c.release(held["1"][0], nil)
	if got := c.takeAll(); len(got["0"]) != 0 || len(got["1"]) != 1 {
		t.Errorf("%d jobs of the closed shard and %d of the other are delivered, want 0 and 1", len(got["0"]), len(got["1"]))
	}

	c.release(held["1"][1], &slow)
	if got := c.takeAll(); len(got) != 0 {
		t.Errorf("jobs of %d shards are delivered after both were closed", len(got))
	}
	c.clock.Advance(slow)
	if got := c.takeAll(); len(got["0"]) != 1 || len(got["1"]) != 1 {
		t.Errorf("%d and %d jobs are delivered after the closing, want 1 and 1", len(got["0"]), len(got["1"]))
	}
}
