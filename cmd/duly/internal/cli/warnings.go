package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dulymq/duly/open"
)

// warningLevel is the set of warnings that a command prints. The engine on Redis warns
// about settings of the server when it is opened. A command prints only the warnings
// about what it does: a script that pushes a thousand times would repeat all others a
// thousand times.
type warningLevel int

const (
	warnNever    warningLevel = iota
	warnDataLoss              // settings that may lose or never confirm a push
	warnAlways
)

// The attribute with the setting, and two settings, as the engine on Redis logs them.
const (
	settingAttr     = "setting"
	settingEviction = "maxmemory-policy"
	settingReplicas = "durability"
)

// includes reports whether a command prints the warning about a setting.
func (l warningLevel) includes(setting string) bool {
	switch l {
	case warnAlways:
		return true
	case warnDataLoss:
		return setting == settingEviction || setting == settingReplicas
	}
	return false
}

// warningHandler is the log handler of a command's engine. It prints a warning about a
// setting like an error, and passes on everything else.
type warningHandler struct {
	slog.Handler
	app *app
}

// engineLog returns the logger for the engine at a URL.
func (a *app) engineLog(url string) *slog.Logger {
	if !open.Redis(url) {
		return a.logger(slog.LevelWarn)
	}

	// Of other records only errors are printed. Enabled passes the warnings about settings.
	return slog.New(warningHandler{a.logger(slog.LevelError).Handler(), a})
}

// Enabled implements slog.Handler.
func (h warningHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level == slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h warningHandler) Handle(ctx context.Context, r slog.Record) error {
	setting, server, details := "", "", []string{}
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case settingAttr:
			setting = attr.Value.String()
		case "server":
			server = attr.Value.String()
		default:
			details = append(details, attr.Key+" "+attr.Value.String())
		}
		return true
	})

	// A record without a setting is an ordinary one. Enabled let it through only because of its level.
	if setting == "" {
		if !h.Handler.Enabled(ctx, r.Level) {
			return nil
		}
		return h.Handler.Handle(ctx, r)
	}

	if h.app.warnings.includes(setting) {
		text := strings.Replace(r.Message, "redis: ", "redis at "+server+": ", 1)
		if len(details) > 0 {
			text += " (" + strings.Join(details, ", ") + ")"
		}
		h.app.warn(setting, text)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningHandler{h.Handler.WithAttrs(attrs), h.app}
}

// WithGroup implements slog.Handler.
func (h warningHandler) WithGroup(name string) slog.Handler {
	return warningHandler{h.Handler.WithGroup(name), h.app}
}

// warningView is the JSON of a warning.
type warningView struct {
	Setting string `json:"setting"`
	Detail  string `json:"detail"`
}

// warn prints a warning on one line. It prints the same warning only once, because some
// commands open an engine several times.
func (a *app) warn(setting, text string) {
	line := "duly: warning: " + oneLine(text)
	if a.json {
		view, _ := json.Marshal(map[string]any{"warning": warningView{setting, oneLine(text)}})
		line = string(view)
	}
	if _, repeated := a.warned.LoadOrStore(line, true); !repeated {
		fmt.Fprintf(&a.log, "%s\n", line)
	}
}
