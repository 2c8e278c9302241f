package lmstfy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// minToken is the shortest text of a token that a caller may give, in bytes.
const minToken = 20

type tokenForm struct {
	Token string `json:"token"`
}

var errNotAPool = badRequest("the pool was not exists")

// createToken creates a token for a namespace. Its text comes from the caller, or is a new token of
// duly.
func (a *Admin) createToken(c *route.Call) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	t, text, inPool, err := a.readToken(c, form)
	if err != nil {
		return err
	}
	// The namespace gets its pool before it has a token, so no job can go to another pool.
	pool, err := a.assign(c, t.Namespace, inPool)
	if err != nil {
		return err
	}

	if text == "" {
		text, t, err = a.Guard.Create(c.Context(), t)
	} else {
		t.Hash = GivenHash(t.Namespace, text)
		err = a.Guard.CreateAs(c.Context(), t)
	}
	if errors.Is(err, duly.ErrConflict) {
		return badRequest("the token has already existed")
	}
	if err != nil {
		return err
	}

	c.Log().Info("token created", "created", auth.Name(t.Hash), "namespace", t.Namespace,
		"rights", t.Rights.Names(), "by", callerName(c))
	if pool != contract.DefaultPool {
		text = pool + ":" + text
	}
	return c.Reply(http.StatusCreated, indented(tokenForm{text}))
}

// assign places a namespace in a pool and returns the namespace's pool. If inPool is "", the
// namespace stays where it is.
func (a *Admin) assign(c *route.Call, namespace, inPool string) (pool string, err error) {
	if inPool != "" {
		err = a.Pools.Assign(c.Context(), namespace, inPool)
		if errors.Is(err, duly.ErrConflict) {
			return "", badRequest(messageOf(err))
		}
		return inPool, err
	}
	where, err := a.Pools.Where(c.Context(), namespace)
	return where.Pool, err
}

// callerName returns the name of the caller for the log.
func callerName(c *route.Call) string {
	if name := c.Caller(); name != "" {
		return name
	}
	return "a caller on this machine"
}

// readToken reads the token of a request, with the checks in lmstfy's order. text and inPool are
// "" if they are not given.
func (a *Admin) readToken(c *route.Call, form url.Values) (t contract.Token, text, inPool string, err error) {
	t = contract.Token{
		Namespace: c.Namespace, Rights: contract.RightProduce | contract.RightConsume, Description: form.Get("description"),
	}
	text = form.Get("token")
	inPool = c.R.URL.Query().Get("pool")

	switch {
	case t.Description == "":
		return t, "", "", badRequest("invalid description")
	case text != "" && len(text) < minToken:
		return t, "", "", badRequest("the user token was too short")
	case len(t.Namespace) > duly.MaxName:
		return t, "", "", badRequest("the namespace name was too long")
	case !isName(t.Namespace):
		return t, "", "", errNamespace
	}
	// lmstfy does not split a string with several colons.
	if strings.Count(text, ":") == 1 {
		inPool, text = splitToken(text)
	}
	if inPool != "" && !a.Pools.Has(inPool) {
		return t, "", "", errNotAPool
	}
	// Only the description has not been checked yet.
	if err := t.Validate(); err != nil {
		return t, "", "", badRequest("invalid description")
	}
	return t, text, inPool, nil
}

// readForm reads a form from the body, in either of the two encodings, and the query. The body
// goes first.
func readForm(c *route.Call) (url.Values, error) {
	body, err := c.BodyBytes()
	if err != nil {
		return nil, badBody(err)
	}
	// The parser of net/http needs a request. The body has been read within its own bound.
	r := &http.Request{
		Method: http.MethodPost, URL: c.R.URL, Header: c.R.Header, Body: io.NopCloser(bytes.NewReader(body)),
	}
	_ = r.ParseMultipartForm(smallBody) // a part that can't be read counts as missing
	return r.Form, nil
}

type tokensForm struct {
	Tokens map[string]string `json:"tokens"`
}

// listTokens lists the IDs of the tokens of a namespace. It can't list their texts, because these
// are not stored.
func (a *Admin) listTokens(c *route.Call) error {
	prefix := c.R.URL.Query().Get("pool")
	if prefix != "" && !a.Pools.Has(prefix) {
		return errNotAPool
	}

	list := tokensForm{map[string]string{}}
	if prefix != "" {
		where, err := a.Pools.Where(c.Context(), c.Namespace)
		if err != nil && !isAbsent(err) {
			return err
		}
		// The namespace has no tokens in this pool.
		if !where.Knows(prefix) {
			return c.Reply(http.StatusOK, indented(list))
		}
		prefix += ":"
	}

	err := a.eachToken(c, c.Namespace, func(t *contract.Token) {
		list.Tokens[prefix+wire.TokenID(t.Hash)] = t.Description
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, indented(list))
}

// eachToken calls f for the tokens of a namespace, of every namespace for "". An invalid name has
// no tokens. lmstfy has no tokens for all namespaces.
func (a *Admin) eachToken(c *route.Call, namespace string, f func(t *contract.Token)) error {
	if namespace == contract.AllNamespaces || contract.ValidateNamespace(namespace) != nil {
		return nil
	}
	return eachPage(c.Context(), func(p duly.PageParams) (string, error) {
		page, err := a.Registry.Tokens(c.Context(), namespace, p)
		for i := range page.Tokens {
			if shows(c, &page.Tokens[i]) {
				f(&page.Tokens[i])
			}
		}
		return page.Next, err
	})
}

// errNoSuchToken is the error of a route that needs an existing token.
var errNoSuchToken = refuse(http.StatusNotFound, "token not found")

// token returns the token that the path names by its text or its ID. It returns errNoSuchToken if
// the token does not belong to the namespace.
func (a *Admin) token(c *route.Call) (contract.Token, error) {
	in, text := splitToken(c.PathValue("token"))
	if in != "" && !a.Pools.Has(in) {
		return contract.Token{}, errNotAPool
	}

	// Lists show only IDs, so a caller may also name a token by its ID.
	candidates := hashes(c.Namespace, text)
	if id, err := wire.ParseTokenID(text); err == nil {
		candidates = append(candidates, id)
	}
	for _, hash := range candidates {
		t, err := a.Registry.FindToken(c.Context(), hash)
		// The token of another namespace counts as unknown, so that callers can't probe for it.
		if err == nil && t.Namespace == c.Namespace && shows(c, &t) {
			return t, nil
		}
		if err != nil && !errors.Is(err, duly.ErrNotFound) {
			return t, err
		}
	}
	return contract.Token{}, errNoSuchToken
}

// deleteToken revokes a token on all servers. If the token does not exist, deleteToken does
// nothing.
func (a *Admin) deleteToken(c *route.Call) error {
	t, err := a.token(c)
	if err == nil {
		err = a.Guard.Revoke(c.Context(), t.Hash)
	}
	if err != nil && !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	if err == nil {
		c.Log().Info("token revoked", "revoked", auth.Name(t.Hash), "by", callerName(c))
	}
	return c.Empty()
}
