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
	// Consumer is the name that the stats of the group list. Default: one name per
	// process.
	Consumer string
	// Logger logs errors. Default [slog.Default].
	Logger *slog.Logger
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// Bridge pushes each message of a group into a queue. The job has the message's body
// and headers; the key becomes the order key, and everything else is the queue's
// default. Its ID is the position, so a repeated message makes no second job while the
// first one exists.
//
// It pushes the job before it acks the message, so it loses nothing. While the queue is
// full or paused it waits, which uses no try. Several bridges of one group share its
// messages. The servers on an engine run a bridge for each group with a target.
type Bridge struct {
	engine contract.Engine
	cfg    BridgeConfig
	store  *store
	// paused is whether the queue was paused at the last look, at that time.
	paused, looked bool
	lookedAt       time.Duration
}

const (
	// bridgeBatch is the maximum number of messages of one turn.
	bridgeBatch = 500
	// bridgeLease is longer than a push and a settle take.
	bridgeLease = 15 * time.Second
	// bridgeWait bounds one Wait.
	bridgeWait = 10 * time.Second
	// bridgeLook is how often a bridge checks whether the queue is paused, and how long it
	// waits while it cannot push.
	bridgeLook = time.Second
	// bridgeCall is the timeout of one call.
	bridgeCall = 5 * time.Second
)

// NewBridge makes a Bridge. Run returns the faults of its configuration.
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
	b.store = newStore(cfg.Clock, cfg.Logger, &Observer{}, draw)
	return b
}

// Run moves messages until ctx ends. It retries while the engine is unavailable, and
// while the group does not exist or has another target. Errors that a retry cannot fix
// end it, as for [Worker.Run].
func (b *Bridge) Run(ctx context.Context) error {
	group := duly.QueueRef{Namespace: b.cfg.Namespace, Name: b.cfg.Group}
	var f contract.BadFields
	f.Take(contract.ValidateGroup(group))
	if queue := (duly.QueueRef{Namespace: b.cfg.Namespace, Name: b.cfg.Queue}); queue.IsGroup() {
		f.Add("queue", "is %s, a group; name a queue", contract.Quoted(b.cfg.Queue))
	} else {
		f.Take(contract.ValidateQueue(queue))
	}
	if err := f.Err(); err != nil {
		return err
	}

	failures, said := 0, ""
	for ctx.Err() == nil {
		err := b.turn(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			failures, said = 0, ""
			continue
		case fatal(err):
			return err
		}
		failures++
		if code := string(duly.CodeOf(err)); code != said {
			said = code
			b.cfg.Logger.Warn("a bridge waits", "group", b.cfg.Group, "queue", b.cfg.Queue, "error", err)
		}
		b.store.rest(ctx, failures, err)
	}
	return nil
}

// turn waits for messages and moves some.
func (b *Bridge) turn(ctx context.Context) error {
	queues := []string{b.cfg.Group}
	ready := false
	err := b.call(ctx, opWait, bridgeWait+bridgeCall, func(ctx context.Context) (err error) {
		ready, err = b.engine.Wait(ctx, duly.WaitParams{Namespace: b.cfg.Namespace, Queues: queues, Timeout: bridgeWait})
		return err
	})
	if err != nil || !ready {
		return err
	}
	if err := b.awaitQueue(ctx); err != nil || ctx.Err() != nil {
		return err
	}

	var got []duly.Delivery
	err = b.call(ctx, opReserve, bridgeCall, func(ctx context.Context) (err error) {
		got, err = b.engine.Reserve(ctx, duly.ReserveParams{Namespace: b.cfg.Namespace, Queues: queues, Max: bridgeBatch, Lease: bridgeLease,
			Consumer: b.cfg.Consumer, Target: b.cfg.Queue})
		return err
	})
	if err != nil || len(got) == 0 {
		return err
	}
	return b.move(context.WithoutCancel(ctx), ctx, got)
}

// awaitQueue waits until the queue is not paused.
func (b *Bridge) awaitQueue(ctx context.Context) error {
	for ctx.Err() == nil {
		if now := b.cfg.Clock.Mono(); !b.looked || now-b.lookedAt >= bridgeLook {
			err := b.call(ctx, opWait, bridgeCall, func(ctx context.Context) error {
				config, err := b.engine.Config(ctx, duly.QueueRef{Namespace: b.cfg.Namespace, Name: b.cfg.Queue})
				b.paused = config.Paused
				if errors.Is(err, duly.ErrConflict) { // a topic was made after the target was set
					return contract.Errorf(duly.CodeConflict,
						"the target %s of the group is a topic; set a queue as the target, or destroy the topic", b.cfg.Queue)
				}
				return err
			})
			if err != nil && !errors.Is(err, duly.ErrNotFound) { // a push makes the queue
				return err
			}
			b.looked, b.lookedAt = true, now
		}
		if !b.paused {
			return nil
		}
		_ = clock.Sleep(ctx, b.cfg.Clock, bridgeLook) // the loop looks at ctx
	}
	return nil
}

// move pushes messages and settles them. It settles all of got even if stop ends
// meanwhile.
func (b *Bridge) move(ctx, stop context.Context, got []duly.Delivery) error {
	jobs := make([]duly.Job, len(got))
	for i := range got {
		jobs[i] = bridgeJob(&got[i], b.cfg.Namespace, b.cfg.Queue)
	}
	var results []duly.PushResult
	pushed := b.call(ctx, opReserve, bridgeCall, func(ctx context.Context) (err error) {
		results, err = b.engine.Push(ctx, jobs)
		return err
	})

	outcomes := make([]duly.SettleRequest, len(got))
	waits := pushed
	for i := range got {
		err := pushed
		if err == nil {
			err = results[i].Err
		}
		outcomes[i] = bridged(err)
		outcomes[i].Receipt = got[i].Receipt
		if outcomes[i].As == duly.Release {
			waits = err
		}
	}
	err := b.settle(ctx, outcomes)
	if waits != nil && stop.Err() == nil {
		err = waits
		_ = clock.Sleep(stop, b.cfg.Clock, bridgeLook) // the caller looks at stop
	}
	return err
}

// settle ends deliveries. A message that it cannot settle is delivered again when its
// lease ends, and the repeated push then finds the job.
func (b *Bridge) settle(ctx context.Context, outcomes []duly.SettleRequest) error {
	return b.call(ctx, opSettle, bridgeCall, func(ctx context.Context) error {
		answers, err := b.engine.Settle(ctx, b.cfg.Namespace, outcomes)
		return whole(answers, len(outcomes), err)
	})
}

func (b *Bridge) call(ctx context.Context, op operation, timeout time.Duration, f func(context.Context) error) error {
	return b.store.call(ctx, op, timeout, f)
}

// bridged returns the outcome of a message after its push ended with err. Bad input is
// buried, because every retry would fail. Any other message waits.
func bridged(err error) duly.SettleRequest {
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
