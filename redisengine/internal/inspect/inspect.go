package inspect

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Inspector reads queues and jobs.
type Inspector struct {
	*catalog.Catalog
	Of Groups
}

// Groups lists the groups of topics for a survey.
type Groups interface {
	// Behind lists the groups of a namespace whose names follow after.
	Behind(ctx context.Context, namespace, after string) ([]string, error)
	// Surveyed returns the stats of a group, and its limits at that time.
	Surveyed(ctx context.Context, group duly.QueueRef) (duly.Stats, contract.Throttle, error)
}

// Get implements contract.Inspector.
func (e *Inspector) Get(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	r, err := e.ReadByID(ctx, ref, id)
	if err != nil {
		return duly.JobInfo{}, err
	}
	if r.Word == "none" {
		return duly.JobInfo{}, contract.NotFound(ref, id)
	}
	t, err := codec.ReadListed(ref.Normal(), &r.Rest[1], true)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return t.Job.Info(t.State, t.Score, true), nil
}

// GetJobs implements contract.Inspector. The IDs of a shard share a script call. With bodies it asks the
// shards one after the other, because they share the room of the answer.
func (e *Inspector) GetJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return nil, err
	}

	results := make([]contract.JobResult, len(ids))
	var room contract.JobRoom
	whole := "0"
	if bodies {
		whole = "1"
	}
	list := catalog.NewIDs(ref, ids, func(i int, err error) { results[i].Err = err })
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		return list.EachShard(q, !bodies, func(s *catalog.Shard, indexes []int) error {
			args := append([]string{whole, strconv.Itoa(room.Left())}, list.Aliases(indexes)...)
			r, err := e.Call(ctx, q, s, store.ScriptGet, args...)
			if err != nil {
				return err
			}
			for k, i := range indexes {
				result := readResult(ref, ids[i], &r.Rest[1+k], bodies)
				if bodies && result.Err == nil {
					room.Take(len(result.Info.Body) + len(result.Info.Result))
				}
				results[i] = result
			}
			return nil
		})
	})
	if err = list.Finish(err); err != nil {
		return nil, err
	}
	return results, nil
}

// readResult reads the answer for one ID.
func readResult(ref duly.QueueRef, id string, m *rueidis.RedisMessage, bodies bool) (r contract.JobResult) {
	switch codec.Text(m) {
	case "large":
		r.Err = contract.NoRoom(id)
		return r
	case "":
		if len(codec.Elements(m)) == 0 {
			r.Err = contract.NotFound(ref, id)
			return r
		}
	}
	t, err := codec.ReadListed(ref.Normal(), m, bodies)
	if r.Err = err; err == nil {
		r.Info = t.Job.Info(t.State, t.Score, bodies)
	}
	return r
}

// Peek implements contract.Inspector.
func (e *Inspector) Peek(ctx context.Context, ref duly.QueueRef) (duly.JobInfo, error) {
	if err := e.Admit(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}

	var first *codec.Listed
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		// A retry starts over, because the queue's shards may have changed.
		first = nil
		if q == nil {
			return nil
		}
		for _, s := range q.Shards {
			r, err := e.CallWhenStepped(ctx, q, s, store.ScriptPeek)
			if err != nil {
				return err
			}
			if r.Word == "none" {
				continue
			}
			// Each shard has its own first job, so the first of all is the one with the best rank.
			t, err := codec.ReadListed(q.Ref, &r.Rest[1], true)
			if err != nil {
				return err
			}
			if first == nil || before(&t.Job, &first.Job) {
				first = &t
			}
		}
		return nil
	})

	if err != nil {
		return duly.JobInfo{}, err
	}
	if first == nil {
		return duly.JobInfo{}, contract.Errorf(duly.CodeNotFound, "no job of queue %s is ready", ref)
	}

	return first.Job.Info(duly.StateReady, 0, true), nil
}

// before reports whether a is delivered before b.
func before(a, b *codec.Job) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.DueAt, b.DueAt),
		slices.Compare(a.Number[:], b.Number[:])) < 0
}

// Config implements contract.Inspector.
func (e *Inspector) Config(ctx context.Context, ref duly.QueueRef) (duly.QueueConfig, error) {
	if err := e.Admit(ctx, ref); err != nil {
		return duly.QueueConfig{}, err
	}
	// Another process may have changed the cached configuration, so the list is read.
	q, err := e.Read(ctx, ref.Normal())
	if err != nil {
		return duly.QueueConfig{}, err
	}
	if q == nil || q.Tomb {
		return e.QueueConfig(), nil
	}
	if q.Topic != nil {
		return duly.QueueConfig{}, contract.IsTopic(ref)
	}

	// The shards know the closing, and the configuration that Read has put into the cache.
	cfg := q.Config
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) (err error) {
		if q != nil {
			cfg.Closing, err = e.LastClosing(ctx, q)
		}
		return err
	})
	return cfg, err
}

// GetByReceipt implements contract.Inspector. A receipt names the shard and the number of the
// job.
func (e *Inspector) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	if err := contract.ValidateReceipt(r); err != nil {
		return duly.JobInfo{}, err
	}
	p, _ := contract.ParseReceipt(r)
	ref := duly.QueueRef{Namespace: namespace, Name: p.Queue}
	if err := e.Admit(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}

	found := catalog.Reply{Word: "none"}
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) (err error) {
		s := q.Shard(p.Shard)
		if s == nil {
			found = catalog.Reply{Word: "none"}
			return nil
		}
		// The prefix # makes the script look for a number instead of an alias.
		found, err = e.ReadJob(ctx, q, s, "#"+string(p.Number[:]))
		return err
	})
	if err != nil {
		return duly.JobInfo{}, err
	}
	if found.Word == "none" {
		return duly.JobInfo{}, contract.NotFound(ref, p.Number.String())
	}
	t, err := codec.ReadListed(ref.Normal(), &found.Rest[1], true)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return t.Job.Info(t.State, t.Score, true), nil
}
