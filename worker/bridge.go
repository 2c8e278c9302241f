package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/consumer"
)

// BridgeConfig configures a Bridge. Group and Queue must be set.
type BridgeConfig struct {
	// Namespace is the namespace of the group and of the queue. Default: the engine's, see
	// [duly.NamespaceOf].
	Namespace string
	// Group is the group, TOPIC@GROUP. Its target must be Queue.
	Group string
	// Queue is where the jobs are pushed.
	Queue string
	// Consumer is the bridge's name in the stats of the group. By default, all bridges of a process
	// have the same name.
	Consumer string
	// Logger logs errors. Default [slog.Default].
	Logger *slog.Logger
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// Bridge pushes each message of a group into a queue. The job has the message's body and headers;
// the key becomes the order key, and all other fields have the queue's defaults. Its ID is the
// position, so a repeated message makes no second job while the first one exists.
//
// The bridge pushes the job before it acks the message, so it loses no message. While the queue is
// full or paused the bridge waits, which uses no try. Several bridges of one group share its
// messages. The servers on an engine run a bridge for each group with a target.
type Bridge struct {
	engine contract.Engine
	cfg    BridgeConfig
	health *engineHealth
	// paused reports whether the queue was paused at the last check.
	paused, checked bool
	checkedAt       time.Duration
}

const (
	// bridgeBatch is the maximum number of messages that the bridge moves in one step.
	bridgeBatch = 500
	// bridgeLease is longer than a push and a settle take.
	bridgeLease = 15 * time.Second
	// bridgeWait is the longest time of one Wait.
	bridgeWait = 10 * time.Second
	// bridgePause is how often a bridge checks whether the queue is paused, and the length of its
	// pause while it cannot push.
	bridgePause = time.Second
	// bridgeTimeout is the timeout of one call.
	bridgeTimeout = 5 * time.Second
)

// NewBridge returns a Bridge. Run returns the faults of its configuration.
func NewBridge(engine contract.Engine, cfg BridgeConfig) *Bridge {
	if cfg.Namespace == "" {
		cfg.Namespace = duly.NamespaceOf(engine)
	}
	cfg.Consumer = cmp.Or(cfg.Consumer, consumer.Name())
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	b := &Bridge{engine: engine, cfg: cfg}
	b.health = newEngineHealth(cfg.Clock, cfg.Logger, &Observer{}, random)
	return b
}

// Run moves messages until ctx ends. It retries while the engine is unavailable, and while the
// group does not exist or has another target. Run returns an error that a retry cannot fix, like
// [Worker.Run].
func (b *Bridge) Run(ctx context.Context) error {
	if err := b.cfg.validate(); err != nil {
		return err
	}

	failures, logged := 0, ""
	for ctx.Err() == nil {
		err := b.round(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			failures, logged = 0, ""
			continue
		case fatal(err):
			return err
		}

		failures++
		// An error that repeats is logged once, because it may last for long.
		if code := string(duly.CodeOf(err)); code != logged {
			logged = code
			b.cfg.Logger.Warn("a bridge waits: it can't move messages now", "group", b.cfg.Group, "queue", b.cfg.Queue, "error", err)
		}
		b.health.pause(ctx, failures, err)
	}
	return nil
}

// validate returns an error with every fault of the configuration.
func (c *BridgeConfig) validate() error {
	var f contract.BadFields
	f.Take(contract.ValidateGroup(duly.QueueRef{Namespace: c.Namespace, Name: c.Group}))
	if queue := (duly.QueueRef{Namespace: c.Namespace, Name: c.Queue}); queue.IsGroup() {
		f.Add("queue", "is %s, a group; name a queue", contract.Quoted(c.Queue))
	} else {
		f.Take(contract.ValidateQueue(queue))
	}
	return f.Err()
}

// round waits for messages and moves some.
func (b *Bridge) round(ctx context.Context) error {
	queues := []string{b.cfg.Group}
	ready := false
	err := b.health.call(ctx, opWait, bridgeWait+bridgeTimeout, func(ctx context.Context) (err error) {
		p := duly.WaitParams{Namespace: b.cfg.Namespace, Queues: queues, Timeout: bridgeWait}
		ready, err = b.engine.Wait(ctx, p)
		return err
	})
	if err != nil || !ready {
		return err
	}
	// The bridge waits before it reserves, because the lease of a reserved message would run while
	// the bridge waits.
	if err := b.awaitQueue(ctx); err != nil || ctx.Err() != nil {
		return err
	}

	var got []duly.Delivery
	err = b.health.call(ctx, opReserve, bridgeTimeout, func(ctx context.Context) (err error) {
		got, err = b.engine.Reserve(ctx, duly.ReserveParams{
			Namespace: b.cfg.Namespace, Queues: queues, Max: bridgeBatch, Lease: bridgeLease,
			Consumer: b.cfg.Consumer, Target: b.cfg.Queue,
		})
		return err
	})
	if err != nil || len(got) == 0 {
		return err
	}
	// The messages are leased now, so they are moved even if ctx ends.
	return b.move(context.WithoutCancel(ctx), ctx, got)
}

// awaitQueue waits until the queue is not paused.
func (b *Bridge) awaitQueue(ctx context.Context) error {
	for ctx.Err() == nil {
		if now := b.cfg.Clock.Mono(); !b.checked || now-b.checkedAt >= bridgePause {
			// A push creates a missing queue.
			if err := b.checkQueue(ctx); err != nil && !errors.Is(err, duly.ErrNotFound) {
				return err
			}
			b.checked, b.checkedAt = true, now
		}

		if !b.paused {
			return nil
		}
		_ = clock.Sleep(ctx, b.cfg.Clock, bridgePause) // the loop checks ctx after the pause
	}
	return nil
}

// checkQueue reads whether the queue is paused.
func (b *Bridge) checkQueue(ctx context.Context) error {
	return b.health.call(ctx, opWait, bridgeTimeout, func(ctx context.Context) error {
		config, err := b.engine.Config(ctx, duly.QueueRef{Namespace: b.cfg.Namespace, Name: b.cfg.Queue})
		b.paused = config.Paused
		// Another program created a topic with this name after the target was set.
		if errors.Is(err, duly.ErrConflict) {
			return contract.Errorf(duly.CodeConflict,
				"the target %s of the group is a topic; set a queue as the target, or destroy the topic", b.cfg.Queue)
		}
		return err
	})
}

// move pushes messages and settles them. It settles all of got even if stop ends before.
func (b *Bridge) move(ctx, stop context.Context, got []duly.Delivery) error {
	jobs := make([]duly.Job, len(got))
	for i := range got {
		jobs[i] = bridgeJob(&got[i], b.cfg.Namespace, b.cfg.Queue)
	}
	// The bridge pushes before it settles. If it dies in between, the message is delivered again,
	// and the repeated push finds the job.
	var results []duly.PushResult
	pushed := b.health.call(ctx, opReserve, bridgeTimeout, func(ctx context.Context) (err error) {
		results, err = b.engine.Push(ctx, jobs)
		return err
	})

	// blocked is why a message waits: the error of the call, or of its job.
	outcomes := make([]duly.SettleRequest, len(got))
	blocked := pushed
	for i := range got {
		err := pushed
		if err == nil {
			err = results[i].Err
		}
		outcomes[i] = bridgeOutcome(err)
		outcomes[i].Receipt = got[i].Receipt
		if outcomes[i].As == duly.Release {
			blocked = err
		}
	}

	err := b.settle(ctx, outcomes)
	if blocked != nil && stop.Err() == nil {
		err = blocked
		_ = clock.Sleep(stop, b.cfg.Clock, bridgePause) // the caller checks stop after the pause
	}
	return err
}

// settle ends deliveries. A message that it cannot settle is delivered again when its
// lease ends, and the repeated push then finds the job.
func (b *Bridge) settle(ctx context.Context, outcomes []duly.SettleRequest) error {
	return b.health.call(ctx, opSettle, bridgeTimeout, func(ctx context.Context) error {
		answers, err := b.engine.Settle(ctx, b.cfg.Namespace, outcomes)
		return checkAnswers(answers, len(outcomes), err)
	})
}

// bridgeOutcome returns the outcome of a message after its push ended with err. A message that is
// invalid for the queue is buried, because every retry would fail. After other errors the message
// is released.
func bridgeOutcome(err error) duly.SettleRequest {
	switch {
	case err == nil:
		return duly.SettleRequest{As: duly.Ack}
	case errors.Is(err, duly.ErrInvalid), errors.Is(err, duly.ErrTooLarge):
		return duly.SettleRequest{As: duly.Bury, Error: contract.CutError(err.Error())}
	}
	return duly.SettleRequest{As: duly.Release}
}

// bridgeJob returns the job for a message of a group. Its ID is the position. With a key,
// the ID carries the key's shard, like the ID of every job with an order key.
func bridgeJob(d *duly.Delivery, namespace, queue string) duly.Job {
	j := duly.Job{Namespace: namespace, Queue: queue, ID: d.ID, Body: d.Body, Headers: d.Headers, OrderKey: d.OrderKey}
	if n, ok := duly.ParseNumber(d.ID); ok && d.OrderKey != "" {
		n[positionShard] = byte(contract.KeyShard(d.OrderKey, duly.MaxShards))
		j.ID = n.String()
	}
	return j
}

// positionShard is the byte of a position, and of a job's number, with the shard.
const positionShard = 11
