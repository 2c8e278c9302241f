package open

import (
	"net/url"
	"strings"
)

// hidden replaces a secret in printed texts.
const hidden = "***"

// secretOptions are the endings of the names of options whose values are secrets, in lower or upper
// case.
var secretOptions = []string{"token", "password", "passwd", "secret", "key"}

// Redact returns an engine's URL without secrets: "***" replaces the user information before the
// host's "@", and the value of every option with the name of a secret. In a string that is not a URL,
// the same parts are replaced, so that a mistyped URL shows no token either. If the options of a
// URL contain an "@", they may be the end of a password. In that case only the scheme is left.
func Redact(text string) string {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	path, query, hasQuery := strings.Cut(rest, "?")

	// The path of a file may have an "@", and the file has no password.
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

// redactQuery hides the secrets of a query. It replaces parts of the text, so that the other parts
// are not changed.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		// An engine reads the name without its escapes.
		if plain, err := url.QueryUnescape(name); err == nil && isSecret(plain) {
			pairs[i] = name + "=" + hidden
		}
	}
	return strings.Join(pairs, "&")
}

// isSecret reports whether the value of an option is a secret.
func isSecret(option string) bool {
	option = strings.ToLower(option)
	for _, name := range secretOptions {
		if strings.HasSuffix(option, name) {
			return true
		}
	}
	return false
}
