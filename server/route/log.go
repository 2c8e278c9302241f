package route

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
)

// ErrLeaving is what health says of a server that is about to stop. That is as
// it should be, so the log tells it as what goes well.
var ErrLeaving error = duly.Errorf(duly.CodeUnavailable, "the server stops")

// log writes the call's line of the access log.
func (c *Call) log() {
	level := slog.LevelDebug
	if c.host.AccessLog.Load() {
		level = slog.LevelInfo
	}
	switch {
	case c.err == ErrLeaving:
	case c.status >= 500 && c.status != http.StatusNotImplemented: // that is the caller's mistake
		level = slog.LevelError
	case c.status >= 400 && c.status != statusGone && c.err != nil: // without one, a route says by 404 that there is nothing
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !c.host.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", c.id), slog.String("method", Method(c.R.Method)), slog.String("route", c.route.Path), slog.Int("status", c.status),
		slog.Duration("took", clock.Monotonic()-c.start), slog.Int("bytes", c.sent), slog.String("remote", c.R.RemoteAddr),
	}
	if c.pass != nil {
		attrs = append(attrs, slog.String("token", c.pass.Name()), slog.String("namespace", namespace(c.Namespace)))
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("code", string(duly.CodeOf(c.err))))
		if c.status >= 500 {
			attrs = append(attrs, slog.String("error", Fault(c.err)))
		}
	}
	c.host.Log.LogAttrs(ctx, level, "request", attrs...)
}

// Method is one that has a name; anything else may be whatever somebody has put
// at the wrong place, and is "other".
func Method(name string) string {
	switch name {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return name
	}
	return "other"
}

// namespace is one unless it is a token at the wrong place.
func namespace(name string) string {
	if _, ok := auth.Hash(name); ok {
		return "(a token)"
	}
	return Line(name)
}

// secrets are the places of a URL in a text where one may stand.
var secrets = regexp.MustCompile(`//\S*@|(?i:token|password|passwd|secret|key)=[^&\s"]+`)

// Fault is an error as a log may hold it: a [Line] without what is secret in a
// URL.
func Fault(err error) string {
	return Line(secrets.ReplaceAllStringFunc(fmt.Sprint(err), func(found string) string {
		if name, _, option := strings.Cut(found, "="); option && !strings.HasPrefix(found, "//") {
			return name + "=***"
		}
		return "//***@"
	}))
}

// Line is text from outside as a log may hold it: ASCII without control
// characters, of one line's length.
func Line(text string) string {
	const most = 500
	b := make([]byte, 0, min(len(text), most))
	for i := 0; i < len(text) && len(b) < most; i++ {
		if c := text[i]; c >= 0x20 && c < 0x7f {
			b = append(b, c)
		} else {
			b = append(b, '?')
		}
	}
	return string(b)
}
