package auth

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/dulymq/duly"
)

// Pass is a caller who was let in. All requests with one token share one.
type Pass struct {
	// Token is what the registry knows of the token. It never changes: a token
	// that does gets another pass. An account's has the right admin for all
	// namespaces.
	Token   duly.Token
	account string // the name, where it is no token but an account
	key     string

	over    context.Context // ends with the pass
	end     context.CancelCauseFunc
	checked uint64 // by Guard.mu: the change up to which it is known to be good
}

// errChanged ends what waits with a token that is still good for something,
// but not for the same as before: it may begin anew.
var errChanged = errors.New("auth: the token has changed")

// Changed tells whether a pass has ended because its token has other rights or
// limits now, in which case its owner may come again.
func Changed(cause error) bool { return errors.Is(cause, errChanged) }

func revoked() *duly.Error {
	return duly.Errorf(duly.CodeUnauthorized, "the token is not known here; it may have been revoked")
}

func newPass(t duly.Token) *Pass {
	p := &Pass{Token: t}
	p.key = Name(t.Hash) + string(t.Hash[:])
	p.over, p.end = context.WithCancelCause(context.Background())
	return p
}

// Key returns a text that is different for each token and for each account.
func (p *Pass) Key() string { return p.key }

// Over is a context that ends with the pass. Its cause is what to answer then,
// unless it is [Changed]. It ends in time only for a pass that is held.
func (p *Pass) Over() context.Context { return p.over }

// Account tells whether it is an account, which a browser may have sent by
// itself.
func (p *Pass) Account() bool { return p.account != "" }

// Name is how logs name a pass: by the beginning of the token's ID, which
// tells nothing about its secret, or by the account.
func (p *Pass) Name() string {
	if p.Account() {
		return "account " + p.account
	}
	return Name(p.Token.Hash)
}

// Name is how logs name a token.
func Name(hash [32]byte) string { return hex.EncodeToString(hash[:4]) }

// same tells whether a token is as it was.
func (p *Pass) same(t *duly.Token) bool {
	return p.Token.Namespace == t.Namespace && p.Token.Rights == t.Rights && p.Token.Limits == t.Limits
}
