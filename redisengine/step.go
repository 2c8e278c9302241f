package redisengine

import (
	"context"

	"github.com/dulymq/duly"
)

// Step implements duly.Maintainer.
func (e *Engine) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	if err := e.admit(ctx, ref); err != nil {
		return false, err
	}
	var w walk
	err = e.with(ctx, ref.Normal(), func(q *queue) error {
		if q == nil {
			return nil
		}
		return w.each(q, 0, func(s *shard) error {
			r, err := e.call(ctx, q, s, scriptStep, s.limits)
			more = more || err == nil && integer(&r.rest[0]) == 1
			return err
		})
	})
	return more, err
}
