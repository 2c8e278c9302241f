package open

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Option changes how an engine is opened.
type Option func(*options)

type options struct {
	log       *slog.Logger
	syncDelay time.Duration
	gather    bool
	secure    *tls.Config
	observe   func(engine, call string, took time.Duration)
}

// Log is where the engine writes what goes wrong inside it. Default
// slog.Default.
func Log(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// Gather is for servers: it lets callers that were just answered join the next
// commit of a sqlite: file. See sqliteengine.Config.
func Gather() Option { return func(o *options) { o.gather = true } }

// Observe is told of every round trip of an engine to its store: the engine,
// "redis" or "sqlite", what was called and how long the answer took; see
// redisengine.Config and sqliteengine.Config. A server's are not told of. It
// must be quick. Nil: nobody is told.
func Observe(told func(engine, call string, took time.Duration)) Option {
	return func(o *options) { o.observe = told }
}

// of is what the engine of that name tells.
func (o *options) of(engine string) func(call string, took time.Duration) {
	if o.observe == nil {
		return nil
	}
	return func(call string, took time.Duration) { o.observe(engine, call, took) }
}

// TLS is how https is spoken with a server; it comes before what the variables
// say, see [Engine].
func TLS(c *tls.Config) Option { return func(o *options) { o.secure = c } }

// SyncDelay is added to every commit of a sqlite: file, for measurements: how
// fast would it be on a disk whose syncs take that long? Other engines ignore
// it. Default 0.
func SyncDelay(d time.Duration) Option { return func(o *options) { o.syncDelay = d } }
