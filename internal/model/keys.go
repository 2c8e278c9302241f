package model

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Keys implements contract.KeyLister.
func (e *Engine) Keys(
	ctx context.Context, ref duly.QueueRef, p contract.KeysParams,
) (page contract.KeyPage, err error) {
	after, err := contract.ValidateKeys(ref, &p)
	if err != nil {
		return page, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return page, err
	}
	defer e.mu.Unlock()
	if q == nil {
		return page, nil
	}
	_, now := e.now()

	// A cursor with a shard beyond the last one yields an empty page.
	last := contract.KeyPlace{}
	for shard := after.Shard; shard < len(q.shards); shard++ {
		s := q.shards[shard]
		for first := s.nextKey(after.Key, p.Prefix); first != nil; first = s.nextKey(first.OrderKey, p.Prefix) {
			// The cursor is set only if another key follows the page.
			if len(page.Keys) == p.Limit {
				page.Next = last.Cursor()
				return page, nil
			}
			page.Keys = append(page.Keys, s.keyInfo(first.OrderKey, now))
			last = contract.KeyPlace{Shard: shard, Key: first.OrderKey}
		}
		after.Key = ""
	}
	return page, nil
}

// nextKey returns the first blocked job of the next key with a prefix, or nil. An empty key is before
// all others.
func (s *shard) nextKey(key, prefix string) *job {
	for j := range s.sets[duly.StateBlocked].behind(behindKey(key)) {
		if strings.HasPrefix(j.OrderKey, prefix) {
			return j
		}
	}
	return nil
}

// behindKey returns a job that sorts after every blocked job of a key.
func behindKey(key string) *job {
	return &job{Planned: contract.Planned{Job: duly.Job{OrderKey: key, Priority: duly.MinPriority - 1}}}
}

// keyInfo returns an order key with its head by the clock.
func (s *shard) keyInfo(key string, now int64) contract.KeyInfo {
	info := contract.KeyInfo{Key: key}
	if h := s.heads[key]; h != nil && !h.over(now) {
		info.Head = contract.KeyHead{ID: h.ID, State: s.stateNow(h, now), Due: clock.FromMilli(h.DueAt)}
		if h.state == duly.StateLeased {
			info.Head.LeaseEnd = clock.FromMilli(h.leaseEnd)
		}
	}

	first := s.firstBlocked(key)
	if first == nil {
		return info
	}
	info.FirstDue = clock.FromMilli(first.DueAt)
	n := 1
	for j := range s.sets[duly.StateBlocked].behind(first) {
		if j.OrderKey != key || n > contract.MaxWaiting {
			break
		}
		n++
	}
	info.SetWaiting(n)
	return info
}

// Holder implements contract.KeyLister.
func (e *Engine) Holder(ctx context.Context, ref duly.QueueRef, key string) (contract.KeyInfo, error) {
	if err := contract.ValidateHolder(ref, key); err != nil {
		return contract.KeyInfo{}, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return contract.KeyInfo{}, err
	}
	defer e.mu.Unlock()

	info := contract.KeyInfo{Key: key}
	if q != nil {
		_, now := e.now()
		info = q.shards[contract.KeyShard(key, len(q.shards))].keyInfo(key, now)
	}
	return info.OrNoKey(ref)
}
