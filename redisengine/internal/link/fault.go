package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// refusedEvery is the least time between two log lines about calls that the servers refuse.
const refusedEvery = time.Minute

// fault converts a verdict to an error of the contract. The text of an unexpected reply goes only
// to the log.
func (l *core) fault(call string, v verdict, err error) error {
	converted := l.asError(v, err)
	if duly.CodeOf(converted) == duly.CodeInternal {
		l.log.Error("redis refused a call", slog.String("call", call), slog.String("error", err.Error()))
	}
	return converted
}

// refusal is like fault, but also logs errors which the HTTP server hides from its callers, once a
// minute. The logged text contains the address of the store.
func (l *core) refusal(call string, v verdict, err error) error {
	refused := l.fault(call, v, err)
	switch duly.CodeOf(refused) {
	case duly.CodeFull, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnsupported:
		if now := int64(l.clock.Mono()); now-l.refused.Load() >= int64(refusedEvery) {
			l.refused.Store(now)
			l.log.Warn("redis refused a call", slog.String("call", call), slog.String("error", refused.Error()))
		}
	}
	return refused
}

// asError is like fault, but without logging.
func (l *core) asError(v verdict, err error) error {
	// Close breaks connections itself, so their errors say nothing about the server.
	if l.closed.Load() && (errors.Is(err, rueidis.ErrClosing) || v.class == unknown || v.class == idle) {
		return &duly.Error{Code: duly.CodeClosed,
			Message: "the engine was closed before the answer came; the call may have happened", Cause: err}
	}
	advice := v.advice
	if l.o.Unix {
		advice = strings.Replace(advice, hostAndPort, "the socket's path, "+l.where(), 1)
	}
	if v.code == duly.CodeCorrupt {
		advice = fmt.Sprintf(advice, l.o.Prefix)
	}
	if v.midScript {
		advice += halfDone
	}
	if v.code == duly.CodeForbidden {
		advice = strings.Replace(advice, "keys under the prefix", "keys under the prefix "+l.o.Prefix, 1)
	}
	return &duly.Error{Code: v.code, Message: "redis at " + l.where() + ": " + advice, Cause: err}
}

// where returns the servers' addresses for messages.
func (l *core) where() string {
	return strings.Join(l.o.Addrs, ",")
}

// These are the kinds of values.
const (
	Unknown Kind = iota
	Hash
	SortedSet
	Text
	Stream
	List
)

var kindNames = map[Kind]string{Hash: "hash", SortedSet: "sorted set", Text: "string", Stream: "stream", List: "list"}

// SetKinds sets the expected kind of each key, so that an error can name the key with another kind
// of value. The server itself does not say which key it is. Call SetKinds before all other methods.
func (l *core) SetKinds(kind func(key string) Kind) { l.kind = kind }

// explain adds to an error what the server omitted: the key with a wrong type, or the command
// that its user may not call.
func (l *core) explain(ctx context.Context, err error, keys []string) error {
	said, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return err
	}
	name := l.nameKey
	switch text := said.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE") && l.kind != nil:
	case inScript(text) && lackingRight(text) == unnamedRight:
		name = l.nameRight
	default:
		return err
	}
	// A closed link sends no further calls.
	if l.enter(ctx) != nil {
		return err
	}
	defer l.calls.Done()
	return name(ctx, err, keys)
}

// nameKey asks the server which of the keys has another type.
func (l *core) nameKey(ctx context.Context, err error, keys []string) error {
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
		case Stream:
			cmds = append(cmds, b.Xlen().Key(key).Build())
		case List:
			cmds = append(cmds, b.Llen().Key(key).Build())
		default:
			continue
		}
		asked = append(asked, key)
	}

	for i, r := range l.main.DoMulti(ctx, cmds...) {
		if said, ok := rueidis.IsRedisErr(r.Error()); ok && strings.HasPrefix(said.Error(), "WRONGTYPE") {
			return &duly.Error{Code: duly.CodeCorrupt, Cause: err, Message: fmt.Sprintf(
				"redis at %s: the key %q has another type than %s: another program has written there, "+
					"and nothing was done; choose another prefix in the URL, or remove that key and run duly check --repair",
				l.where(), asked[i], kindNames[l.kind(asked[i])])}
		}
	}

	return err
}

// nameRight asks the server which of the needed commands its user may not call. Up to Redis 7.0
// the refusal of a script does not name the command.
func (l *core) nameRight(ctx context.Context, err error, keys []string) error {
	ask := mayCall(l.needed)
	// One key is enough to send the script to the node that refused.
	ask.Keys = keys[:1]
	msg, failed := l.main.Do(ctx, ask.command(l.main.B(), byText)).ToMessage()
	if failed != nil {
		return err
	}
	e, ok := errors.AsType[*duly.Error](err)
	if positions, _ := msg.AsIntSlice(); ok && len(positions) > 0 {
		names := strings.Join(namesAt(l.needed, positions), ", ")
		return &duly.Error{Code: e.Code, Cause: e.Cause, Message: strings.Replace(e.Message, unnamedRight, "command "+names,
			1)}
	}
	return err
}
