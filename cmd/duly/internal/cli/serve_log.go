package cli

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly/cmd/duly/internal/config"
)

// logHandler is the log handler of a server. A reload changes its level and format,
// also for loggers that were derived from it before.
type logHandler struct {
	*logOutput
	wrappers []func(slog.Handler) slog.Handler // add attributes and groups, in order
}

// logOutput is shared by all loggers of a server.
type logOutput struct {
	to      io.Writer
	level   slog.LevelVar
	handler atomic.Pointer[slog.Handler]
}

func newLogHandler(to io.Writer, c *config.Log) logHandler {
	l := logHandler{logOutput: &logOutput{to: to}}
	l.configure(c)
	return l
}

// configure sets the level and the format.
func (o *logOutput) configure(c *config.Log) {
	options := &slog.HandlerOptions{Level: &o.level}
	var h slog.Handler = slog.NewTextHandler(o.to, options)
	if c.Format == "json" {
		h = slog.NewJSONHandler(o.to, options)
	}
	o.level.Set(c.Level)
	o.handler.Store(&h)
}

// Enabled implements slog.Handler.
func (l logHandler) Enabled(_ context.Context, level slog.Level) bool {
	// The level is shared, so Enabled needs no handler, which a reload may replace.
	return level >= l.level.Level()
}

// Handle implements slog.Handler.
func (l logHandler) Handle(ctx context.Context, r slog.Record) error {
	h := *l.handler.Load()

	// The wrappers are applied per record, so that older loggers follow a change of the format.
	for _, wrap := range l.wrappers {
		h = wrap(h)
	}
	return h.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.wrap(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l logHandler) WithGroup(name string) slog.Handler {
	return l.wrap(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

// wrap returns a logHandler with a further wrapper.
func (l logHandler) wrap(wrapper func(slog.Handler) slog.Handler) slog.Handler {
	// Clip prevents two loggers derived from one from sharing the last element.
	return logHandler{l.logOutput, append(slices.Clip(l.wrappers), wrapper)}
}
