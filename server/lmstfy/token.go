package lmstfy

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

var (
	errNoPool       = refuse(http.StatusNotFound, "pool not found")
	errNoToken      = refuse(http.StatusUnauthorized, "token not found")
	errInvalidToken = refuse(http.StatusUnauthorized, "invalid token")
	errNoRight      = refuse(http.StatusForbidden, "the token does not have the right to do this")
)

// splitToken splits the text of a token at its first colon. inPool is "" without a colon.
func splitToken(text string) (inPool, token string) {
	before, after, found := strings.Cut(text, ":")
	switch {
	case !found:
		return "", text
	case before == "":
		return contract.DefaultPool, after
	}
	return before, after
}

// admit checks the names, the pool and the token of a request before its body is read.
func (a *API) admit(
	c *route.Call, names func(namespace, queue string) error, access auth.Access,
) (*auth.Grant, error) {
	// The checks and their errors come in the same order as in lmstfy.
	if err := names(c.Namespace, c.PathValue("queue")); err != nil {
		return nil, err
	}
	if len(c.R.RequestURI) > route.MaxURL {
		return nil, errTooLongURL
	}

	text := c.R.Header.Get("X-Token")
	if text == "" {
		text = c.R.URL.Query().Get("token")
	}
	inPool, token := splitToken(text)
	switch {
	case inPool != "" && !a.pools.Has(inPool):
		return nil, errNoPool
	case access == auth.Open:
		return nil, nil
	case token == "":
		return nil, errNoToken
	}

	grant, err := a.grant(c, token)
	switch {
	case errors.Is(err, duly.ErrUnauthorized):
		return nil, errInvalidToken
	case err != nil:
		return nil, err
	case grant.Token.Namespace != c.Namespace && grant.Token.Namespace != contract.AllNamespaces:
		return nil, errInvalidToken
	case !access.Allows(&grant.Token, c.Namespace):
		return grant, errNoRight
	}
	return grant, a.checkPool(c, inPool)
}

// checkPool returns an error unless the namespace is, or was, in the pool that its token names.
// A namespace keeps its tokens when it moves. A token without a pool fits every pool.
func (a *API) checkPool(c *route.Call, inPool string) error {
	if inPool == "" {
		return nil
	}
	where, err := a.pools.Where(c.Context(), c.Namespace)
	if err == nil && !where.Knows(inPool) {
		err = errInvalidToken
	}
	return err
}

// grant returns the grant of a token. A cached token of duly costs one hash. A person may have
// chosen any other text, so the guard counts failed guesses, with the namespace as the account.
func (a *API) grant(c *route.Call, token string) (*auth.Grant, error) {
	hash, ok := auth.Hash(token)
	if !ok {
		return a.guard.AdmitChosen(c.Context(), c.Remote(), "namespace "+c.Namespace, GivenHash(c.Namespace, token))
	}
	if grant := a.guard.Cached(hash); grant != nil {
		return grant, nil
	}
	return a.guard.Admit(c.Context(), hash, GivenHash(c.Namespace, token))
}

// hashes returns the two hashes under which a token of a namespace may be stored: that of a token
// of duly, and that of a text which was given to lmstfy's admin API.
func hashes(namespace, token string) [][32]byte {
	given := GivenHash(namespace, token)
	if hash, ok := auth.Hash(token); ok {
		return [][32]byte{hash, given}
	}
	return [][32]byte{given}
}

// GivenHash returns the hash of a token whose text the caller chose. Several namespaces may use the
// same text, and their tokens have different hashes.
func GivenHash(namespace, token string) [32]byte {
	return sha256.Sum256([]byte("lmstfy\x00" + namespace + "\x00" + token))
}

func admitAll(*route.Call) (*auth.Grant, error) { return nil, nil }
