package catalog

import (
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// IDs has the IDs of a call on jobs of one queue. It remembers which of them have their results.
type IDs struct {
	ref      duly.QueueRef
	ids      []string
	answered []bool
	refuse   func(i int, err error)
}

// NewIDs returns the IDs of a call. refuse is called with the error of an ID that no shard is asked for,
// and of each ID without a result at the end.
func NewIDs(ref duly.QueueRef, ids []string, refuse func(i int, err error)) *IDs {
	return &IDs{ref: ref, ids: ids, answered: make([]bool, len(ids)), refuse: refuse}
}

// EachShard calls do for each shard, with the indexes of its IDs, concurrently if together is set.
// After an error, a retry skips the IDs that have their results. q is nil for an unknown queue.
func (l *IDs) EachShard(q *Queue, together bool, do func(s *Shard, indexes []int) error) error {
	indexes := map[int][]int{} // indexes of the IDs by shard
	for i, id := range l.ids {
		err := contract.ValidateID(id)
		if err == nil && q == nil {
			err = contract.NotFound(l.ref, id)
		}
		switch {
		case l.answered[i]:
		case err != nil:
			l.refuse(i, err)
			l.answered[i] = true
		default:
			shard := contract.ShardOf(id, len(q.Shards))
			indexes[shard] = append(indexes[shard], i)
		}
	}

	inShard := func(shard int) error {
		if err := do(q.Shards[shard], indexes[shard]); err != nil {
			return err
		}
		for _, i := range indexes[shard] {
			l.answered[i] = true
		}
		return nil
	}
	shards := slices.Sorted(maps.Keys(indexes))
	if together {
		return Parallel(shards, inShard)
	}
	for _, shard := range shards {
		if err := inShard(shard); err != nil {
			return err
		}
	}
	return nil
}

// Aliases returns the aliases of some IDs as arguments of a script.
func (l *IDs) Aliases(indexes []int) []string {
	args := make([]string, len(indexes))
	for k, i := range indexes {
		args[k] = codec.Alias(l.ids[i])
	}
	return args
}

// Finish ends a call with an error or nil. The error is that of each ID without a result. Finish returns
// it if no ID has a result, because it is then the error of the whole call.
func (l *IDs) Finish(err error) error {
	if err != nil && !slices.Contains(l.answered, true) {
		return err
	}
	for i, answered := range l.answered {
		if !answered {
			l.refuse(i, err)
		}
	}
	return nil
}
