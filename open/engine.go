package open

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/sqliteengine"
)

// The variables for a server: tokenVariable holds the token for a URL that has
// none, the others name files for https.
const (
	tokenVariable = "DULY_TOKEN"
	caVariable    = "DULY_CA"
	certVariable  = "DULY_CLIENT_CERT"
	keyVariable   = "DULY_CLIENT_KEY"
)

// Engine opens the engine that the URL chooses. A server's token may stand in
// the variable DULY_TOKEN instead of the URL, and for https the files of DULY_CA,
// DULY_CLIENT_CERT and DULY_CLIENT_KEY are used as httpengine.TLS has them. It answers [duly.ErrInvalid] for
// a URL that chooses none, and whatever the engine says; no error repeats a
// URL that may hold a token or a password.
func Engine(ctx context.Context, url string, opts ...Option) (contract.Engine, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	scheme, _, found := strings.Cut(url, ":")
	switch {
	case !found:
		return nil, contract.Invalid("url", "names no engine; write %s", forms)
	case scheme == "sqlite":
		return file(ctx, url, &o)
	case onRedis(scheme):
		return redis(ctx, url, &o)
	case scheme == "http", scheme == "https":
		return server(ctx, url, &o)
	}
	return nil, unknown(scheme, forms)
}

// CheckStore tells whether a URL chooses an engine that can be served, which is
// one with a store of its own, and opens nothing. It answers as [Engine] does.
func CheckStore(url string) (err error) {
	scheme, _, found := strings.Cut(url, ":")
	switch {
	case !found:
		return contract.Invalid("url", "names no engine; write %s", storeForms)
	case scheme == "sqlite":
		_, err = sqliteengine.ParseURL(url)
	case onRedis(scheme):
		_, err = redisengine.ParseURL(url)
	case scheme == "http", scheme == "https":
		err = contract.Invalid("url", "is the URL of a server, which can't be served once more; write %s", storeForms)
	default:
		err = unknown(scheme, storeForms)
	}
	return err
}

func unknown(scheme, forms string) error {
	return contract.Invalid("url", "begins with %s, which is no engine; write %s", short(scheme), forms)
}

// What a URL looks like, in short: that of a store, and that of any engine.
const (
	storeForms = "sqlite:PATH for a file, or redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey"
	forms      = "sqlite:PATH for a file, redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey, or http(s)://TOKEN@HOST/NAMESPACE for a server"
)

// Schemes lists what the URL of an engine begins with.
func Schemes() []string { return append(StoreSchemes(), "http://", "https://") }

// StoreSchemes lists what the URL of an engine begins with that can be served.
func StoreSchemes() []string {
	schemes := []string{"sqlite:"}
	for _, scheme := range redisengine.Schemes() {
		schemes = append(schemes, scheme+"://")
	}
	return schemes
}

func server(ctx context.Context, url string, o *options) (contract.Engine, error) {
	secure := o.secure
	if secure == nil && strings.HasPrefix(url, "https:") {
		var err error
		files := httpengine.TLS{CA: os.Getenv(caVariable), Cert: os.Getenv(certVariable), Key: os.Getenv(keyVariable)}
		if secure, err = files.Config(); err != nil {
			return nil, err
		}
	}
	e, err := httpengine.Open(ctx, httpengine.Config{URL: url, Token: os.Getenv(tokenVariable), TLS: secure})
	if err != nil {
		return nil, err // a nil *Engine would be no nil Contract
	}
	return e, nil
}

// short quotes a scheme, unless it is longer than any: then it may be a secret
// in the wrong place.
func short(scheme string) string {
	const most, mostOfRedis = 12, 16
	if len(scheme) > mostOfRedis || len(scheme) > most && !strings.HasPrefix(scheme, "redis") {
		return "a scheme"
	}
	return strconv.Quote(scheme + ":")
}
