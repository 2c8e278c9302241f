package bridges_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/bridges"
)

// failing is an engine whose lists can fail.
type failing struct {
	*model.Engine
	fails atomic.Bool
}

func (f *failing) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if f.fails.Load() {
		return duly.NamePage{}, duly.ErrUnavailable
	}
	return f.Engine.Topics(ctx, namespace, p)
}

// onBridges runs a test with the bridges of a server, in a bubble.
func onBridges(t *testing.T, body func(t *testing.T, e *failing, b *bridges.Bridges)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &failing{Engine: model.New(model.Config{})}
		b := bridges.New(bridges.Config{Engine: e, Topics: e, Clock: clock.System(), Log: slog.New(slog.DiscardHandler),
			Namespaces: []func(context.Context, duly.PageParams) (duly.NamePage, error){e.Namespaces}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		body(t, e, b)
		cancel()
		<-done
		e.Close()
	})
}

func pass(d time.Duration) {
	_ = clock.Sleep(context.Background(), clock.System(), d)
	synctest.Wait()
}

var (
	mailer = duly.QueueRef{Namespace: "shop", Name: "events@mailer"}
	mail   = duly.QueueRef{Namespace: "shop", Name: "mail"}
	other  = duly.QueueRef{Namespace: "shop", Name: "other"}
)

func target(t *testing.T, e *failing, queue string) {
	t.Helper()
	_, err := e.CreateGroup(t.Context(), mailer, duly.FromStart)
	if err == nil {
		err = e.Configure(t.Context(), mailer, duly.QueueConfig{Group: duly.GroupConfig{Target: queue}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, e *failing) {
	t.Helper()
	if _, err := e.Publish(t.Context(), []duly.Message{{Namespace: "shop", Topic: "events",
		Body: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
}

func ready(t *testing.T, e *failing, q duly.QueueRef, want int64) {
	t.Helper()
	stats, err := e.Stats(t.Context(), q)
	if err != nil || stats.Sizes.Ready != want {
		t.Errorf("%s has %d jobs, %v, want %d", q, stats.Sizes.Ready, err, want)
	}
}

// C12.162: a server works each group with a target, also one that is configured while
// it runs.
func TestGroupsWithATargetAreWorked(t *testing.T) {
	onBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		pass(time.Second)
		target(t, e, "mail")
		publish(t, e)
		pass(31 * time.Second)
		ready(t, e, mail, 1)

		target(t, e, "other")
		b.Look()
		pass(time.Second)
		publish(t, e)
		pass(11 * time.Second) // a bridge that waits
		ready(t, e, mail, 1)
		ready(t, e, other, 1)

		target(t, e, duly.NoTarget)
		b.Look()
		pass(11 * time.Second)
		publish(t, e)
		pass(time.Minute)
		ready(t, e, mail, 1)
		ready(t, e, other, 1)
		if _, err := e.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{mailer.Name},
			Max: 1}); err != nil {
			t.Errorf("another caller: %v", err)
		}
	})
}

// A group that is destroyed and made again is worked again.
func TestAGroupThatComesBackIsWorked(t *testing.T) {
	onBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		target(t, e, "mail")
		b.Look()
		pass(time.Second)
		if err := e.DestroyTopic(t.Context(), duly.QueueRef{Namespace: "shop", Name: "events"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		target(t, e, "mail")
		publish(t, e)
		pass(time.Minute)
		ready(t, e, mail, 1)
	})
}

// While the groups cannot be read, the bridges go on.
func TestBridgesGoOnWhileGroupsCannotBeRead(t *testing.T) {
	onBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		target(t, e, "mail")
		b.Look()
		pass(time.Second)
		e.fails.Store(true)
		pass(5 * time.Minute)
		publish(t, e)
		pass(11 * time.Second)
		ready(t, e, mail, 1)
	})
}

// C12.168: a worker is refused while a server works the group.
func TestAWorkerOfABridgedGroupIsRefused(t *testing.T) {
	onBridges(t, func(t *testing.T, e *failing, _ *bridges.Bridges) {
		target(t, e, "mail")
		_, err := e.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{mailer.Name}, Max: 1})
		if !errors.Is(err, duly.ErrConflict) {
			t.Errorf("%v", err)
		}
	})
}

func TestLookWithoutBridges(*testing.T) { (*bridges.Bridges)(nil).Look() }
