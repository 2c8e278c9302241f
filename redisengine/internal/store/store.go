package store

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/lua"
)

// Settings holds the options of an engine.
type Settings struct {
	// MaxBody is the largest size of a body in bytes, and MaxQueues the largest number of queues in
	// a namespace. Shards is the number of shards of a queue whose creator names none.
	MaxBody, MaxQueues, Shards int
	Logger                     *slog.Logger
	// Clock, if set, replaces the servers' clocks in the scripts, for tests.
	Clock clock.Clock
	// Wall, if set, replaces this process's own clock, for tests.
	Wall clock.Clock
	// Manual: only Reserve and Step return expired jobs.
	Manual bool
}

// Store is an engine's connection to the servers, with the engine's life cycle.
type Store struct {
	Settings Settings
	Prefix   string // prefix of all keys
	Link     *link.Link
	Tasks    Tasks // counts goroutines that outlive their callers

	Closing atomic.Bool
	Ctx     context.Context // ends when the engine is closed
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

// keyKinds maps the ends of keys to the types of their values.
var keyKinds = map[string]link.Kind{
	"config": link.Text, "records": link.Hash, "bodies": link.Hash, "policies": link.Hash, "run": link.Hash,
	"alias": link.Hash, "busy": link.Hash, "tally": link.Hash,
	"delayed": link.SortedSet, "ready": link.SortedSet, "blocked": link.SortedSet, "leased": link.SortedSet,
	"dead": link.SortedSet, "done": link.SortedSet,
	"expiry": link.SortedSet, "marker": link.SortedSet,
	"schedules": link.Hash, "ticks": link.SortedSet,
	"queues": link.SortedSet, "configs": link.Hash, "birth": link.Text, "namespaces": link.SortedSet,
	"tokens": link.Hash, "hashes": link.SortedSet, "owned": link.SortedSet, "windows": link.Hash,
	"changes": link.Text, "placements": link.Hash, "placed": link.SortedSet, "targets": link.Hash,
	"targeted": link.SortedSet, "pushed": link.SortedSet,
	"libraries": link.Hash,
	"topics":    link.SortedSet, "heads": link.Hash, "entries": link.SortedSet, "ids": link.Hash,
	"ranges": link.SortedSet, "firsts": link.SortedSet, "blocks": link.Hash, "waiting": link.SortedSet,
	"held": link.SortedSet, "copies": link.Hash, "consumers": link.SortedSet, "log": link.Stream, "seen": link.List,
}

// kindOf returns the type of value that a key must have.
func kindOf(key string) link.Kind { return keyKinds[key[strings.LastIndexByte(key, ':')+1:]] }

// Alive returns an error if the engine is closed or the caller's context has ended.
func (e *Store) Alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// Admit validates the queue of an operation and checks that the engine is open.
func (e *Store) Admit(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// Retry returns the retry loop of a call.
func (e *Store) Retry(ctx context.Context) *RetryLoop { return &RetryLoop{link: e.Link, ctx: ctx} }

// engineCommands are the commands that the engine sends in addition to its scripts. "time" and
// "ping" have no key.
var engineCommands = []string{
	"exists", "get", "getrange", "hget", "hlen", "hmget", "hscan", "set", "zadd", "zcard", "zmscore", "zrangebylex",
}

// Rights checks that the server's user may call all commands of the scripts and the engine. Without
// it, a script could fail in its middle and leave half of its work. Only duly's server needs the
// rights for token changes (PUBLISH, SUBSCRIBE). Without SPUBLISH and SSUBSCRIBE removed jobs are
// not reported. The first refused call logs the missing right.
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
	c := contract.DefaultQueueConfig()
	c.Shards = e.Settings.Shards
	return c
}

// UnexpectedReply logs and returns the error for a reply of a form that Redis never sends.
func (e *Store) UnexpectedReply(call string) error {
	e.Settings.Logger.Error("redis: a reply has an unexpected form", "call", call)
	return contract.Errorf(
		duly.CodeInternal,
		"the reply to %q has an unexpected form; check whether the URL points to Redis itself or to a proxy", call,
	)
}
