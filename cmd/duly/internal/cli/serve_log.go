package cli

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly/cmd/duly/internal/config"
)

// serverLog is the log of a server. Its level and its form may change while it
// is written, also for those who hold a logger with attributes of their own.
type serverLog struct {
	*shape
	with []func(slog.Handler) slog.Handler // attributes and groups, in their order
}

// shape is what all loggers of a server share.
type shape struct {
	to      io.Writer
	level   slog.LevelVar
	handler atomic.Pointer[slog.Handler]
}

func newServerLog(to io.Writer, c *config.Log) serverLog {
	l := serverLog{shape: &shape{to: to}}
	l.set(c)
	return l
}

// set takes over a level and a form.
func (s *shape) set(c *config.Log) {
	options := &slog.HandlerOptions{Level: &s.level}
	var h slog.Handler = slog.NewTextHandler(s.to, options)
	if c.Format == "json" {
		h = slog.NewJSONHandler(s.to, options)
	}
	s.level.Set(c.Level)
	s.handler.Store(&h)
}

// Enabled implements slog.Handler.
func (l serverLog) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

// Handle implements slog.Handler.
func (l serverLog) Handle(ctx context.Context, r slog.Record) error {
	h := *l.handler.Load()
	for _, add := range l.with {
		h = add(h)
	}
	return h.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l serverLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l serverLog) WithGroup(name string) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l serverLog) adding(add func(slog.Handler) slog.Handler) slog.Handler {
	return serverLog{l.shape, append(slices.Clip(l.with), add)}
}
