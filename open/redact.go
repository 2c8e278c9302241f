package open

import (
	"net/url"
	"strings"
)

// hidden stands where a secret was.
const hidden = "***"

// secretOptions are the query parameters whose values are secrets, in whatever
// case they are written.
var secretOptions = []string{"token", "password", "passwd", "secret", "key"}

// Redact is an engine URL as it may be printed: whatever stands before the
// host's "@", and the value of every option whose name says that it is a
// secret, is replaced by "***". A text that is no URL loses the same places,
// so that a mistyped URL shows no token either; and one with an "@" among its
// options all of itself, for they may be the end of a password.
func Redact(text string) string {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	path, query, hasQuery := strings.Cut(rest, "?")
	if scheme != "sqlite" {
		slashes := path[:len(path)-len(strings.TrimLeft(path, "/"))]
		if strings.Contains(query, "@") {
			return scheme + ":" + slashes + hidden
		}
		if at := strings.LastIndexByte(path, '@'); at >= 0 {
			path = slashes + hidden + path[at:]
		}
	}
	if hasQuery {
		path += "?" + redactQuery(query)
	}
	return scheme + ":" + path
}

// redactQuery goes over the text itself, so that what is not a secret stays as
// it was written.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && secret(plain) {
			pairs[i] = name + "=" + hidden
		}
	}
	return strings.Join(pairs, "&")
}

func secret(option string) bool {
	option = strings.ToLower(option)
	for _, name := range secretOptions {
		if strings.HasSuffix(option, name) {
			return true
		}
	}
	return false
}
