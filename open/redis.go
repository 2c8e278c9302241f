package open

import (
	"context"
	"slices"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine"
)

// Redis reports whether a URL names the engine on Redis.
func Redis(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return isRedis(scheme)
}

func isRedis(scheme string) bool { return slices.Contains(redisengine.Schemes(), scheme) }

func openRedis(ctx context.Context, url string, o *options) (contract.Engine, error) {
	c, err := redisengine.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c.Logger, c.Observe = o.log, o.observeEngine("redis")

	e, err := redisengine.Open(ctx, c)
	if err != nil {
		// Returning e would return an interface that is not nil.
		return nil, err
	}
	return e, nil
}
