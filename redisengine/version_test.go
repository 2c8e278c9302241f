package redisengine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestQueueOfAnotherLayoutIsRefused checks that calls on a queue which another version of duly has
// stored fail with a remedy, and that the queue does not change.
func TestQueueOfAnotherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout string
		says   []string
	}{
		"Older": {`"layout":2`, []string{"layout 2 ", "reads layout 3", "no release has written layout 2", "another prefix",
			"destroy it"}},
		"Newer": {`"layout":4`, []string{"layout 4 ", "reads layout 3", "use a newer duly"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix := redistest.Shared(t)
			url := server.URL() + "?prefix=" + prefix
			maker := openOn(t, url, clock.NewFake())
			if _, err := maker.Push(t.Context(), []duly.Job{{Queue: "q", ID: "a"}}); err != nil {
				t.Fatal(err)
			}
			q := maker.catalog.Cache.Get(duly.Q("q").Normal())
			stored := strings.Replace(q.Value, `"layout":3`, c.layout, 1)
			server.Must("HSET", maker.store.ConfigsKey(q.Ref.Namespace), "q", stored)
			server.Must("SET", q.Shards[0].Name("config"), stored)

			e := openOn(t, url, clock.NewFake())
			digest := func() string {
				keys := []any{"DEBUG", "DIGEST-VALUE", maker.store.ConfigsKey(q.Ref.Namespace)}
				for _, key := range store.ShardKeys {
					keys = append(keys, q.Shards[0].Name(key))
				}
				return fmt.Sprint(server.Must(keys...))
			}
			before := digest()
			for call, f := range map[string]func(context.Context) error{
				"Push": func(ctx context.Context) error {
					_, err := e.Push(ctx, []duly.Job{{Queue: "q"}})
					return err
				},
				"Reserve": func(ctx context.Context) error {
					_, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
					return err
				},
				"Get": func(ctx context.Context) error { _, err := e.Get(ctx, duly.Q("q"), "a"); return err },
				"Configure": func(ctx context.Context) error {
					return e.Configure(ctx, duly.Q("q"), duly.QueueConfig{MaxJobs: 1})
				},
				"Destroy": func(ctx context.Context) error { return e.Destroy(ctx, duly.Q("q")) },
				"Repair": func(ctx context.Context) error {
					_, err := e.Check(ctx, contract.CheckParams{Repair: true})
					return err
				},
			} {
				err := f(t.Context())
				if duly.CodeOf(err) != duly.CodeUnsupported || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want unsupported", call, err)
					continue
				}
				for _, said := range append(c.says, "default/q") {
					if !strings.Contains(err.Error(), said) {
						t.Errorf("the error of %s is %q, want it to contain %q", call, err, said)
					}
				}
			}
			if after := digest(); after != before {
				t.Errorf("the store changed from %s to %s", before, after)
			}
		})
	}
}
