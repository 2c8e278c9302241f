package auth

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Grant is an admitted token or account. All requests with one token share a Grant.
type Grant struct {
	// Token is the token in the registry. It never changes, because a token whose rights or limits
	// change gets a new Grant. An account has the right admin for all namespaces.
	Token   contract.Token
	account string // name of the account; empty for a token
	// credential changes with the password of an account. It is not set for a token.
	credential [32]byte
	key        string

	ctx     context.Context // context that ends when the token is revoked or changed
	cancel  context.CancelCauseFunc
	version uint64 // Guard.version up to which the token is known to be valid; guarded by Guard.mu
}

// errChanged ends the requests of a token whose rights or limits have changed. The caller may
// repeat these requests.
var errChanged = errors.New("auth: the rights or limits of the token have changed")

// Changed reports whether a grant has ended because the rights or limits of its token
// have changed. The request may be repeated.
func Changed(cause error) bool { return errors.Is(cause, errChanged) }

func revoked() *duly.Error {
	return contract.Errorf(duly.CodeUnauthorized, "the token is unknown; it may have been revoked")
}

func newGrant(t contract.Token) *Grant {
	g := &Grant{Token: t}
	g.key = Name(t.Hash) + string(t.Hash[:])
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// Key returns a string that is different for each token and each account.
func (g *Grant) Key() string { return g.key }

// Context returns a context that ends with the grant. Its cause is the error to answer the caller
// with, unless [Changed] reports true for the cause. The context ends in time only for a grant that
// is tracked ([Guard.Track]).
func (g *Grant) Context() context.Context { return g.ctx }

// Account reports whether the grant is an account's. A browser may send an account's
// password without its user's knowledge.
func (g *Grant) Account() bool { return g.account != "" }

// Credential returns a value that changes with the secret: the hash of the token, or one of the account's name and
// password.
func (g *Grant) Credential() [32]byte {
	if g.Account() {
		return g.credential
	}
	return g.Token.Hash
}

// Name returns the name of the grant in logs: the beginning of the token's ID, which
// says nothing about its secret, or the account.
func (g *Grant) Name() string {
	if g.Account() {
		return "account " + g.account
	}
	return Name(g.Token.Hash)
}

// Name returns the name of a token in logs.
func Name(hash [32]byte) string { return hex.EncodeToString(hash[:4]) }

// matches reports whether a token has the same rights and limits.
func (g *Grant) matches(t *contract.Token) bool {
	return g.Token.Namespace == t.Namespace && g.Token.Rights == t.Rights && g.Token.Limits == t.Limits
}
