package httpengine

import (
	"context"

	"github.com/dulymq/duly"
)

// Ready returns nil if a server and its engine answer. It returns [duly.ErrUnavailable] if one of
// them does not answer, or if the server is stopping. It needs no token and changes nothing.
func Ready(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	a, err := parseAddress(cfg.URL, "", engineForm)
	if err != nil {
		return err
	}
	// The check needs no token, so the token is not sent, in case the server is a wrong one.
	a.token, a.namespace = "", ""

	l := newLink(a, cfg.TLS, cfg.Client, cfg.Timeout)
	defer l.close()
	text, err := l.call(ctx, request{method: "GET", path: "/readyz"})
	// A duly server that is ready answers with a body.
	if err == nil && text == "" {
		err = duly.ErrUnavailable
	}
	return err
}
