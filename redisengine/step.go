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
	err = e.with(ctx, ref.Normal(), func(q *queue) error {
		more = false
		if q == nil {
			return nil
		}
		for _, s := range q.shards {
			r, err := e.call(ctx, q, s, scriptStep, s.limits)
			if err != nil {
				return err
			}
			more = more || integer(&r.rest[0]) == 1
		}
		return nil
	})
	return more, err
}
