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
	tls       *tls.Config
	observe   func(engine, call string, took time.Duration)
}

// Log sets the logger for the engine's internal errors. Default slog.Default.
func Log(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// Gather lets callers that were just answered join the next commit of a
// sqlite: file. See sqliteengine.Config.
func Gather() Option { return func(o *options) { o.gather = true } }

// Observe sets a function that is called after every round trip of an engine to its store. It gets
// the engine ("redis" or "sqlite"), the call, and how long the answer took. See redisengine.Config
// and sqliteengine.Config. Calls to a server are not observed. f must be quick. It may be nil.
func Observe(observe func(engine, call string, took time.Duration)) Option {
	return func(o *options) { o.observe = observe }
}

// observeEngine returns the function of Observe for the calls to one engine.
func (o *options) observeEngine(engine string) func(call string, took time.Duration) {
	if o.observe == nil {
		return nil
	}
	return func(call string, took time.Duration) { o.observe(engine, call, took) }
}

// TLS sets the configuration for https instead of the variables, see [Engine].
func TLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// SyncDelay delays every commit of a sqlite: file by d. It is for measurements: it simulates a disk
// whose syncs take that long. Other engines ignore it. Default 0.
func SyncDelay(d time.Duration) Option { return func(o *options) { o.syncDelay = d } }
