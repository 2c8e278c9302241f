package route

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
)

// admit is how the native API judges a request before its body is read.
func (c *Call) admit() (err error) {
	if c.pass, err = c.CheckToken(); err != nil {
		return err
	}
	if c.R.URL.RawQuery != "" && !c.route.anyQuery {
		return c.checkQuery()
	}
	return nil
}

// CheckToken judges whoever the Authorization header names.
func (c *Call) CheckToken() (*auth.Grant, error) {
	claim := auth.Credentials{Header: c.R.Header.Get("Authorization"), Remote: c.Remote()}
	pass, err := c.host.Guard.Check(c.Context(), claim, c.route.Need, duly.NamespaceOr(c.Namespace))
	if err == nil && pass != nil && pass.Account() {
		err = c.CheckOrigin()
	}
	return pass, err
}

// CheckOrigin refuses what another site has sent through a browser that adds
// what it knows of its user by itself.
func (c *Call) CheckOrigin() error {
	if c.host.origin.Check(c.R) != nil {
		return duly.Errorf(duly.CodeForbidden, "another site has sent this through a browser")
	}
	return nil
}

// Remote is where the request comes from.
func (c *Call) Remote() auth.Remote {
	return auth.Remote{Peer: c.R.RemoteAddr, Forwarded: c.R.Header["X-Forwarded-For"], Proxies: c.host.live().Proxies}
}

// checkQuery refuses what the route does not take. It never repeats a name or
// a value: either may be a secret at the wrong place.
func (c *Call) checkQuery() error {
	query, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return duly.Invalid("query", "can't be read")
	}
	for name, values := range query {
		known := false
		for _, q := range c.route.Query {
			known = known || q == name
		}
		if !known {
			takes := "none"
			if len(c.route.Query) > 0 {
				takes = strings.Join(c.route.Query, ", ")
			}
			return duly.Invalid("query", "has an unknown parameter; this route takes %s", takes)
		}
		if len(values) > 1 {
			return duly.Invalid(name, "is given %d times", len(values))
		}
	}
	return nil
}

// refused counts who was not let in; what else is wrong with a request may be
// found on the way.
func (c *Call) refused(err error) {
	if c.host.Meter == nil {
		return
	}
	switch code := duly.CodeOf(err); code {
	case duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeLimited:
		c.host.Meter.Refused(code)
	}
}

// Stay is for a handler that waits, or works for long: ctx ends when the caller
// has hung up, when another context ends, and when its token is revoked or changed,
// with the cause that [auth.Pass.Over] has. release must be called unless there is an
// error.
func (c *Call) Stay(others ...context.Context) (ctx context.Context, release func(), err error) {
	letGo := func() {}
	if c.pass != nil {
		if letGo, err = c.host.Guard.Track(c.Context(), c.pass); err != nil {
			letGo()
			return nil, nil, err
		}
		others = append(others, c.pass.Context())
	}

	ctx, cancel := context.WithCancelCause(c.Context())
	stops := make([]func() bool, len(others))
	for i, other := range others {
		stops[i] = context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
		letGo()
	}, nil
}

// MustHave returns an error unless the caller has a right beyond that of the route,
// for what only some requests to a route need.
func (c *Call) MustHave(need auth.Access) error {
	if c.pass == nil || !need.Allows(&c.pass.Token, duly.NamespaceOr(c.Namespace)) {
		return need.Refusal()
	}
	return nil
}

// GiveBack takes the call off what its token has spent, for an API that counts
// only the calls that succeed.
func (c *Call) GiveBack() {
	err := c.host.Guard.GiveBack(context.WithoutCancel(c.Context()), c.pass, c.route.Spends, c.spent)
	if c.spent = (time.Time{}); err != nil {
		c.Log().Warn("a call was not given back", "code", string(duly.CodeOf(err)))
	}
}

// Known tells whether the caller has shown who it is; on an open route nobody
// has.
func (c *Call) Known() bool { return c.pass != nil }

// Who names the caller for the log; "" on an open route.
func (c *Call) Who() string {
	if c.pass == nil {
		return ""
	}
	return c.pass.Name()
}
