package sqliteengine

import (
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Config configures an engine. Only Path is required.
type Config struct {
	// Path is the database file. Open creates the file and its folder, readable by
	// their owner only. SQLite and the engine keep PATH-wal, PATH-shm, PATH-lock and
	// PATH-ballast next to it. Move or copy PATH-wal and PATH-shm only together
	// with the file.
	Path string
	// MaxBody is the maximum size of a body in bytes, up to duly.MaxMaxBody.
	// Default duly.DefaultMaxBody.
	MaxBody int
	// MaxQueues is the maximum number of queues in one namespace. Default
	// duly.DefaultMaxQueues.
	MaxQueues int
	// Synchronous is SyncFull (the default) or SyncNormal.
	Synchronous Synchronous
	// Clock is the engine's clock. Default: the system clock.
	Clock duly.Clock
	// Logger logs jobs dropped over a bound and events of the store. Default:
	// slog.Default().
	Logger *slog.Logger
	// Manual leaves the passing of time to Reserve and Step: the engine takes back
	// no lease on its own.
	Manual bool
	// Gather delays the next commit until the callers of the last commit have made their next
	// calls, so that commits are fewer and larger. Use it in servers, whose goroutines are short.
	// The writer yields its processor to them, so handlers in the same process that compute for
	// long would delay the commit.
	Gather bool
	// Observe, if set, is called with the duration of each write transaction
	// ("transaction"), of the commit at its end ("commit"), which is the disk's
	// share, and of each read transaction ("read"). It must be fast and safe for
	// concurrent use.
	Observe func(call string, took time.Duration)
	// SyncDelay is added to every commit. Benchmarks use it to simulate a disk with
	// slow syncs. Default 0.
	SyncDelay time.Duration

	isCopy bool // whether the file is a temporary copy that a restore checks
}

// Synchronous is a durability level.
type Synchronous string

// The durability levels.
const (
	// SyncFull syncs every commit before its callers are answered. Answered calls
	// survive a power cut.
	SyncFull Synchronous = "full"
	// SyncNormal syncs only at checkpoints. Answered calls survive a crash of the
	// process. A power cut may undo the newest commits, but never damages the file.
	SyncNormal Synchronous = "normal"
)

// ParseURL parses an engine URL of the form sqlite:PATH?option=value&…. The options
// are synchronous (full or normal), max_body (bytes) and max_queues. ParseURL
// returns [duly.ErrInvalid] for anything else. A "%" or "?" in the path is written
// as %25 or %3F.
func ParseURL(text string) (Config, error) {
	var c Config
	rest, ok := strings.CutPrefix(text, "sqlite:")
	if !ok {
		return c, contract.Invalid("url", "must begin with sqlite:, like sqlite:jobs.db")
	}

	path, query, _ := strings.Cut(rest, "?")
	// Only "%" and "?" need escaping, because the first "?" ends the path.
	path, err := url.PathUnescape(path)
	if err != nil {
		return c, contract.Invalid("url", "has a path with a %% that is not followed by two hexadecimal digits; "+
			"write %%25 for the character itself")
	}

	c.Path = path
	options, err := url.ParseQuery(query)
	if err != nil {
		return c, contract.Invalid("url", "has options that can't be parsed; write them like ?synchronous=normal&max_body=1048576")
	}

	for name, values := range options {
		if len(values) != 1 {
			return c, contract.Invalid("url", "has option %s %d times; give it once", strconv.Quote(name), len(values))
		}
		if err := c.option(name, values[0]); err != nil {
			return c, err
		}
	}

	return c, c.validate()
}

func (c *Config) option(name, value string) (err error) {
	switch name {
	case "synchronous":
		c.Synchronous = Synchronous(value)
		if value == "" {
			return contract.Invalid("synchronous", "has an option synchronous without a value, must be full or normal")
		}
	case "max_body":
		c.MaxBody, err = positive(name, value, boundBody)
	case "max_queues":
		c.MaxQueues, err = positive(name, value, boundQueues)
	default:
		return contract.Invalid("url", "has the unknown option %s; the options are synchronous, max_body and max_queues",
			strconv.Quote(name))
	}
	return err
}

// The texts that errors use for the allowed values of the options of a file.
var (
	boundBody   = fmt.Sprintf("a number of bytes between 1 and %d", duly.MaxMaxBody)
	boundQueues = fmt.Sprintf("a number between 1 and %d", math.MaxInt32)
)

func positive(name, value, bound string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, contract.Invalid(name, "is %s, must be %s", strconv.Quote(value), bound)
	}
	return n, nil
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = duly.DefaultMaxBody
	}
	if c.MaxQueues == 0 {
		c.MaxQueues = duly.DefaultMaxQueues
	}
	if c.Synchronous == "" {
		c.Synchronous = SyncFull
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate returns one error that lists all bad fields.
func (c Config) validate() error {
	var bad contract.BadFields
	if c.Path == "" {
		bad.Add("path", "is missing; give the database file, like sqlite:jobs.db")
	}
	if strings.ContainsRune(c.Path, 0) {
		bad.Add("path", "contains a NUL")
	}
	if c.MaxBody < 0 || c.MaxBody > duly.MaxMaxBody {
		bad.Add("max_body", "is %d, must be %s", c.MaxBody, boundBody)
	}

	if c.MaxQueues < 0 || c.MaxQueues > math.MaxInt32 {
		bad.Add("max_queues", "is %d, must be %s", c.MaxQueues, boundQueues)
	}
	// Empty and zero fields are valid, because withDefaults fills them in.
	if c.Synchronous != "" && c.Synchronous != SyncFull && c.Synchronous != SyncNormal {
		bad.Add("synchronous", "is %q, must be full or normal", string(c.Synchronous))
	}

	return bad.Err()
}
