package inspect

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Explain implements contract.Explainer. One script reads the job and its shard. The caller has
// validated the parameters.
func (e *Inspector) Explain(ctx context.Context, ref duly.QueueRef, id string) (x contract.Explanation, err error) {
	if err := e.Admit(ctx, ref); err != nil {
		return x, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return contract.NotFound(ref, id)
		}
		s := q.Shards[contract.ShardOf(id, len(q.Shards))]
		r, err := e.Call(ctx, q, s, store.ScriptExplain, s.Limits, codec.Alias(id), strconv.Itoa(contract.MaxBehind+1))
		if err != nil {
			return err
		}
		if r.Word == "none" {
			return contract.NotFound(ref, id)
		}
		standing, err := readStanding(ref.Normal(), q.Config.Paused, r.Rest)
		x = standing.Explain()
		return err
	})
	if err != nil {
		return contract.Explanation{}, err
	}
	return x, nil
}

// readStanding reads the answer of script explain.
func readStanding(ref duly.QueueRef, paused bool, r []rueidis.RedisMessage) (s contract.Standing, err error) {
	t, err := codec.ReadListed(ref, &r[1], false)
	if err != nil {
		return s, err
	}
	s = contract.Standing{
		Job: t.Job.Info(t.State, t.Score, false), Ended: t.Job.Ended(), Stored: codec.State(&r[2]),
		Now: codec.Integer(&r[0]), Paused: paused,
	}

	// The rest follows only for a waiting job.
	if r = r[3:]; len(r) < 12 {
		return s, nil
	}
	s.Leased, s.NextEnd, s.MaxLeased = int(codec.Integer(&r[0])), codec.Integer(&r[1]), int(codec.Integer(&r[2]))
	s.Tokens, s.NextToken = codec.Integer(&r[3]), clock.FromMilli(codec.Integer(&r[4]))
	s.Closing = contract.Closing{Until: codec.Integer(&r[5]), Reason: codec.Text(&r[6])}
	if codec.Integer(&r[7]) == 1 {
		s.Closing.Reason = adaptive.Reason
	}
	s.Probing, s.Ahead = codec.Integer(&r[8]) == 1, int(codec.Integer(&r[10]))
	if s.Probe, err = readInfo(ref, &r[9]); err != nil {
		return s, err
	}
	s.Head, err = readInfo(ref, &r[11])
	return s, err
}

// readInfo reads a job that the script names, or nil for none.
func readInfo(ref duly.QueueRef, m *rueidis.RedisMessage) (*duly.JobInfo, error) {
	if len(codec.Elements(m)) == 0 {
		return nil, nil
	}
	t, err := codec.ReadListed(ref, m, false)
	if err != nil {
		return nil, err
	}
	info := t.Job.Info(t.State, t.Score, false)
	return &info, nil
}
