package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/worker"
)

// bridgeRig is a bridge from events@mailer to the queue mail, in a bubble.
type bridgeRig struct {
	t      *testing.T
	engine *bridgeEngine
	log    *bytes.Buffer // may be read after stop
	stop   func()
}

// bridgeEngine is a model whose pushes and settles can fail.
type bridgeEngine struct {
	*model.Engine
	mu           sync.Mutex
	push, settle func() error
	refuse       string // body of the message whose push is refused
}

// set changes which calls fail.
func (b *bridgeEngine) set(push, settle func() error, refuse string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.push, b.settle, b.refuse = push, settle, refuse
}

// faults returns which calls fail now.
func (b *bridgeEngine) faults() (push, settle func() error, refuse string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.push, b.settle, b.refuse
}

func (b *bridgeEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	push, _, _ := b.faults()
	if push != nil {
		if err := push(); err != nil {
			return nil, err
		}
	}
	results, err := b.Engine.Push(ctx, slices.DeleteFunc(slices.Clone(jobs),
		func(j duly.Job) bool { return b.refuses(&j) }))
	for i := range jobs {
		if err == nil && b.refuses(&jobs[i]) {
			results = slices.Insert(results, i, duly.PushResult{Err: contract.Invalid("body", "is bad")})
		}
	}
	return results, err
}

func (b *bridgeEngine) refuses(j *duly.Job) bool {
	_, _, refuse := b.faults()
	return refuse != "" && string(j.Body) == refuse
}

func (b *bridgeEngine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	_, settle, _ := b.faults()
	if settle != nil {
		if err := settle(); err != nil {
			return nil, err
		}
	}
	return b.Engine.Settle(ctx, namespace, outcomes)
}

// onBridge runs a test with a running bridge.
func onBridge(t *testing.T, body func(t *testing.T, r *bridgeRig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &bridgeRig{t: t, engine: &bridgeEngine{Engine: model.New(model.Config{})}, log: &bytes.Buffer{}}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		stopped := false
		r.stop = func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}

		r.createGroup("mail")
		b := worker.NewBridge(r.engine, worker.BridgeConfig{Group: mailer, Queue: "mail",
			Logger: slog.New(slog.NewTextHandler(r.log, nil))})
		go func() { ended <- b.Run(ctx) }()
		body(t, r)
		r.stop()
		r.engine.Close()
	})
}

