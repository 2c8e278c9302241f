package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// Kind is what a key holds.
type Kind int

// The kinds.
const (
	Unknown Kind = iota
	Hash
	SortedSet
	Text
)

var kindNames = map[Kind]string{Hash: "hash", SortedSet: "sorted set", Text: "string"}

// Knows lets errors name the key that holds something of another kind than it
// is to; the server does not say which of a call's keys it is. It is called
// before all others.
func (l *Link) Knows(kind func(key string) Kind) { l.kind = kind }

// keyNamed puts the key's name into the error of a call that was refused for it.
func (l *Link) keyNamed(ctx context.Context, err error, keys []string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || !strings.HasPrefix(e.Error(), "WRONGTYPE") || l.kind == nil || l.enter(ctx) != nil {
		return err
	}
	defer l.calls.Done()
	var asked []string
	var cmds []rueidis.Completed
	for _, key := range keys {
		b := l.main.B()
		switch l.kind(key) {
		case Hash:
			cmds = append(cmds, b.Hlen().Key(key).Build())
		case SortedSet:
			cmds = append(cmds, b.Zcard().Key(key).Build())
		case Text:
			cmds = append(cmds, b.Getrange().Key(key).Start(0).End(0).Build())
		default:
			continue
		}
		asked = append(asked, key)
	}
	for i, r := range l.main.DoMulti(ctx, cmds...) {
		if said, ok := rueidis.IsRedisErr(r.Error()); ok && strings.HasPrefix(said.Error(), "WRONGTYPE") {
			return &duly.Error{Code: duly.CodeCorrupt, Cause: err, Message: fmt.Sprintf(
				"redis at %s: the key %q holds something else than a %s: another program has written there, and nothing was done; choose another prefix in the URL, or remove that key and run duly check --repair",
				l.where(), asked[i], kindNames[l.kind(asked[i])])}
		}
	}
	return err
}
