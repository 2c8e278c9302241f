package lmstfy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// leastToken is how long the text of a token must be that is given, in bytes.
const leastToken = 20

type tokenForm struct {
	Token string `json:"token"`
}

var errNotAPool = badRequest("the pool was not exists")

// createToken makes a token for a namespace, with a text that is given or one
// of duly's.
func (a *Admin) createToken(c *route.Call) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	t, text, wanted, err := a.newToken(c, form)
	if err != nil {
		return err
	}
	where, err := a.place(c, t.Namespace, wanted)
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
	c.Log().Info("token created", "created", auth.Name(t.Hash), "namespace", t.Namespace, "rights", t.Rights.Names(), "by", who(c))
	if where != duly.DefaultPool {
		text = where + ":" + text
	}
	return c.Reply(http.StatusCreated, indented(tokenForm{text}))
}

// place sees to it that a namespace is in the pool that is asked for, "" for
// wherever it is, and tells where that is.
func (a *Admin) place(c *route.Call, namespace, wanted string) (pool string, err error) {
	if wanted != "" {
		err = a.Pools.Assign(c.Context(), namespace, wanted)
		if errors.Is(err, duly.ErrConflict) {
			return "", badRequest(messageOf(err))
		}
		return wanted, err
	}
	where, err := a.Pools.Where(c.Context(), namespace)
	return where.Pool, err
}

// who made a change, for the log.
func who(c *route.Call) string {
	if name := c.Caller(); name != "" {
		return name
	}
	return "somebody on this machine"
}

// newToken reads what is asked for, in lmstfy's order; text and the wanted pool
// are "" where none is given.
func (a *Admin) newToken(c *route.Call, form url.Values) (t duly.Token, text, wanted string, err error) {
	t = duly.Token{Namespace: c.Namespace, Rights: duly.RightProduce | duly.RightConsume, Description: form.Get("description")}
	text = form.Get("token")
	wanted = c.R.URL.Query().Get("pool")
	switch {
	case t.Description == "":
		return t, "", "", badRequest("invalid description")
	case text != "" && len(text) < leastToken:
		return t, "", "", badRequest("the user token was too short")
	case len(t.Namespace) > duly.MaxName:
		return t, "", "", badRequest("the namespace name was too long")
	case !nameForm(t.Namespace):
		return t, "", "", errNamespace
	}
	if strings.Count(text, ":") == 1 {
		wanted, text = splitToken(text)
	}
	if wanted != "" && !a.Pools.Has(wanted) {
		return t, "", "", errNotAPool
	}
	if err := t.Validate(); err != nil {
		return t, "", "", badRequest("invalid description")
	}
	return t, text, wanted, nil
}

// readForm reads a form in the body, in either of a form's two ways, and the
// query; what is in the body goes first.
func readForm(c *route.Call) (url.Values, error) {
	body, err := c.BodyBytes()
	if err != nil {
		return nil, badBody(err)
	}
	r := &http.Request{Method: http.MethodPost, URL: c.R.URL, Header: c.R.Header, Body: io.NopCloser(bytes.NewReader(body))}
	_ = r.ParseMultipartForm(smallBody) // what can't be read is not there
	return r.Form, nil
}

type tokensForm struct {
	Tokens map[string]string `json:"tokens"`
}

// listTokens lists the tokens of a namespace, by their IDs: their texts are not
// known any more.
func (a *Admin) listTokens(c *route.Call) error {
	prefix := c.R.URL.Query().Get("pool")
	if prefix != "" && !a.Pools.Has(prefix) {
		return errNotAPool
	}
	list := tokensForm{map[string]string{}}
	if prefix != "" {
		where, err := a.Pools.Where(c.Context(), c.Namespace)
		if err != nil && !absent(err) {
			return err
		}
		if !where.Knows(prefix) {
			return c.Reply(http.StatusOK, indented(list))
		}
		prefix += ":"
	}
	err := a.eachToken(c, c.Namespace, func(t *duly.Token) { list.Tokens[prefix+wire.TokenID(t.Hash)] = t.Description })
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, indented(list))
}

// eachToken walks over the tokens of a namespace, "" for every one. What is no
// namespace has none; those for all namespaces are not lmstfy's.
func (a *Admin) eachToken(c *route.Call, namespace string, f func(t *duly.Token)) error {
	if namespace == duly.AllNamespaces || duly.ValidateNamespace(namespace) != nil {
		return nil
	}
	return each(c.Context(), func(p duly.PageParams) (string, error) {
		page, err := a.Registry.Tokens(c.Context(), namespace, p)
		for i := range page.Tokens {
			if shows(c, &page.Tokens[i]) {
				f(&page.Tokens[i])
			}
		}
		return page.Next, err
	})
}

// errNoSuchToken is for what needs a token that is there.
var errNoSuchToken = refuse(http.StatusNotFound, "token not found")

// token is the one that a path names by its text or its ID, if it belongs to
// the namespace; errNoSuchToken.
func (a *Admin) token(c *route.Call) (duly.Token, error) {
	in, text := splitToken(c.PathValue("token"))
	if in != "" && !a.Pools.Has(in) {
		return duly.Token{}, errNotAPool
	}
	candidates := hashes(c.Namespace, text)
	if id, err := wire.ParseTokenID(text); err == nil {
		candidates = append(candidates, id)
	}
	for _, hash := range candidates {
		t, err := a.Registry.FindToken(c.Context(), hash)
		if err == nil && t.Namespace == c.Namespace && shows(c, &t) {
			return t, nil
		}
		if err != nil && !errors.Is(err, duly.ErrNotFound) {
			return t, err
		}
	}
	return duly.Token{}, errNoSuchToken
}

// deleteToken revokes a token, on all servers, and is content if it is not
// there.
func (a *Admin) deleteToken(c *route.Call) error {
	t, err := a.token(c)
	if err == nil {
		err = a.Guard.Revoke(c.Context(), t.Hash)
	}
	if err != nil && !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	if err == nil {
		c.Log().Info("token revoked", "revoked", auth.Name(t.Hash), "by", who(c))
	}
	return c.Empty()
}
