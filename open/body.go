package open

import (
	"strconv"
	"strings"

	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/sqliteengine"
)

// MaxBody returns the bound on a body, in bytes, that the URL of an engine sets, or 0.
func MaxBody(url string) int {
	if c, err := redisengine.ParseURL(url); err == nil {
		return c.MaxBody
	}
	if c, err := sqliteengine.ParseURL(url); err == nil {
		return c.MaxBody
	}
	// The body of a job over HTTP is bounded by its server.
	return 0
}

// WithMaxBody returns the URL of a file or of Redis with a bound on a body, in bytes. 0
// leaves the URL unchanged.
func WithMaxBody(url string, n int) string {
	if n == 0 {
		return url
	}
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "max_body=" + strconv.Itoa(n)
}
