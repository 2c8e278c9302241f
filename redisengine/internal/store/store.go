package store

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/lua"
)

// Settings are what an engine was opened with.
type Settings struct {
	// MaxBody bounds a body in bytes, maxQueues the queues of one namespace. shards is
	// how many parts a queue gets that is made without saying.
	MaxBody, MaxQueues, Shards int
	Logger                     *slog.Logger
	// Clock, if set, is the time that the scripts go by, in place of the servers'.
	Clock clock.Clock
	// Wall, if set, is this process's own clock.
	Wall clock.Clock
	// Manual leaves time to Reserve and Step.
	Manual bool
}

// Store is an engine's connection to the servers, and the life of the engine.
type Store struct {
	Settings Settings
	Prefix   string // of all keys
	Link     *link.Link
	Tasks    Tasks // calls that outlive their callers

	Closing atomic.Bool
	Ctx     context.Context // ends with the engine
	End     context.CancelFunc
	Quit    context.Context // ends when the engine begins to close
	Stop    context.CancelFunc
}

// Open connects to the servers.
func Open(ctx context.Context, cfg Settings, options link.Options) (*Store, error) {
	e := &Store{Settings: cfg, Prefix: options.Prefix}
	var err error
	if e.Link, err = link.Open(ctx, options, cfg.Logger); err != nil {
		return nil, err
	}
	e.Link.SetKinds(kindOf)
	e.Ctx, e.End = context.WithCancel(context.Background())
	e.Quit, e.Stop = context.WithCancel(e.Ctx)
	return e, nil
}

// keyKinds are what the keys hold, by the ends of their names.
var keyKinds = map[string]link.Kind{
	"config": link.Text, "records": link.Hash, "bodies": link.Hash, "policies": link.Hash, "run": link.Hash, "alias": link.Hash, "busy": link.Hash, "tally": link.Hash,
	"delayed": link.SortedSet, "ready": link.SortedSet, "blocked": link.SortedSet, "leased": link.SortedSet, "dead": link.SortedSet, "done": link.SortedSet,
	"expiry": link.SortedSet, "marker": link.SortedSet,
	"queues": link.SortedSet, "configs": link.Hash, "birth": link.Text, "namespaces": link.SortedSet,
	"tokens": link.Hash, "hashes": link.SortedSet, "owned": link.SortedSet, "windows": link.Hash, "changes": link.Text, "placements": link.Hash, "placed": link.SortedSet, "targets": link.Hash, "targeted": link.SortedSet, "pushed": link.SortedSet,
	"libraries": link.Hash,
	"topics":    link.SortedSet, "heads": link.Hash, "entries": link.SortedSet, "ids": link.Hash,
	"ranges": link.SortedSet, "firsts": link.SortedSet, "blocks": link.Hash, "waiting": link.SortedSet, "held": link.SortedSet, "copies": link.Hash, "consumers": link.SortedSet,
}

// kindOf is what a key is to hold.
func kindOf(key string) link.Kind { return keyKinds[key[strings.LastIndexByte(key, ':')+1:]] }

// Alive returns an error if the engine is closed or the caller has gone.
func (e *Store) Alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// Admit begins an operation on one queue.
func (e *Store) Admit(ctx context.Context, ref duly.QueueRef) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// Retry returns the tries of a call.
func (e *Store) Retry(ctx context.Context) *RetryLoop { return &RetryLoop{link: e.Link, ctx: ctx} }

// engineCommands are the commands that the engine sends besides its scripts. "time"
// and "ping" name no key.
var engineCommands = []string{"exists", "get", "getrange", "hget", "hlen", "hmget", "hscan", "set", "zadd", "zcard", "zmscore", "zrangebylex"}

// Rights checks that the server's user may call what scripts and engine call: a
// script that is refused midway would leave half of its work behind. Only a server
// of duly needs the rights for token changes (PUBLISH, SUBSCRIBE). Without SPUBLISH
// and SSUBSCRIBE removed jobs are not reported, and the first refused call logs
// that.
func (e *Store) Rights(ctx context.Context) error {
	key := e.Prefix + ":{check}"
	commands := [][]string{{"time"}, {"ping"}}
	names := slices.Concat(lua.Reading(), lua.Writing(), engineCommands)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "time" && name != "publish" {
			commands = append(commands, []string{name, key})
		}
	}
	return e.Link.Allowed(ctx, commands...)
}

// QueueConfig returns the configuration of a queue that was never configured.
func (e *Store) QueueConfig() duly.QueueConfig {
	c := duly.DefaultQueueConfig()
	c.Shards = e.Settings.Shards
	return c
}

// UnexpectedReply returns and logs the error for an answer that Redis never gives.
func (e *Store) UnexpectedReply(call string) error {
	e.Settings.Logger.Error("redis answered what was not asked", "call", call)
	return duly.Errorf(duly.CodeInternal, "the call %q was answered by something that it never returns; look whether the URL leads to Redis itself, or to a proxy", call)
}
