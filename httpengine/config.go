package httpengine

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Config configures an engine. Only URL must be set.
type Config struct {
	// URL is http(s)://TOKEN@HOST/NAMESPACE. The default namespace is
	// [duly.DefaultNamespace].
	URL string `json:"-"`
	// Token is for a URL without one.
	Token string `json:"-"`
	// TLS is for https, see [TLS]. Client overrides it. Default: the system's authorities,
	// and no client certificate.
	TLS *tls.Config `json:"-"`
	// Client has the Transport for the requests. Its other fields have no effect. Default: a
	// pool of connections of the engine's own.
	Client *http.Client
	// Timeout ends a request after that time without a byte sent or received. Default 30 s.
	Timeout time.Duration
	// Poll bounds one request of a Wait or WatchCancels, at most [duly.MaxWait]. Keep it below
	// the idle timeout of proxies in between. Default 50 s.
	Poll time.Duration
	// Clock measures waits, and the pauses of WatchCancels. It is for tests. Default the
	// system's.
	Clock duly.Clock
}

// String returns the configuration without its token.
func (c Config) String() string {
	a, err := parseAddress(c.URL, c.Token, engineForm)
	if err != nil {
		// A URL that cannot be parsed may still have a token.
		return "httpengine.Config with a bad URL"
	}
	return a.String()
}

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 50 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c
}

func (c Config) validate() error {
	var bad contract.BadFields
	if c.Timeout < 0 {
		bad.Add("timeout", "is %s, must be above 0s", duly.FormatDuration(c.Timeout))
	}
	if c.Poll < 0 || c.Poll > duly.MaxWait {
		bad.Add("poll", "is %s, must be above 0s and at most %s",
			duly.FormatDuration(c.Poll), duly.FormatDuration(duly.MaxWait))
	}
	return bad.Err()
}
