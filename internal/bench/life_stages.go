package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// jobStages implements stages with jobs in a queue of the engine.
type jobStages struct {
	*bench
	queue duly.QueueRef
	step  lifeStep
	got   []duly.Delivery // deliveries that were reserved and not acked
}

func (s *jobStages) push(ctx context.Context, r *run) error {
	return s.pushShaped(ctx, r, s.queue, s.cfg.Load.Callers, s.step.batch, s.step.kind.shape)
}

func (s *jobStages) reserve(ctx context.Context, r *run) (err error) {
	s.got, err = s.reserveAll(ctx, r, s.queue, s.cfg.Load.Callers, s.step.batch, 0)
	return err
}

func (s *jobStages) ack(ctx context.Context, r *run) error {
	return s.ackAll(ctx, r, s.queue, s.cfg.Load.Callers, s.step.batch, s.got)
}

// bareStages are the stages of jobs that bare commands store.
type bareStages struct {
	native Native
	stored atomic.Int64

	mu  sync.Mutex
	got []string // numbers of jobs that were reserved and not acked
}

func (s *bareStages) push(ctx context.Context, r *run) error {
	return nativePush(ctx, r, s.native, &s.stored)
}

func (s *bareStages) reserve(ctx context.Context, r *run) error {
	s.got = nil
	err := nativeEach(r, s.native, func(lane int, _ int64, n int) (int, error) {
		numbers, err := s.native.Reserve(ctx, lane, n)
		if err != nil {
			return 0, fmt.Errorf("bare reserve: %w", err)
		}
		s.mu.Lock()
		s.got = append(s.got, numbers...)
		s.mu.Unlock()
		return len(numbers), nil
	})

	// Lost jobs would make the cost per job wrong.
	if err == nil && r.done.Load() < r.total && r.live.Err() == nil {
		return fmt.Errorf("bare reserve: found only %d of %d jobs", r.done.Load(), r.total)
	}
	return err
}

func (s *bareStages) ack(ctx context.Context, r *run) error {
	return nativeEach(r, s.native, func(lane int, first int64, n int) (int, error) {
		if err := s.native.Ack(ctx, lane, s.got[first:first+int64(n)]); err != nil {
			return 0, fmt.Errorf("bare ack: %w", err)
		}
		return n, nil
	})
}
