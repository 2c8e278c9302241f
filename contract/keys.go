package contract

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// MaxWaiting is the number up to which the waiting jobs of an order key are counted.
const MaxWaiting = 1000

// KeyLister is implemented by engines that list the order keys of a queue through their indexes.
// [KeyListerOf] returns a KeyLister for every engine.
type KeyLister interface {
	// Keys returns a page of the order keys for which jobs of a queue wait: shorter keys first, then
	// by bytes. It lists the shards one after the other.
	Keys(ctx context.Context, q duly.QueueRef, p KeysParams) (KeyPage, error)
	// Holder returns one order key. It returns [duly.ErrNotFound] if no job holds the key or waits for
	// it.
	Holder(ctx context.Context, q duly.QueueRef, key string) (KeyInfo, error)
}

// KeysParams are the parameters of Keys.
type KeysParams struct {
	// PageParams is the page. A cursor is valid only for the prefix of the page before.
	duly.PageParams
	// Prefix lists only the keys that begin with it. Empty means all keys.
	Prefix string
}

// KeyPage is a page of order keys.
type KeyPage struct {
	Keys []KeyInfo
	// Next is the cursor of the next page. Only an empty cursor marks the end.
	Next string
}

// KeyInfo is an order key that a job holds, or that jobs wait for.
type KeyInfo struct {
	Key string
	// Head is the job that holds the key. It is zero if no job holds the key, which is so until the
	// next step after the TTL of the head has ended.
	Head KeyHead
	// Waiting is the number of blocked jobs of the key, at most [MaxWaiting]. More reports whether
	// there are more.
	Waiting int
	More    bool
	// FirstDue is the due time of the first waiting job, which takes the key next. It is zero if no job
	// waits.
	FirstDue time.Time
}

// KeyHead is the job that holds an order key.
type KeyHead struct {
	ID string
	// State is the state by the clock: ready, leased, or delayed for a retry or a snooze.
	State duly.State
	// Due is when the job is or was due. LeaseEnd is zero unless the job is leased.
	Due, LeaseEnd time.Time
}

// SetWaiting sets Waiting and More for a number of blocked jobs.
func (k *KeyInfo) SetWaiting(n int) {
	k.Waiting, k.More = min(n, MaxWaiting), n > MaxWaiting
}

// KeyPlace is the place after which a list of order keys continues. The zero value is the beginning.
type KeyPlace struct {
	Shard int
	// Key is the last listed key. Empty is the beginning of the shard.
	Key string
}

// Cursor returns the place as callers pass it back.
func (p KeyPlace) Cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(p.Shard) + ":" + p.Key))
}

// readKeyPlace reads a cursor of a list of keys with a prefix.
func readKeyPlace(cursor, prefix string) (p KeyPlace, err error) {
	if cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	shard, key, _ := strings.Cut(string(text), ":")
	if err == nil {
		p.Shard, err = strconv.Atoi(shard)
	}
	p.Key = key
	// A key without the prefix is from another list.
	if err != nil || p.Shard < 0 || len(key) > duly.MaxKey || key != "" && !strings.HasPrefix(key, prefix) {
		return KeyPlace{}, BadCursor()
	}
	return p, nil
}

// ValidateKeys returns the place after which Keys begins. The error is a [duly.ErrInvalid] with every
// bad parameter. ValidateKeys fills in the default of the page.
func ValidateKeys(q duly.QueueRef, p *KeysParams) (after KeyPlace, err error) {
	if err := checkKeyQueue(q); err != nil {
		return after, err
	}
	var f BadFields
	f.Take(ValidatePage(&p.PageParams))
	if p.Prefix != "" {
		checkPrefix(&f, p.Prefix)
	}
	after, err = readKeyPlace(p.Cursor, p.Prefix)
	f.Take(err)
	return after, f.Err()
}

// ValidateHolder returns a [duly.ErrInvalid] for a group, and for a key that no job can have.
func ValidateHolder(q duly.QueueRef, key string) error {
	if err := checkKeyQueue(q); err != nil {
		return err
	}
	var f BadFields
	if key == "" {
		f.Add("key", "has 0 bytes, must have 1 to %d", duly.MaxKey)
	}
	checkKey(&f, "key", key)
	return f.Err()
}

// checkKeyQueue refuses a group. The order keys of a group belong to its messages.
func checkKeyQueue(q duly.QueueRef) error {
	if err := ValidateQueue(q); err != nil {
		return err
	}
	if q.IsGroup() {
		return NotForGroup(q, "list of order keys")
	}
	return nil
}

// checkPrefix checks the beginning of an order key.
func checkPrefix(f *BadFields, prefix string) {
	switch {
	case len(prefix) > duly.MaxKey:
		f.Add("prefix", "has %d bytes, may have at most %d, because no order key is longer; pass a shorter one",
			len(prefix), duly.MaxKey)
	case !utf8.ValidString(prefix):
		f.Add("prefix", "is not valid UTF-8")
	case strings.ContainsFunc(prefix, control):
		f.Add("prefix", "contains a control character, which no order key has")
	}
}

// NoKey returns a [duly.ErrNotFound] for an order key that no job holds and no job waits for.
func NoKey(q duly.QueueRef, key string) *duly.Error {
	return Errorf(duly.CodeNotFound, "no job of queue %s holds the order key %s", withoutSecret(q.String()),
		quoted(key, duly.MaxKey))
}

// OrNoKey returns the key, or [duly.ErrNotFound] if no job holds it and no job waits for it.
func (k KeyInfo) OrNoKey(q duly.QueueRef) (KeyInfo, error) {
	if k.Head.ID == "" && k.Waiting == 0 {
		return KeyInfo{}, NoKey(q, k.Key)
	}
	return k, nil
}

// KeyListerOf returns the engine itself if it is a KeyLister. Otherwise it returns a KeyLister whose
// methods return [duly.ErrUnsupported].
func KeyListerOf(e Inspector) KeyLister {
	if l, ok := e.(KeyLister); ok {
		return l
	}
	return noKeyLister{}
}

type noKeyLister struct{}

// Keys implements KeyLister.
func (noKeyLister) Keys(context.Context, duly.QueueRef, KeysParams) (KeyPage, error) {
	return KeyPage{}, noKeys()
}

// Holder implements KeyLister.
func (noKeyLister) Holder(context.Context, duly.QueueRef, string) (KeyInfo, error) {
	return KeyInfo{}, noKeys()
}

func noKeys() error {
	return Errorf(duly.CodeUnsupported, "the engine does not list order keys")
}
