package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dulymq/duly/open"
)

// Of how a Redis is set up an engine warns when it is opened, and names the
// setting to change. A command hears of those that endanger what it does: who
// looks at queues can change none of them, and whoever pushes a thousand times
// from a script need not be told a thousand times of the log that is off.
type hears int

const (
	hearNothing hears = iota
	hearLosses        // what may lose, or never confirm, what is pushed now
	hearAll
)

// The names that the engine on Redis has for what it warns of.
const (
	settingAttr     = "setting"
	settingEviction = "maxmemory-policy"
	settingReplicas = "durability"
)

// heeds tells whether a command says what is wrong with a setting.
func (h hears) heeds(setting string) bool {
	switch h {
	case hearAll:
		return true
	case hearLosses:
		return setting == settingEviction || setting == settingReplicas
	}
	return false
}

// notices is the log of a command's engine: a warning of a setting becomes a line
// like that of an error, everything else is for the log of its level.
type notices struct {
	slog.Handler
	app *app
}

// engineLog is where the engine at a URL logs to.
func (a *app) engineLog(url string) *slog.Logger {
	if !open.Redis(url) {
		return a.logger(slog.LevelWarn)
	}
	return slog.New(notices{a.logger(slog.LevelError).Handler(), a})
}

// Enabled implements slog.Handler.
func (n notices) Enabled(ctx context.Context, level slog.Level) bool {
	return level == slog.LevelWarn || n.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (n notices) Handle(ctx context.Context, r slog.Record) error {
	setting, server, more := "", "", []string{}
	r.Attrs(func(at slog.Attr) bool {
		switch at.Key {
		case settingAttr:
			setting = at.Value.String()
		case "server":
			server = at.Value.String()
		default:
			more = append(more, at.Key+" "+at.Value.String())
		}
		return true
	})
	if setting == "" {
		if !n.Handler.Enabled(ctx, r.Level) {
			return nil
		}
		return n.Handler.Handle(ctx, r)
	}
	if n.app.hears.heeds(setting) {
		text := strings.Replace(r.Message, "redis: ", "redis at "+server+": ", 1)
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		n.app.warn(setting, text)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (n notices) WithAttrs(attrs []slog.Attr) slog.Handler {
	return notices{n.Handler.WithAttrs(attrs), n.app}
}

// WithGroup implements slog.Handler.
func (n notices) WithGroup(name string) slog.Handler {
	return notices{n.Handler.WithGroup(name), n.app}
}

// warningView is a warning for machines.
type warningView struct {
	Setting string `json:"setting"`
	Detail  string `json:"detail"`
}

// warn prints a warning in one line, once: some commands open an engine again and
// again.
func (a *app) warn(setting, text string) {
	line := "duly: warning: " + oneLine(text)
	if a.json {
		view, _ := json.Marshal(map[string]any{"warning": warningView{setting, oneLine(text)}})
		line = string(view)
	}
	if _, said := a.warned.LoadOrStore(line, true); !said {
		fmt.Fprintf(&a.log, "%s\n", line)
	}
}
