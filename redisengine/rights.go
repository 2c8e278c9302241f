package redisengine

import (
	"context"
	"slices"

	"github.com/dulymq/duly/redisengine/lua"
)

// own are the commands that the engine sends beside its scripts, and "time"
// and "ping" name no key.
var own = []string{"exists", "get", "getrange", "hget", "hlen", "hmget", "hscan", "set", "zadd", "zcard", "zmscore", "zrangebylex"}

// prepare looks whether the servers' user may do what the engine does, and loads
// the engine's functions.
func (e *Engine) prepare(ctx context.Context) error {
	if err := e.rights(ctx); err != nil {
		return err
	}
	if err := e.link.Provide(ctx, functionLibraries...); err != nil {
		return err
	}
	return e.libraries.opened(ctx)
}

// rights looks whether the server's user may call what scripts and engine call:
// a script that is refused in its middle would leave half its work behind. What
// tokens need beside it (PUBLISH, SUBSCRIBE) only a server of duly does. Without
// SPUBLISH and SSUBSCRIBE canceled jobs are not reported, which is logged by the
// first call that is refused.
func (e *Engine) rights(ctx context.Context) error {
	key := e.prefix + ":{check}"
	commands := [][]string{{"time"}, {"ping"}}
	names := slices.Concat(lua.Reading(), lua.Writing(), own)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "time" && name != "publish" {
			commands = append(commands, []string{name, key})
		}
	}
	return e.link.Allowed(ctx, commands...)
}
