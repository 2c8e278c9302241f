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

// The variables for a server. tokenVariable is the variable with the token, for a URL without a
// token, and the others name files for https.
const (
	tokenVariable = "DULY_TOKEN"
	caVariable    = "DULY_CA"
	certVariable  = "DULY_CLIENT_CERT"
	keyVariable   = "DULY_CLIENT_KEY"
)

// Engine opens the engine of a URL. The variable DULY_TOKEN may have a server's token
// instead of the URL. For https, DULY_CA, DULY_CLIENT_CERT and DULY_CLIENT_KEY name the
// files of httpengine.TLS. Engine returns [duly.ErrInvalid] for a URL of no engine, and the
// errors of the engine. No error repeats a URL, because it may have a token or a password.
func Engine(ctx context.Context, url string, opts ...Option) (contract.Engine, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}

	scheme, _, found := strings.Cut(url, ":")
	switch {
	case !found:
		return nil, contract.Invalid("url", "names no known engine; write %s", forms)
	case scheme == "sqlite":
		return openFile(ctx, url, &o)
	case isRedis(scheme):
		return openRedis(ctx, url, &o)
	case scheme == "http", scheme == "https":
		return openServer(ctx, url, &o)
	}
	return nil, unknownScheme(scheme, forms)
}

// CheckStore returns an error unless the URL names an engine with a store of its own,
// which a server can serve. It opens nothing. It returns the same errors as [Engine].
func CheckStore(url string) (err error) {
	scheme, _, found := strings.Cut(url, ":")
	switch {
	case !found:
		return contract.Invalid("url", "names no engine with a store; write %s", storeForms)
	case scheme == "sqlite":
		_, err = sqliteengine.ParseURL(url)
	case isRedis(scheme):
		_, err = redisengine.ParseURL(url)
	case scheme == "http", scheme == "https":
		err = contract.Invalid("url", "is the URL of a server, and a server can't serve another server; write %s", storeForms)
	default:
		err = unknownScheme(scheme, storeForms)
	}
	return err
}

func unknownScheme(scheme, forms string) error {
	return contract.Invalid("url", "begins with %s, which is not an engine; write %s", quoteScheme(scheme), forms)
}

// The forms of a URL, for errors: of a store, and of any engine.
const (
	storeForms = "sqlite:PATH for a file, or redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey"
	forms      = "sqlite:PATH for a file, redis://HOST (redis+sentinel://, redis+cluster://) for Redis or Valkey, " +
		"or http(s)://TOKEN@HOST/NAMESPACE for a server"
)

// Schemes returns the beginnings of an engine's URL.
func Schemes() []string { return append(StoreSchemes(), "http://", "https://") }

// StoreSchemes returns the beginnings of the URL of an engine that a server can serve.
func StoreSchemes() []string {
	schemes := []string{"sqlite:"}
	for _, scheme := range redisengine.Schemes() {
		schemes = append(schemes, scheme+"://")
	}
	return schemes
}

func openServer(ctx context.Context, url string, o *options) (contract.Engine, error) {
	config := o.tls
	// Files that cannot be read must not fail a connection that does not use them.
	if config == nil && strings.HasPrefix(url, "https:") {
		var err error
		files := httpengine.TLS{
			CA: os.Getenv(caVariable), Cert: os.Getenv(certVariable), Key: os.Getenv(keyVariable),
		}
		if config, err = files.Config(); err != nil {
			return nil, err
		}
	}

	e, err := httpengine.Open(ctx, httpengine.Config{URL: url, Token: os.Getenv(tokenVariable), TLS: config})
	if err != nil {
		// Returning e would return an interface that is not nil.
		return nil, err
	}
	return e, nil
}

// quoteScheme quotes a scheme for an error. A scheme that is longer than any known one may be a
// secret that was given by mistake, so it is left out.
func quoteScheme(scheme string) string {
	const longest, longestOfRedis = 12, 16
	if len(scheme) > longestOfRedis || len(scheme) > longest && !strings.HasPrefix(scheme, "redis") {
		return "a scheme"
	}
	return strconv.Quote(scheme + ":")
}