func (r *bridgeRig) createGroup(target string) {
	r.t.Helper()
	_, err := r.engine.CreateGroup(r.t.Context(), duly.Q(mailer), duly.FromStart)
	if err == nil {
		err = r.engine.Configure(r.t.Context(), duly.Q(mailer),
			duly.QueueConfig{Group: duly.GroupConfig{Target: target}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *bridgeRig) publish(messages ...duly.Message) (positions []duly.Position) {
	r.t.Helper()
	for _, m := range messages {
		m.Topic = "events"
		results, err := r.engine.Publish(r.t.Context(), []duly.Message{m})
		if err != nil || results[0].Err != nil {
			r.t.Fatalf("%+v, %v", results, err)
		}
		positions = append(positions, results[0].Position)
	}
	return positions
}

// jobs returns the bodies of the ready jobs in the queue.
func (r *bridgeRig) jobs() string {
	r.t.Helper()
	page, err := r.engine.List(r.t.Context(), duly.Q("mail"), duly.ListParams{State: duly.StateReady, Bodies: true})
	if err != nil {
		r.t.Fatal(err)
	}
	var bodies []string
	for _, j := range page.Jobs {
		bodies = append(bodies, string(j.Body))
	}
	return strings.Join(bodies, " ")
}

// settled checks that the group has acked this number of messages, and that none failed.
func (r *bridgeRig) settled(acked int64) {
	r.t.Helper()
	stats, err := r.engine.Stats(r.t.Context(), duly.Q(mailer))
	if err != nil || stats.Counters.Acked != acked || stats.Counters.Failed != 0 || stats.Counters.Stalled != 0 ||
		stats.Group.Lag != 0 {
		r.t.Errorf("the group: %+v, lag %d, %v; want %d acked", stats.Counters, stats.Group.Lag, err, acked)
	}
}

// C12.162, C12.163, C12.164, C12.165: each message becomes a job of the queue.
func TestBridgePushesEveryMessage(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		if err := r.engine.Configure(t.Context(), duly.Q("mail"),
			duly.QueueConfig{Defaults: duly.Defaults{Tries: 3, TTL: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		at := r.publish(duly.Message{Body: []byte("a"), Headers: map[string]string{"x": "1"}},
			duly.Message{Body: []byte("b"), Key: "k", ID: "own"})
		advance(2 * time.Second)
		r.settled(2)

		plain, err := r.engine.Get(t.Context(), duly.Q("mail"), at[0].String())
		if err != nil || string(plain.Body) != "a" || plain.Headers["x"] != "1" || plain.OrderKey != "" ||
			plain.Tries != 3 || plain.TTL != time.Hour {
			t.Errorf("the job of the first message: %+v, %v", plain, err)
		}
		id := at[1]
		id[11] = byte(contract.KeyShard("k", 256))
		keyed, err := r.engine.Get(t.Context(), duly.Q("mail"), id.String())
		if err != nil || string(keyed.Body) != "b" || keyed.OrderKey != "k" {
			t.Errorf("the job of the second message: %+v, %v", keyed, err)
		}
	})
}

// C12.165, C12.166: after a lost ack, the repeated push finds the job.
func TestBridgeRepeatsAPushWithoutASecondJob(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		lost := 2
		r.engine.set(nil, func() error {
			if lost--; lost >= 0 {
				return duly.ErrUnavailable
			}
			return nil
		}, "")
		r.publish(duly.Message{Body: []byte("a")}, duly.Message{Body: []byte("b"), Key: "k"})
		advance(5 * time.Minute)
		stats, err := r.engine.Stats(t.Context(), duly.Q("mail"))
		if err != nil || stats.Counters.Pushed != 2 {
			t.Errorf("%d jobs were pushed, %v", stats.Counters.Pushed, err)
		}
		if stats, err = r.engine.Stats(t.Context(), duly.Q(mailer)); err != nil || stats.Counters.Acked != 2 {
			t.Errorf("%d messages were acked, %v", stats.Counters.Acked, err)
		}
	})
}

// C12.167: a bridge reserves nothing while the queue is paused.
func TestBridgeWaitsForAPausedQueue(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		ctx := t.Context()
		if err := r.engine.Configure(ctx, duly.Q("mail"), duly.QueueConfig{MaxJobs: 10}); err != nil {
			t.Fatal(err)
		}
		if err := r.engine.Pause(ctx, duly.Q("mail")); err != nil {
			t.Fatal(err)
		}

		advance(2 * time.Second)
		r.publish(duly.Message{Body: []byte("a")})
		advance(10 * time.Minute)
		if got := r.jobs(); got != "" {
			t.Errorf("pushed %q", got)
		}
		if err := r.engine.Resume(ctx, duly.Q("mail")); err != nil {
			t.Fatal(err)
		}

		advance(2 * time.Second)
		if got := r.jobs(); got != "a" {
			t.Errorf("pushed %q after the pause", got)
		}
		r.settled(1)
	})
}

