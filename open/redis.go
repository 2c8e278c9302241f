package open

import (
	"context"
	"slices"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine"
)

// Redis tells whether a URL chooses the engine on Redis.
func Redis(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return onRedis(scheme)
}

func onRedis(scheme string) bool { return slices.Contains(redisengine.Schemes(), scheme) }

func redis(ctx context.Context, url string, o *options) (contract.Engine, error) {
	c, err := redisengine.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c.Logger, c.Observe = o.log, o.of("redis")
	e, err := redisengine.Open(ctx, c)
	if err != nil {
		return nil, err // a nil *Engine would be no nil Contract
	}
	return e, nil
}
