package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// benchGroup is the name of the group in every topic of a measurement.
const benchGroup = "bench"

// topic creates a topic of this measurement with one group, and registers it for removal.
func (b *bench) topic(ctx context.Context, suffix string) (duly.QueueRef, error) {
	topics, ok := b.engine.(contract.Topics)
	if !ok {
		return duly.QueueRef{}, errors.New("the engine has no topics")
	}
	ref := duly.QueueRef{Namespace: b.cfg.Namespace, Name: fmt.Sprintf("%s-%s-%d", b.name, suffix, len(b.topics)+1)}
	// Registered before the call, because a call that fails may have created the topic.
	b.topics = append(b.topics, ref)
	_, err := topics.CreateGroup(ctx, groupOf(ref), duly.FromStart)
	return ref, err
}

func groupOf(topic duly.QueueRef) duly.QueueRef {
	return duly.QueueRef{Namespace: topic.Namespace, Name: duly.GroupName(topic.Name, benchGroup)}
}

// loadTopic creates the topic of a run and publishes the given number of messages to it.
func (b *bench) loadTopic(ctx context.Context, at Progress, suffix string, messages int) error {
	ref, err := b.topic(ctx, suffix)
	if err != nil || messages == 0 {
		return err
	}
	at.Loading = true
	r := newRun(ctx, messages)
	defer r.stop(nil)
	b.progress.watch(at, r)
	if err := b.publishTo(ctx, r, ref); err != nil {
		return err
	}
	return ctx.Err()
}

// lastTopic returns the topic of the current run.
func (b *bench) lastTopic() duly.QueueRef { return b.topics[len(b.topics)-1] }

// publish publishes the run's messages in batches.
func (b *bench) publish(ctx context.Context, r *run, _ duly.QueueRef) error {
	return b.publishTo(ctx, r, b.lastTopic())
}

func (b *bench) publishTo(ctx context.Context, r *run, topic duly.QueueRef) error {
	batch := b.cfg.Load.Batch

	// More goroutines than batches would have no work.
	return r.each(min(b.cfg.Load.Callers, (int(r.total)+batch-1)/batch), func() error {
		messages := make([]duly.Message, batch)
		for i := range messages {
			messages[i] = duly.Message{Namespace: topic.Namespace, Topic: topic.Name, Body: b.body}
		}
		for _, n := r.claim(batch); n > 0; _, n = r.claim(batch) {
			if err := b.publishOnce(ctx, r, messages[:n]); err != nil {
				return err
			}
			r.done.Add(int64(n))
		}
		return nil
	})
}

// publishOnce makes one timed call to Publish.
func (b *bench) publishOnce(ctx context.Context, r *run, messages []duly.Message) error {
	before := b.clock.Mono()
	results, err := b.engine.(contract.Topics).Publish(ctx, messages)
	r.latency.Record(b.clock.Mono() - before)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// consume reserves and acks the run's messages in batches.
func (b *bench) consume(ctx context.Context, r *run, _ duly.QueueRef) error {
	return b.take(ctx, r, groupOf(b.lastTopic()))
}

// workGroup empties the run's group with a worker.
func (b *bench) workGroup(ctx context.Context, r *run, _ duly.QueueRef) error {
	return b.handleBatches(ctx, r, groupOf(b.lastTopic()))
}
