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
	// Token is used if the URL has no token.
	Token string `json:"-"`
	// TLS has the certificates for https, see [TLS]. If Client is set, TLS is not used. By default,
	// the authorities of the system are trusted, and there is no client certificate.
	TLS *tls.Config `json:"-"`
	// Client has the Transport for the requests. Its other fields have no effect. Default: a pool
	// of connections that only this engine uses.
	Client *http.Client
	// Timeout ends a request after that time without a byte sent or received. Default 30 s.
	Timeout time.Duration
	// Poll is the longest duration of one request of a Wait or WatchCancels, at most
	// [duly.MaxWait]. Keep it below the idle timeout of proxies in between. Default 50 s.
	Poll time.Duration
	// Clock measures waits, and the pauses of WatchCancels. It is for tests. Default: the system's
	// clock.
	Clock duly.Clock
}

// String returns the configuration without its token.
func (c Config) String() string {
	a, err := parseAddress(c.URL, c.Token, engineForm)
	if err != nil {
		// A URL that cannot be parsed may still contain a token, so it is not printed.
		return "httpengine.Config with a bad URL"
	}
	return a.String()
}

// GoString returns the result of String, for %#v.
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
