package bench

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// TestHotKeyDoesNotSlowOtherKeys measures how fast a group with order key handles the messages of
// a thousand keys: alone, and while another key has as many messages as all of them. It reports
// both rates for docs/benchmarks.md. It checks that every message of the thousand keys is
// handled.
func TestHotKeyDoesNotSlowOtherKeys(t *testing.T) {
	measures(t)
	for _, c := range []struct{ name, url string }{
		{"Redis", redistest.Single(t).URL()},
		{"SQLite", open.File(filepath.Join(t.TempDir(), "duly.db"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			measures(t)
			engine, err := open.Engine(t.Context(), c.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { engine.Close() })
			messages := 2_000
			if proctest.Long() {
				messages = 50_000
			}
			alone := rateOfKeys(t, engine, "alone", messages, false)
			beside := rateOfKeys(t, engine, "beside", messages, true)
			t.Logf("%.0f messages/s alone, %.0f/s with a key that has as many messages (%.0f %%)", alone, beside,
				100*beside/alone)
		})
	}
}

const hotKey = "hot"

// rateOfKeys publishes messages of a thousand keys and, with hot, as many of one more key. It
// lets 50 consumers handle them, and returns how many messages of the thousand keys were
// acknowledged per second.
func rateOfKeys(t *testing.T, engine contract.Engine, topic string, messages int, hot bool) float64 {
	t.Helper()
	ctx, topics := t.Context(), engine.(contract.Topics)
	group := duly.QueueRef{Name: duly.GroupName(topic, "g")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := topics.CreateGroup(ctx, group, duly.FromStart)
	must(err)
	must(engine.Configure(ctx, group, duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys,
		MaxHeld: 2 * messages}}))
	for n := 0; n < messages; {
		var batch []duly.Message
		for range min(500, messages-n) {
			batch = append(batch, duly.Message{Topic: topic, Key: strconv.Itoa(n % 1000)})
			if hot {
				batch = append(batch, duly.Message{Topic: topic, Key: hotKey})
			}
			n++
		}
		results, err := topics.Publish(ctx, batch)
		must(err)
		for _, r := range results {
			must(r.Err)
		}
	}

	var mu sync.Mutex
	left, began := messages, time.Now()
	var took time.Duration
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for consuming.Err() == nil {
				ds, err := engine.Reserve(consuming, duly.ReserveParams{Queues: []string{group.Name}, Max: 20, Lease: time.Minute})
				if err != nil || len(ds) == 0 {
					engine.Wait(consuming, duly.WaitParams{Queues: []string{group.Name}, Timeout: time.Second})
					continue
				}
				outcomes, others := make([]duly.SettleRequest, len(ds)), 0
				for i, d := range ds {
					outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
					if d.OrderKey != hotKey {
						others++
					}
				}
				if _, err := engine.Settle(ctx, "", outcomes); err != nil {
					t.Errorf("settle: %v", err)
					return
				}
				mu.Lock()
				if left -= others; left == 0 && took == 0 {
					took = time.Since(began)
					stop()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if took == 0 {
		t.Fatalf("%d messages were not acked", left)
	}
	return float64(messages) / took.Seconds()
}
