package redisengine

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Config says how to open an engine. Only URL is required.
type Config struct {
	// URL names the servers, in the standard forms:
	//
	//	redis://USER:PASSWORD@HOST:6379/0        one server; rediss:// with TLS
	//	redis+unix:///path/to/redis.sock         one server on this machine
	//	redis+sentinel://HOST:26379/mymaster     the primary that Sentinels name
	//	redis+cluster://HOST:6379                a cluster
	//
	// with options as query parameters: prefix, durability (aof or replicas:N), eviction=warn,
	// scripts (auto, functions or eval), max_body, max_queues, shards and the connection's
	// options. docs/redis.md lists them. Open fails on an option that it does not know.
	URL string
	// MaxBody is the largest body in bytes, up to duly.MaxMaxBody. Default
	// duly.DefaultMaxBody, or the URL's max_body.
	MaxBody int
	// MaxQueues is the largest number of queues in one namespace, up to 2³¹−1. Default
	// duly.DefaultMaxQueues, or the URL's max_queues.
	MaxQueues int
	// Shards is the number of shards of a queue whose creator names none: a push, or a Configure
	// without shards. It is a power of two, 1…duly.MaxShards. Default 1, or the URL's shards.
	Shards int
	// Logger receives the engine's warnings and errors. Default: slog.Default().
	Logger *slog.Logger
	// Observe, if set, is called after every round trip to the servers, with the name of the
	// script or plain command and the time until the answer. A round trip with several calls is
	// reported once for each call. Blocking calls are not reported. Observe must be quick, and is
	// called concurrently.
	Observe func(call string, took time.Duration)
	// Clock replaces the servers' clocks, for tests. Default: the clock of each server
	// (TIME).
	Clock duly.Clock
	// Manual turns the engine's lease timers off: only Reserve and Step return expired jobs.
	Manual bool
	// wall replaces this process's own clock, for tests. Scripts still use the servers' clocks.
	// Default: the machine's clock.
	wall duly.Clock
	// sent returns the script to send in place of the given one, for tests.
	sent func(*link.Script) *link.Script
}

// Schemes returns the schemes of a URL, without the "://".
func Schemes() []string { return link.Schemes() }

// ParseURL validates a URL without connecting. It returns [duly.ErrInvalid] for a URL with an
// unknown scheme, option or value.
func ParseURL(url string) (Config, error) {
	c := Config{URL: url}
	_, err := c.parse()
	return c, err
}

// parse reads the URL and fills in the fields that Config leaves zero.
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
		// A field that the caller set overrides the URL.
		if !given || *option.field != 0 {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, contract.Invalid(option.name, "is %q, must be %s", text, option.bound)
		}
		*option.field = n
	}

	return o, c.validate()
}

// The texts that errors use for the allowed values of the options.
var (
	boundBody   = fmt.Sprintf("a number of bytes between 1 and %d", duly.MaxMaxBody)
	boundQueues = fmt.Sprintf("a number between 1 and %d", math.MaxInt32)
	boundShards = fmt.Sprintf("a power of two between 1 and %d", duly.MaxShards)
)

func (c *Config) validate() error {
	var bad contract.BadFields
	if c.MaxBody < 0 || c.MaxBody > duly.MaxMaxBody {
		bad.Add("max_body", "is %d, must be %s", c.MaxBody, boundBody)
	}
	if c.MaxQueues < 0 || c.MaxQueues > math.MaxInt32 {
		bad.Add("max_queues", "is %d, must be %s", c.MaxQueues, boundQueues)
	}
	// Job IDs choose the shard by their lowest bits, so the number is a power of two.
	if n := c.Shards; n < 0 || n > duly.MaxShards || n&(n-1) != 0 {
		bad.Add("shards", "is %d, must be %s", n, boundShards)
	}
	return bad.Err()
}

// settings returns the configuration with its defaults.
func (c Config) settings() store.Settings {
	return store.Settings{
		MaxBody: cmp.Or(c.MaxBody, duly.DefaultMaxBody), MaxQueues: cmp.Or(c.MaxQueues, duly.DefaultMaxQueues),
		Shards: cmp.Or(c.Shards, 1), Logger: cmp.Or(c.Logger, slog.Default()),
		Clock: c.Clock, Wall: c.wall, Manual: c.Manual,
	}
}
