package route

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
)

// ErrLeaving is the answer of the health route while the server stops. It is expected, so it is
// logged like a success.
var ErrLeaving error = contract.Errorf(duly.CodeUnavailable, "the server is shutting down")

// log writes the call's line of the access log.
func (c *Call) log() {
	ctx, level := context.Background(), c.logLevel()
	if !c.router.Log.Enabled(ctx, level) {
		return
	}

	attrs := []slog.Attr{
		slog.String("request", c.id), slog.String("method", Method(c.R.Method)), slog.String("route", c.route.Path),
		slog.Int("status", c.status), slog.Duration("took", clock.Monotonic()-c.start), slog.Int("bytes", c.sent),
		slog.String("remote", c.R.RemoteAddr),
	}
	if c.grant != nil {
		attrs = append(attrs, slog.String("token", c.grant.Name()), slog.String("namespace", namespace(c.Namespace)))
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("code", string(duly.CodeOf(c.err))))
		// Below 500 the error is the caller's, and its text is in the answer.
		if c.status >= 500 {
			attrs = append(attrs, slog.String("error", Fault(c.err)))
		}
	}
	c.router.Log.LogAttrs(ctx, level, "request", attrs...)
}

func (c *Call) logLevel() slog.Level {
	switch {
	case c.err == ErrLeaving:
	case c.status >= 500 && c.status != http.StatusNotImplemented: // 501 means that the caller made a mistake
		return slog.LevelError
	// A 404 without an error is a normal answer.
	case c.status >= 400 && c.status != statusGone && c.err != nil:
		return slog.LevelInfo
	}

	if c.router.AccessLog.Load() {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Method returns a method that HTTP defines, and "other" for any other text, because that may be a
// secret that was sent in the wrong place.
func Method(name string) string {
	switch name {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return name
	}
	return "other"
}

// namespace returns a namespace for the log, unless the text looks like a token.
func namespace(name string) string {
	if _, ok := auth.Hash(name); ok {
		return "(a token)"
	}
	return Line(name)
}

// secrets matches the parts of a URL that may hold a secret.
var secrets = regexp.MustCompile(`//\S*@|(?i:token|password|passwd|secret|key)=[^&\s"]+`)

// Fault returns the text of an error for the log: a [Line] without the secrets of URLs.
func Fault(err error) string {
	return Line(secrets.ReplaceAllStringFunc(fmt.Sprint(err), func(found string) string {
		if name, _, option := strings.Cut(found, "="); option && !strings.HasPrefix(found, "//") {
			return name + "=***"
		}
		return "//***@"
	}))
}

// Line returns untrusted text in a form for the log: ASCII without control characters, at most 500
// bytes.
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
