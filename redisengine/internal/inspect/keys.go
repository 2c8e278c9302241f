package inspect

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// mostKeys is how many keys one call of the script returns, so that no call takes long.
const mostKeys = 200

// Keys implements contract.KeyLister. It lists the shards one after the other.
func (e *Inspector) Keys(
	ctx context.Context, ref duly.QueueRef, p contract.KeysParams,
) (page contract.KeyPage, err error) {
	after, err := contract.ValidateKeys(ref, &p)
	if err != nil {
		return page, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return page, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		page = contract.KeyPage{}
		at := after
		for q != nil && at.Shard < len(q.Shards) {
			keys, more, err := e.keysOfShard(ctx, q, at, p.Prefix, p.Limit-len(page.Keys))
			if err != nil {
				return err
			}
			if page.Keys = append(page.Keys, keys...); len(keys) > 0 {
				at.Key = keys[len(keys)-1].Key
			}

			if len(page.Keys) >= p.Limit {
				if more || at.Shard+1 < len(q.Shards) {
					page.Next = at.Cursor()
				}
				return nil
			}
			// The next shard starts at its beginning.
			if !more {
				at = contract.KeyPlace{Shard: at.Shard + 1}
			}
		}
		return nil
	})
	return page, err
}

// keysOfShard returns up to `most` keys of a shard after a place, at most mostKeys. It reports whether
// more keys of the shard follow.
func (e *Inspector) keysOfShard(
	ctx context.Context, q *catalog.Queue, after contract.KeyPlace, prefix string, most int,
) (keys []contract.KeyInfo, more bool, err error) {
	r, err := e.Call(ctx, q, q.Shards[after.Shard], store.ScriptOrderKeys, strconv.Itoa(min(most, mostKeys)), prefix,
		after.Key, "")
	if err != nil {
		return nil, false, err
	}
	for i := range r.Rest[2:] {
		keys = append(keys, readKey(&r.Rest[2+i]))
	}
	return keys, codec.Integer(&r.Rest[1]) == 1, nil
}

// Holder implements contract.KeyLister. The key decides the shard.
func (e *Inspector) Holder(ctx context.Context, ref duly.QueueRef, key string) (info contract.KeyInfo, err error) {
	if err := contract.ValidateHolder(ref, key); err != nil {
		return info, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return info, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		info = contract.KeyInfo{Key: key}
		if q == nil {
			return nil
		}
		s := q.Shards[contract.KeyShard(key, len(q.Shards))]
		r, err := e.Call(ctx, q, s, store.ScriptOrderKeys, "1", "", "", key)
		if err == nil {
			info = readKey(&r.Rest[2])
		}
		return err
	})
	if err != nil {
		return contract.KeyInfo{}, err
	}
	return info.OrNoKey(ref)
}

// readKey reads a key as the script returns it.
func readKey(m *rueidis.RedisMessage) (info contract.KeyInfo) {
	r := codec.Elements(m)
	info.Key = codec.Text(&r[0])
	info.SetWaiting(int(codec.Integer(&r[1])))
	info.FirstDue = clock.FromMilli(codec.Integer(&r[2]))

	head := codec.Elements(&r[3])
	number := duly.Number{}
	// Another program may have written an entry whose number has another length.
	if len(head) < 5 || copy(number[:], codec.Text(&head[0])) != len(number) {
		return info
	}
	info.Head = contract.KeyHead{
		ID: codec.IDOf(codec.Text(&head[1])), State: codec.State(&head[2]), Due: clock.FromMilli(codec.Integer(&head[3])),
		LeaseEnd: clock.FromMilli(codec.Integer(&head[4])),
	}
	if info.Head.ID == "" {
		info.Head.ID = number.String()
	}
	return info
}
