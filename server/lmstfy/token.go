package lmstfy

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

var (
	errNoPool       = refuse(http.StatusNotFound, "pool not found")
	errNoToken      = refuse(http.StatusUnauthorized, "token not found")
	errInvalidToken = refuse(http.StatusUnauthorized, "invalid token")
	errNoRight      = refuse(http.StatusForbidden, "the token does not have the right to do this")
)

// splitToken takes a token's text apart at its first colon; inPool is "" where
// there is none.
func splitToken(text string) (inPool, token string) {
	before, after, found := strings.Cut(text, ":")
	switch {
	case !found:
		return "", text
	case before == "":
		return duly.DefaultPool, after
	}
	return before, after
}

// admit judges a request before its body is read: names, pool, token.
func (a *API) admit(c *route.Call, names func(namespace, queue string) error, need auth.Access) (*auth.Grant, error) {
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
	case need == auth.Open:
		return nil, nil
	case token == "":
		return nil, errNoToken
	}
	p, err := a.pass(c, token)
	switch {
	case errors.Is(err, duly.ErrUnauthorized):
		return nil, errInvalidToken
	case err != nil:
		return nil, err
	case p.Token.Namespace != c.Namespace && p.Token.Namespace != duly.AllNamespaces:
		return nil, errInvalidToken
	case !need.Allows(&p.Token, c.Namespace):
		return p, errNoRight
	}
	return p, a.checkPool(c, inPool)
}

// checkPool judges a pool that a token names: its namespace is there, or has
// been, for a namespace that was moved keeps its tokens. Without one the token is
// for wherever its namespace is.
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

// pass returns the pass of a token. A remembered token of duly's costs one hash.
// Any other text was chosen by a person, so failed guesses are counted, with the
// namespace as the account.
func (a *API) pass(c *route.Call, token string) (*auth.Grant, error) {
	hash, ok := auth.Hash(token)
	if !ok {
		return a.guard.AdmitChosen(c.Context(), c.Remote(), "namespace "+c.Namespace, GivenHash(c.Namespace, token))
	}
	if p := a.guard.Cached(hash); p != nil {
		return p, nil
	}
	return a.guard.Admit(c.Context(), hash, GivenHash(c.Namespace, token))
}

// hashes returns those under which a namespace's token may be stored: as one of
// duly's, or as one whose text lmstfy's admin API was given.
func hashes(namespace, token string) [][32]byte {
	given := GivenHash(namespace, token)
	if hash, ok := auth.Hash(token); ok {
		return [][32]byte{hash, given}
	}
	return [][32]byte{given}
}

// GivenHash is what is stored of a token whose text was given. Several
// namespaces may have the same text; no other token has that hash.
func GivenHash(namespace, token string) [32]byte {
	return sha256.Sum256([]byte("lmstfy\x00" + namespace + "\x00" + token))
}

func anybody(*route.Call) (*auth.Grant, error) { return nil, nil }
