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
func (l *core) Knows(kind func(key string) Kind) { l.kind = kind }

// explained puts into the error of a call what the server has left out: the key that
// holds something else, or the command that its user may not call.
func (l *core) explained(ctx context.Context, err error, keys []string) error {
	said, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return err
	}
	name := l.keyNamed
	switch text := said.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE") && l.kind != nil:
	case inScript(text) && lacking(text) == unnamed:
		name = l.rightNamed
	default:
		return err
	}
	if l.enter(ctx) != nil {
		return err
	}
	defer l.calls.Done()
	return name(ctx, err, keys)
}

func (l *core) keyNamed(ctx context.Context, err error, keys []string) error {
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

// rightNamed asks the server that has refused a script: up to Redis 7.0 it does
// not say which command of the script it was.
func (l *core) rightNamed(ctx context.Context, err error, keys []string) error {
	ask := mayCall(l.needed)
	ask.Keys = keys[:1]
	msg, failed := l.main.Do(ctx, ask.command(l.main.B(), byText)).ToMessage()
	if failed != nil {
		return err
	}
	e, ok := errors.AsType[*duly.Error](err)
	if names, _ := msg.AsStrSlice(); ok && len(names) > 0 {
		return &duly.Error{Code: e.Code, Cause: e.Cause, Message: strings.Replace(e.Message, unnamed, "command "+strings.Join(names, ", "), 1)}
	}
	return err
}
