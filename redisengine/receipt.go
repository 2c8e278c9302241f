package redisengine

import (
	"context"

	"github.com/dulymq/duly"
)

// GetByReceipt implements duly.Inspector. A receipt names the shard and the number of
// the job.
func (e *Engine) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	if err := r.Validate(); err != nil {
		return duly.JobInfo{}, err
	}
	p, _ := r.Parts()
	ref := duly.QueueRef{Namespace: namespace, Name: p.Queue}
	if err := e.admit(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}

	found := reply{word: "none"}
	err := e.with(ctx, ref.Normal(), func(q *queue) (err error) {
		s := q.shard(p.Shard)
		if s == nil {
			found = reply{word: "none"}
			return nil
		}
		found, err = e.call(ctx, q, s, scriptGet, "#"+string(p.Number[:]))
		return err
	})
	if err != nil {
		return duly.JobInfo{}, err
	}
	if found.word == "none" {
		return duly.JobInfo{}, duly.NotFound(ref, p.Number.String())
	}
	t, err := readTold(ref.Normal(), &found.rest[1], true)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return t.job.info(t.state, t.score, true), nil
}
