package redisengine

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Config says how to open an engine. Only URL must be set.
type Config struct {
	// URL names the servers, in the standard forms:
	//
	//	redis://USER:PASSWORD@HOST:6379/0        one server; rediss:// with TLS
	//	redis+unix:///path/to/redis.sock         one server on this machine
	//	redis+sentinel://HOST:26379/mymaster     the primary that Sentinels name
	//	redis+cluster://HOST:6379                a cluster
	//
	// with options as query parameters: prefix, durability (aof or
	// replicas:N), eviction=warn, max_body, max_queues, shards and those of
	// the connection. docs/redis.md lists them. An unknown one is refused.
	URL string
	// MaxBody is the bound on a body in bytes, up to duly.MaxMaxBody. Default
	// duly.DefaultMaxBody, or the URL's max_body.
	MaxBody int
	// MaxQueues is the bound on the queues of one namespace, up to 2³¹−1. Default
	// duly.DefaultMaxQueues, or the URL's max_queues.
	MaxQueues int
	// Shards is how many parts a queue gets that is made without saying: by a
	// push, or by a Configure that leaves shards out. A power of two,
	// 1…duly.MaxShards. Default 1, or the URL's shards.
	Shards int
	// Logger logs what happens to the store. Default: slog.Default().
	Logger *slog.Logger
	// Observe, if set, is called after every round trip to the servers, with
	// the name of the script or plain command and how long the answer took. If
	// a round trip has several calls, it is called for each. Blocking calls are
	// left out. It must be quick, and is called concurrently.
	Observe func(call string, took time.Duration)
	// Clock is for tests: an engine with one goes by it and not by the
	// servers'. Default: the clock of each server (TIME).
	Clock clock.Clock
	// Manual leaves time to Reserve and Step: the engine takes back no lease by
	// itself.
	Manual bool
	// wall is for tests: what this process takes for its own clock, while the
	// scripts go by the servers'. Default: the machine's.
	wall clock.Clock
	// sent is for tests: what goes to the servers in the place of a script.
	sent func(*link.Script) *link.Script
}

// Schemes lists what a URL may begin with, without the "://".
func Schemes() []string { return link.Schemes() }

// ParseURL validates a URL without connecting. It returns [duly.ErrInvalid] for
// anything that it does not understand.
func ParseURL(url string) (Config, error) {
	c := Config{URL: url}
	_, err := c.parse()
	return c, err
}

// parse reads the URL, and takes from it what Config leaves open.
func (c *Config) parse() (link.Options, error) {
	o, err := link.ParseURL(c.URL, "max_body", "max_queues", "shards")
	if err != nil {
		return o, err
	}

	for _, option := range []struct {
		name  string
		field *int
		bound string
	}{
		{"max_body", &c.MaxBody, boundBody}, {"max_queues", &c.MaxQueues, boundQueues}, {"shards", &c.Shards, boundShards},
	} {
		text, given := o.Others[option.name]
		if !given || *option.field != 0 {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, duly.Invalid(option.name, "is %q, must be %s", text, option.bound)
		}
		*option.field = n
	}

	return o, c.validate()
}

// What the options of an engine must be.
var (
	boundBody   = fmt.Sprintf("a number of bytes between 1 and %d", duly.MaxMaxBody)
	boundQueues = fmt.Sprintf("a number between 1 and %d", math.MaxInt32)
	boundShards = fmt.Sprintf("a power of two between 1 and %d", duly.MaxShards)
)

func (c *Config) validate() error {
	var bad duly.BadFields
	if c.MaxBody < 0 || c.MaxBody > duly.MaxMaxBody {
		bad.Add("max_body", "is %d, must be %s", c.MaxBody, boundBody)
	}
	if c.MaxQueues < 0 || c.MaxQueues > math.MaxInt32 {
		bad.Add("max_queues", "is %d, must be %s", c.MaxQueues, boundQueues)
	}
	if n := c.Shards; n < 0 || n > duly.MaxShards || n&(n-1) != 0 {
		bad.Add("shards", "is %d, must be %s", n, boundShards)
	}
	return bad.Err()
}

// settings are the configuration with its defaults.
func (c Config) settings() store.Settings {
	return store.Settings{
		MaxBody: cmp.Or(c.MaxBody, duly.DefaultMaxBody), MaxQueues: cmp.Or(c.MaxQueues, duly.DefaultMaxQueues),
		Shards: cmp.Or(c.Shards, 1), Logger: cmp.Or(c.Logger, slog.Default()),
		Clock: c.Clock, Wall: c.wall, Manual: c.Manual,
	}
}
