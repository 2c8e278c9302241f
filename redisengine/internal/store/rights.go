package store

import (
	"context"
	"slices"

	"github.com/dulymq/duly/redisengine/lua"
)

// engineCommands are the commands that the engine sends beside its scripts, and "time"
// and "ping" name no key.
var engineCommands = []string{"exists", "get", "getrange", "hget", "hlen", "hmget", "hscan", "set", "zadd", "zcard", "zmscore", "zrangebylex"}

// Rights looks whether the server's user may call what scripts and engine call:
// a script that is refused in its middle would leave half its work behind. What
// tokens need beside it (PUBLISH, SUBSCRIBE) only a server of duly does. Without
// SPUBLISH and SSUBSCRIBE canceled jobs are not reported, which is logged by the
// first call that is refused.
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
