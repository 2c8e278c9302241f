package route

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
)

// admit checks a request to the native API before its body is read.
func (c *Call) admit() (err error) {
	if c.grant, err = c.CheckToken(); err != nil {
		return err
	}
	if c.R.URL.RawQuery != "" && !c.route.anyQuery {
		return c.checkQuery()
	}
	return nil
}

// CheckToken returns the grant of the Authorization header.
func (c *Call) CheckToken() (*auth.Grant, error) {
	credentials := auth.Credentials{Header: c.R.Header.Get("Authorization"), Remote: c.Remote()}
	grant, err := c.router.Guard.Check(c.Context(), credentials, c.route.Access, contract.NamespaceOr(c.Namespace))
	if err == nil && grant != nil && grant.Account() {
		// A browser adds the credentials of an account by itself. It does not add a token.
		err = c.CheckOrigin()
	}
	return grant, err
}

// CheckOrigin refuses requests that other sites send through a browser, because the browser adds
// its user's credentials to them.
func (c *Call) CheckOrigin() error {
	if c.router.origin.Check(c.R) != nil {
		return contract.Errorf(duly.CodeForbidden, "another site has sent this through a browser")
	}
	return nil
}

// Remote returns the origin of the request.
func (c *Call) Remote() auth.Remote {
	return auth.Remote{
		Peer: c.R.RemoteAddr, Forwarded: c.R.Header["X-Forwarded-For"], Proxies: c.router.settings().Proxies,
	}
}

// checkQuery refuses parameters that the route does not have. The error never repeats a name
// or a value, because either may be a secret in the wrong place.
func (c *Call) checkQuery() error {
	query, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return contract.Invalid("query", "can't be parsed; write it as name=value&name=value")
	}

	for name, values := range query {
		if !slices.Contains(c.route.Query, name) {
			takes := "none"
			if len(c.route.Query) > 0 {
				takes = strings.Join(c.route.Query, ", ")
			}
			return contract.Invalid("query", "has an unknown parameter; this route takes %s", takes)
		}
		// With two values it would be unclear which of them counts.
		if len(values) > 1 {
			return contract.Invalid(name, "is given %d times", len(values))
		}
	}
	return nil
}

// countRefusal counts a caller that was not admitted. Admission may also end with other
// errors.
func (c *Call) countRefusal(err error) {
	if c.router.Meter == nil {
		return
	}
	switch code := duly.CodeOf(err); code {
	case duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeLimited:
		c.router.Meter.Refused(code)
	}
}

// LongContext returns the context of a handler that waits or works for long. It ends when
// the caller hangs up, when another context ends, and when the caller's token is revoked or
// changed, with the cause of [auth.Grant.Context]. release must be called unless there is an
// error.
func (c *Call) LongContext(others ...context.Context) (ctx context.Context, release func(), err error) {
	untrack := func() {}
	if c.grant != nil {
		// The token may have been revoked since the check. From now on, a revocation ends the
		// context.
		if untrack, err = c.router.Guard.Track(c.Context(), c.grant); err != nil {
			untrack()
			return nil, nil, err
		}
		others = append(others, c.grant.Context())
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
		untrack()
	}, nil
}

// Require returns an error unless the caller has a right. It is for routes that need more
// than [Route.Access] for some requests.
func (c *Call) Require(access auth.Access) error {
	if c.grant == nil || !access.Allows(&c.grant.Token, contract.NamespaceOr(c.Namespace)) {
		return access.Refusal()
	}
	return nil
}

// Refund takes the call back from the count of its token's limit, for an API that counts
// only successful calls.
func (c *Call) Refund() {
	// The call must not count even if the caller has hung up.
	err := c.router.Guard.GiveBack(context.WithoutCancel(c.Context()), c.grant, c.route.LimitedBy, c.counted)
	if c.counted = (time.Time{}); err != nil {
		c.Log().Warn("the failed call still counts under its token's limit", "code", string(duly.CodeOf(err)))
	}
}

// Grant returns the grant of the caller. No caller of an open route has one.
func (c *Call) Grant() *auth.Grant { return c.grant }

// Authenticated reports whether the caller has a grant. No caller of an open route has.
func (c *Call) Authenticated() bool { return c.grant != nil }

// Caller returns the name of the caller for the log, "" on an open route.
func (c *Call) Caller() string {
	if c.grant == nil {
		return ""
	}
	return c.grant.Name()
}
