package pools_test

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/model"
)

// Topics live in the pool of their namespace, and a publish to several namespaces goes
// to each one's.
func TestTopicsAreInTheirNamespacesPool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	r.must(meet(t.Context(), r.Pools, "shop"))
	r.move("shop", "b")
	r.end("shop")
	ctx := t.Context()
	results, err := r.Publish(ctx, []duly.Message{{Topic: "events", Body: []byte("1")}, {Namespace: "shop", Topic: "events", Body: []byte("2")}, {Topic: "events", Body: []byte("3")}})
	r.must(err)
	for i, result := range results {
		if result.Err != nil || result.Outcome != duly.Created {
			t.Errorf("message %d: %+v", i, result)
		}
	}
	for pool, want := range map[string]map[string]int64{duly.DefaultPool: {"default": 2, "shop": 0}, "b": {"default": 0, "shop": 1}} {
		for namespace, n := range want {
			info, err := r.engines[pool].Topic(ctx, duly.QueueRef{Namespace: namespace, Name: "events"})
			if info.Stats.Messages != n || n == 0 && !errors.Is(err, duly.ErrNotFound) {
				t.Errorf("pool %s has %d messages of %s, %v, want %d", pool, info.Stats.Messages, namespace, err, n)
			}
		}
	}

	group := duly.QueueRef{Namespace: "shop", Name: "events@mailer"}
	_, err = r.CreateGroup(ctx, group, duly.FromStart)
	r.must(err)
	got, err := r.Reserve(ctx, duly.ReserveParams{Namespace: "shop", Queues: []string{group.Name}, Max: 5})
	if err != nil || len(got) != 1 || string(got[0].Body) != "2" {
		t.Errorf("reserved %+v, %v", got, err)
	}
	page, err := r.Read(ctx, duly.QueueRef{Namespace: "shop", Name: "events"}, duly.ReadParams{})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("read %+v, %v", page, err)
	}
}

// A namespace that moves gets no topic: a move cannot drain a log.
func TestANamespaceThatMovesGetsNoTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	r.push("shop", "q", "a")
	r.move("shop", "b")
	if _, err := r.Publish(t.Context(), []duly.Message{{Namespace: "shop", Topic: "events"}}); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a publish: %v", err)
	}
	if _, err := r.CreateGroup(t.Context(), duly.QueueRef{Namespace: "shop", Name: "events@mailer"}, duly.FromStart); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a group: %v", err)
	}
}

// A pool whose engine has no topics says so.
func TestAPoolWithoutTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.another(func(_ string, e *model.Engine) duly.Contract {
		return struct {
			duly.Contract
			duly.Registry
			duly.Placer
		}{e, e, e}
	})
	if _, err := p.Topics(t.Context(), "", duly.PageParams{}); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