// C12.167: a bridge waits while the queue is full, which uses no try.
func TestBridgeWaitsForAFullQueue(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		ctx := t.Context()
		if err := r.engine.Configure(ctx, duly.Q("mail"), duly.QueueConfig{MaxJobs: 2}); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			r.publish(duly.Message{Body: fmt.Append(nil, i), Key: "k"})
		}

		advance(10 * time.Minute)
		if got, err := r.engine.Stats(ctx, duly.Q("mail")); err != nil || got.Counters.Pushed != 2 {
			t.Errorf("%d were pushed, %v", got.Counters.Pushed, err)
		}

		for range 4 {
			got, err := r.engine.Reserve(ctx, duly.ReserveParams{Queues: []string{"mail"}, Max: 1})
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			ack := []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack}}
			if _, err := r.engine.Settle(ctx, "", ack); err != nil {
				t.Fatal(err)
			}
			advance(5 * time.Second)
		}

		r.settled(4)
		r.stop()
		if n := strings.Count(r.log.String(), "a bridge waits"); n < 1 || n > 8 {
			t.Errorf("the log says %d times that it waits:\n%s", n, r.log)
		}
	})
}

// The other messages do not wait for the refused one.
func TestBridgeBuriesABadMessage(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		r.engine.set(nil, nil, "b")
		r.publish(duly.Message{Body: []byte("a")}, duly.Message{Body: []byte("b")}, duly.Message{Body: []byte("c")})
		advance(2 * time.Second)
		if got := r.jobs(); got != "a c" {
			t.Errorf("pushed %q", got)
		}
		page, err := r.engine.List(t.Context(), duly.Q(mailer), duly.ListParams{State: duly.StateDead})
		if err != nil || len(page.Jobs) != 1 || !strings.Contains(page.Jobs[0].LastError, "body is bad") {
			t.Errorf("dead: %+v, %v", page.Jobs, err)
		}
	})
}

func TestBridgeWaitsForTheEngine(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		r.engine.set(func() error { return duly.ErrUnavailable }, nil, "")
		r.publish(duly.Message{Body: []byte("a")})
		advance(time.Minute)
		r.engine.set(nil, nil, "")
		advance(5 * time.Second)
		if got := r.jobs(); got != "a" {
			t.Errorf("pushed %q", got)
		}
		r.settled(1)
	})
}

// C12.168: a bridge does not reserve from a group without its target, and continues when
// the target is set again.
func TestBridgeLeavesAGroupWithAnotherTarget(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		configure := func(target string) {
			if err := r.engine.Configure(t.Context(), duly.Q(mailer),
				duly.QueueConfig{Group: duly.GroupConfig{Target: target}}); err != nil {
				t.Fatal(err)
			}
		}
		configure(duly.NoTarget)
		r.publish(duly.Message{Body: []byte("a")})
		advance(time.Minute)

		if got := r.jobs(); got != "" {
			t.Errorf("pushed %q", got)
		}
		configure("mail")
		advance(3 * time.Second)

		if got := r.jobs(); got != "a" {
			t.Errorf("pushed %q", got)
		}
		r.settled(1)
	})
}

// C12.184: while the target is the name of a topic, the bridge waits and logs the mistake.
func TestBridgeWaitsWhileItsTargetIsATopic(t *testing.T) {
	onBridge(t, func(t *testing.T, r *bridgeRig) {
		if err := r.engine.ConfigureTopic(t.Context(), duly.Q("mail"), duly.TopicConfig{}); err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Second)
		r.publish(duly.Message{Body: []byte("a")})
		advance(time.Minute)
		if err := r.engine.DestroyTopic(t.Context(), duly.Q("mail")); err != nil {
			t.Fatal(err)
		}

		advance(time.Minute)
		if got := r.jobs(); got != "a" {
			t.Errorf("pushed %q after the topic was destroyed", got)
		}
		r.settled(1)
		r.stop()
		const want = "the target mail of the group is a topic; set a queue as the target"
		if log := r.log.String(); !strings.Contains(log, want) {
			t.Errorf("the log is %s", log)
		}
	})
}

func TestBridgeRefusesABadConfig(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]worker.BridgeConfig{
		`group is "mail", must be TOPIC@GROUP`: {Group: "mail", Queue: "mail"},
		`queue is "a@b", a group`:              {Group: mailer, Queue: "a@b"},
		"queue has 0 bytes":                    {Group: mailer},
	} {
		err := worker.NewBridge(model.New(model.Config{}), cfg).Run(t.Context())
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
