package open

import (
	"strconv"
	"strings"

	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/sqliteengine"
)

// MaxBody is the bound on a body, in bytes, that the URL of an engine sets; 0
// where it sets none.
func MaxBody(url string) int {
	if c, err := redisengine.ParseURL(url); err == nil {
		return c.MaxBody
	}
	if c, err := sqliteengine.ParseURL(url); err == nil {
		return c.MaxBody
	}
	return 0
}

// WithMaxBody is the URL of a file or of Redis with a bound on a body, in bytes,
// in place of the default one; 0 leaves the URL as it is.
func WithMaxBody(url string, n int) string {
	if n == 0 {
		return url
	}
	sign := "?"
	if strings.Contains(url, "?") {
		sign = "&"
	}
	return url + sign + "max_body=" + strconv.Itoa(n)
}
