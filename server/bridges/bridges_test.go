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

// failing is an engine whose lists can be made to fail.
type failing struct {
	*model.Engine
	fails     atomic.Bool
	destroyed atomic.Bool // whether Topics also lists a topic that is destroyed
}

func (f *failing) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if f.fails.Load() {
		return duly.NamePage{}, duly.ErrUnavailable
	}
	page, err := f.Engine.Topics(ctx, namespace, p)
	if f.destroyed.Load() {
		page.Names = append([]string{"destroyed"}, page.Names...)
	}
	return page, err
}

// testBridges runs a test with the bridges of a server, in a bubble.
func testBridges(t *testing.T, body func(t *testing.T, e *failing, b *bridges.Bridges)) {
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

// sleep lets time pass in a bubble.
func sleep(d time.Duration) {
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

// C12.162: a server runs a bridge for each group with a target, also for a target that
// changes while the server runs.
func TestBridgesFollowTargets(t *testing.T) {
	testBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		sleep(time.Second)
		target(t, e, "mail")
		publish(t, e)
		sleep(31 * time.Second)
		ready(t, e, mail, 1)

		target(t, e, "other")
		b.Refresh()
		sleep(time.Second)
		publish(t, e)
		sleep(11 * time.Second) // longer than the wait of a bridge
		ready(t, e, mail, 1)
		ready(t, e, other, 1)

		target(t, e, duly.NoTarget)
		b.Refresh()
		sleep(11 * time.Second)
		publish(t, e)
		sleep(time.Minute)
		ready(t, e, mail, 1)
		ready(t, e, other, 1)
		if _, err := e.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{mailer.Name},
			Max: 1}); err != nil {
			t.Errorf("another caller: %v", err)
		}
	})
}

// A group that is destroyed and created again gets a bridge again.
func TestRecreatedGroupGetsABridgeAgain(t *testing.T) {
	testBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		target(t, e, "mail")
		b.Refresh()
		sleep(time.Second)
		if err := e.DestroyTopic(t.Context(), duly.QueueRef{Namespace: "shop", Name: "events"}); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		target(t, e, "mail")
		publish(t, e)
		sleep(time.Minute)
		ready(t, e, mail, 1)
	})
}

// Bridges keep running while the groups cannot be listed.
func TestBridgesOutliveListErrors(t *testing.T) {
	testBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		target(t, e, "mail")
		b.Refresh()
		sleep(time.Second)
		e.fails.Store(true)
		sleep(5 * time.Minute)
		publish(t, e)
		sleep(11 * time.Second)
		ready(t, e, mail, 1)
	})
}

// A topic that is destroyed while the groups are listed does not end the bridges of other
// topics.
func TestBridgesOutliveDestroyedTopic(t *testing.T) {
	testBridges(t, func(t *testing.T, e *failing, b *bridges.Bridges) {
		target(t, e, "mail")
		b.Refresh()
		sleep(time.Second)
		e.destroyed.Store(true)
		sleep(5 * time.Minute)
		publish(t, e)
		sleep(11 * time.Second)
		ready(t, e, mail, 1)
	})
}

// C12.168: a Reserve of another caller fails while a server runs the group's bridge.
func TestReserveFromBridgedGroupFails(t *testing.T) {
	testBridges(t, func(t *testing.T, e *failing, _ *bridges.Bridges) {
		target(t, e, "mail")
		_, err := e.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{mailer.Name}, Max: 1})
		if !errors.Is(err, duly.ErrConflict) {
			t.Errorf("%v", err)
		}
	})
}

func TestRefreshOfNilBridgesDoesNothing(*testing.T) { (*bridges.Bridges)(nil).Refresh() }
