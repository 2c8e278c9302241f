package sqliteengine

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Keys implements contract.KeyLister. It steps through the index of blocked jobs from key to key.
func (e inspectorAPI) Keys(
	ctx context.Context, ref duly.QueueRef, p contract.KeysParams,
) (contract.KeyPage, error) {
	after, err := contract.ValidateKeys(ref, &p)
	if err != nil {
		return contract.KeyPage{}, err
	}
	r := keysReader{p: &p, after: after}
	if err := e.onLongSnapshot(ctx, ref, r.read); err != nil {
		return contract.KeyPage{}, err
	}
	return r.page, nil
}

// keysReader is a page of order keys.
type keysReader struct {
	p     *contract.KeysParams
	page  contract.KeyPage
	after contract.KeyPlace // the page's last key
}

// read adds keys until the page or the slice ends. It reports whether more keys follow.
func (r *keysReader) read(t readTx, q *queue, s *readSlice) (more bool, err error) {
	// A queue has only one shard here.
	if q == nil || r.after.Shard > 0 {
		return false, nil
	}
	for {
		first, ok, err := t.nextKey(q, r.after.Key, r.p.Prefix)
		if err != nil || !ok {
			return false, err
		}
		if len(r.page.Keys) == r.p.Limit {
			r.page.Next = r.after.Cursor()
			return false, nil
		}

		info, err := t.keyInfo(q, first)
		if err != nil {
			return false, err
		}
		r.page.Keys = append(r.page.Keys, info)
		if r.after.Key = first.key; s.timeUp() {
			return true, nil
		}
	}
}

// blockedKey is the first blocked job of an order key.
type blockedKey struct {
	key string
	due int64
}

// nextKey returns the next key with a prefix. An empty key is before all others. Keys of a length are
// sorted, so after the matches of one length the search continues at the prefix in the next one.
func (t readTx) nextKey(q *queue, after, prefix string) (first blockedKey, ok bool, err error) {
	length, from := len(after), keyPlace(after, true)
	if after == "" {
		length = max(1, len(prefix))
		from = prefixPlace(length, prefix)
	}

	for length <= duly.MaxKey {
		place, due, err := t.blockedFrom(q, from)
		if err != nil || len(place) == 0 {
			return first, false, err
		}
		size := int(place[0])
		fits := size >= len(prefix) && strings.HasPrefix(string(place[1:]), prefix)

		switch {
		case fits && len(place) == 1+size+8:
			return blockedKey{string(place[1 : 1+size]), due}, true, nil
		case fits:
			// Another program has written this row, so the search continues after it.
			from = append(place, 0)
		default:
			length = max(size, length+1)
			from = prefixPlace(length, prefix)
		}
	}
	return first, false, nil
}

// keyPlace returns a place before or after all blocked jobs of a key.
func keyPlace(key string, after bool) []byte {
	place := append([]byte{byte(len(key))}, key...)
	if after {
		// A rank does not begin with this byte.
		place = append(place, 0xff)
	}
	return place
}

// prefixPlace returns the place of the first key that has this length and a prefix.
func prefixPlace(length int, prefix string) []byte {
	return append([]byte{byte(length)}, prefix...)
}

// blockedFrom returns the first blocked job from a place on. The place is nil if there is none.
func (t readTx) blockedFrom(q *queue, from []byte) (place []byte, due int64, err error) {
	s := t.stmt("blocked_from").Int(1, q.id).Blob(2, from)
	row, err := s.Step()
	if err != nil || !row {
		return nil, 0, err
	}
	place, due = s.ColBytes(0), s.ColInt(1)
	s.Reset()
	return place, due, nil
}

// keyInfo returns an order key with its head by the clock. The due time of first is 0 if no job waits.
func (t readTx) keyInfo(q *queue, first blockedKey) (info contract.KeyInfo, err error) {
	info = contract.KeyInfo{Key: first.key, FirstDue: clock.FromMilli(first.due)}
	s := t.stmt("blocked_count").Int(1, q.id).Blob(2, keyPlace(first.key, false)).Blob(3, keyPlace(first.key, true))
	waiting, _, err := t.integer(s.Int(4, contract.MaxWaiting+1))
	if err != nil {
		return info, err
	}
	info.SetWaiting(int(waiting))
	info.Head, err = t.keyHead(q, first.key)
	return info, err
}

// keyHead returns the job that holds a key, or zero if there is none.
func (t readTx) keyHead(q *queue, key string) (head contract.KeyHead, err error) {
	s := t.stmt("head_job").Int(1, q.id).Text(2, key)
	row, err := s.Step()
	if err != nil || !row {
		return head, err
	}
	var j job
	unreadable := j.scanJob(s, q)
	s.Reset()
	// The next step that finds an unreadable row makes it a dead job, which holds no key.
	if unreadable != nil || j.expired(t.now) {
		return head, nil
	}

	state, err := j.currentState(t.tx)
	return contract.KeyHead{
		ID: j.ID, State: state, Due: clock.FromMilli(j.DueAt), LeaseEnd: clock.FromMilli(j.leaseEnd),
	}, err
}

// Holder implements contract.KeyLister.
func (e inspectorAPI) Holder(ctx context.Context, ref duly.QueueRef, key string) (info contract.KeyInfo, err error) {
	if err := contract.ValidateHolder(ref, key); err != nil {
		return info, err
	}

	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) (err error) {
		if info = (contract.KeyInfo{Key: key}); q == nil {
			return nil
		}
		first := blockedKey{key: key}
		place, due, err := t.blockedFrom(q, keyPlace(key, false))
		if err != nil {
			return err
		}
		if len(place) > 0 && int(place[0]) == len(key) && strings.HasPrefix(string(place[1:]), key) {
			first.due = due
		}
		info, err = t.keyInfo(q, first)
		return err
	})
	if err != nil {
		return contract.KeyInfo{}, err
	}
	return info.OrNoKey(ref)
}
