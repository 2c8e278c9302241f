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
	"github.com/dulymq/duly/internal/clock"
)

// Config says how to open an engine. Only Path must be set.
type Config struct {
	// Path is the database file. It is made if it is not there, and so is its
	// folder (readable by its owner alone). Beside it stand PATH-wal and
	// PATH-shm, which belong to it and are moved or copied only with it, and
	// PATH-lock and PATH-ballast.
	Path string
	// MaxBody is the bound on a body in bytes, up to duly.MaxMaxBody. Default
	// duly.DefaultMaxBody.
	MaxBody int
	// MaxQueues is the bound on the queues of one namespace. Default
	// duly.DefaultMaxQueues.
	MaxQueues int
	// Synchronous is SyncFull (the default) or SyncNormal.
	Synchronous Synchronous
	// Clock is the engine's clock. Default: the system's.
	Clock clock.Clock
	// Logger is told what a bound drops, and what happens to the store.
	// Default: slog.Default().
	Logger *slog.Logger
	// Manual leaves time to Reserve and Step: the engine takes back no lease by
	// itself.
	Manual bool
	// Gather lets the callers that were just answered come back before the next
	// commit is begun, so that commits are fewer and larger. It is for servers,
	// whose goroutines are all brief: the writer yields the processor to them,
	// and beside handlers that compute for long it would wait for those.
	Gather bool
	// Observe, if set, is told how long things took: each transaction that
	// writes ("transaction"), the commit at its end alone ("commit"), which is
	// the disk's part, and each that reads ("read"). It must be quick, and is
	// called by several goroutines at once.
	Observe func(call string, took time.Duration)
	// SyncDelay is added to every commit, for measurements: how fast would
	// this be on a disk whose syncs take that long? Default 0.
	SyncDelay time.Duration

	aside bool // the file is a copy that a restore checks
}

// Synchronous is what a commit waits for.
type Synchronous string

// The choices.
const (
	// SyncFull syncs every commit before it is answered: what was answered
	// survives a power cut.
	SyncFull Synchronous = "full"
	// SyncNormal syncs only when the log is moved into the database file. What
	// was answered survives a crash of the process; a power cut may take back
	// the last commits, always the newest first, and never damages the file.
	SyncNormal Synchronous = "normal"
)

// ParseURL reads an engine URL, sqlite:PATH?option=value&…, of which the
// options are synchronous (full or normal), max_body (bytes) and max_queues.
// Anything else is refused with [duly.ErrInvalid]. A "%" or "?" in the path is
// written as %25 or %3F.
func ParseURL(text string) (Config, error) {
	var c Config
	rest, ok := strings.CutPrefix(text, "sqlite:")
	if !ok {
		return c, duly.Invalid("url", "must begin with sqlite:, like sqlite:jobs.db")
	}

	path, query, _ := strings.Cut(rest, "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return c, duly.Invalid("url", "has a path with a %% that begins no %%XX; write %%25 for the character itself")
	}

	c.Path = path
	options, err := url.ParseQuery(query)
	if err != nil {
		return c, duly.Invalid("url", "has options that can't be read; write them like ?synchronous=normal&max_body=1048576")
	}

	for name, values := range options {
		if len(values) != 1 {
			return c, duly.Invalid("url", "gives option %s %d times, give it once", strconv.Quote(name), len(values))
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
			return duly.Invalid("synchronous", "is empty, must be full or normal")
		}
	case "max_body":
		c.MaxBody, err = positive(name, value, boundBody)
	case "max_queues":
		c.MaxQueues, err = positive(name, value, boundQueues)
	default:
		return duly.Invalid("url", "has the unknown option %s; there are synchronous, max_body and max_queues", strconv.Quote(name))
	}
	return err
}

// What the options of a file must be.
var (
	boundBody   = fmt.Sprintf("a number of bytes between 1 and %d", duly.MaxMaxBody)
	boundQueues = fmt.Sprintf("a number between 1 and %d", math.MaxInt32)
)

func positive(name, value, bound string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, duly.Invalid(name, "is %s, must be %s", strconv.Quote(value), bound)
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

// validate reports every bad field at once.
func (c Config) validate() error {
	var bad duly.BadFields
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
	if c.Synchronous != "" && c.Synchronous != SyncFull && c.Synchronous != SyncNormal {
		bad.Add("synchronous", "is %q, must be full or normal", string(c.Synchronous))
	}
	return bad.Err()
}
