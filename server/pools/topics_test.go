package pools_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// Topics are in the pool of their namespace, even if one publish has messages for several
// namespaces.
func TestPublishGoesToPoolOfNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	r.must(createToken(t.Context(), r.Pools, "shop"))
	r.move("shop", "b")
	r.endMove("shop")
	ctx := t.Context()

	results, err := r.Publish(ctx, []duly.Message{
		{Topic: "events", Body: []byte("1")}, {Namespace: "shop", Topic: "events", Body: []byte("2")},
		{Topic: "events", Body: []byte("3")},
	})
	r.must(err)
	for i, result := range results {
		if result.Err != nil || result.Status != duly.Created {
			t.Errorf("message %d: %+v", i, result)
		}
	}
	for pool, want := range map[string]map[string]int64{contract.DefaultPool: {"default": 2, "shop": 0},
		"b": {"default": 0, "shop": 1}} {
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
	page, err := r.Read(ctx, duly.QueueRef{Namespace: "shop", Name: "events"}, contract.ReadParams{})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("read %+v, %v", page, err)
	}
}

// A namespace that moves cannot get a topic, because a move cannot drain a log.
func TestNoTopicDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	r.push("shop", "q", "a")
	r.move("shop", "b")
	if _, err := r.Publish(t.Context(), []duly.Message{{Namespace: "shop", Topic: "events"}}); !errors.Is(err,
		duly.ErrConflict) {
		t.Errorf("a publish: %v", err)
	}
	if _, err := r.CreateGroup(t.Context(), duly.QueueRef{Namespace: "shop", Name: "events@mailer"},
		duly.FromStart); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a group: %v", err)
	}
}

// C12.177: a namespace with topics does not move.
func TestNamespaceWithTopicsDoesNotMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	ctx := t.Context()
	publish := func(what string) {
		results, err := r.Publish(ctx, []duly.Message{{Namespace: "shop", Topic: "events"}})
		if err != nil || results[0].Err != nil {
			t.Errorf("a publish %s: %v, %v", what, err, results)
		}
	}
	publish("before")

	_, err := r.Move(ctx, "shop", "b")
	if !errors.Is(err, duly.ErrConflict) || !strings.Contains(err.Error(), "events") {
		t.Errorf("a move: %v, want a conflict that names the topic", err)
	}
	if err := r.Assign(ctx, "shop", "b"); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a first placement elsewhere: %v", err)
	}
	if where, err := r.Where(ctx, "shop"); err != nil || where.Pool != contract.DefaultPool || where.From != "" {
		t.Errorf("the namespace is at %+v, %v", where, err)
	}
	publish("after")

	r.push("shop", "q", "a")
	r.must(r.DestroyTopic(ctx, duly.QueueRef{Namespace: "shop", Name: "events"}))
	r.move("shop", "b")
}

// C12.177: a topic that a server creates before it sees the move stops the move.
func TestTopicStopsMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	ctx := t.Context()
	r.push("shop", "q", "a")
	_, err := r.Move(ctx, "shop", "b")
	r.must(err)
	_, err = r.engines[contract.DefaultPool].Publish(ctx, []duly.Message{{Namespace: "shop", Topic: "events"}})
	r.must(err)
	r.must(r.Advance(ctx)) // the time of the phase starts with this turn
	r.clock.Advance(pools.Propagation)
	if err := r.Advance(ctx); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("Advance returned %v, want conflict", err)
	}
	if phase := r.phase("shop"); phase != contract.Preparing {
		t.Errorf("the phase is %s, want %s", phase, contract.Preparing)
	}

	_, err = r.Move(ctx, "shop", contract.DefaultPool)
	r.must(err)
	r.endMove("shop")
	if info, err := r.Topic(ctx, duly.QueueRef{Namespace: "shop", Name: "events"}); err != nil ||
		info.Stats.Messages != 1 {
		t.Errorf("the topic has %+v, %v", info.Stats, err)
	}
}

// An engine without topics returns unsupported.
func TestPoolWithoutTopicsReturnsUnsupported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.newServer(func(_ string, e *model.Engine) contract.Engine {
		return struct {
			contract.Engine
			contract.Registry
			contract.Placer
		}{e, e, e}
	})
	if _, err := p.Topics(t.Context(), "", duly.PageParams{}); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
