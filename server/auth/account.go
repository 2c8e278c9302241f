package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Account is a name and a password for the admin address, for people and browsers.
// [NewAccount] creates one.
type Account struct {
	Name string
	hash [32]byte // hash of name and password
}

// NewAccount creates an account. It returns [duly.ErrInvalid] for a name that basic authentication
// cannot carry, and for a password that is too short.
func NewAccount(name, password string) (Account, error) {
	var bad contract.BadFields
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == ':' || r <= ' ' || r >= 0x7f }) {
		bad.Add("name", "must have at least one character, all of them visible ASCII except colons")
	}
	if len(password) < minPassword {
		bad.Add("password", "has %d bytes, must have at least %d", len(password), minPassword)
	}
	return Account{name, hashAccount(name + ":" + password)}, bad.Err()
}

// minPassword is the minimum length of a password.
const minPassword = 8

// hashAccount returns the hash of "name:password". A name has no colon.
func hashAccount(credentials string) [32]byte { return sha256.Sum256([]byte(credentials)) }

// SetAccounts replaces the accounts. Requests that a previous account has begun
// continue.
func (g *Guard) SetAccounts(accounts []Account) { g.accounts.Store(&accounts) }

// HasAccounts reports whether there are accounts.
func (g *Guard) HasAccounts() bool { return len(*g.accounts.Load()) > 0 }

// Challenges returns the values of WWW-Authenticate for a route: the schemes that it
// accepts.
func (g *Guard) Challenges(required Access) []string {
	if required == Operator && g.HasAccounts() {
		return []string{"Bearer", `Basic realm="duly", charset="UTF-8"`}
	}
	return []string{"Bearer"}
}

// account checks the credentials of basic auth.
func (g *Guard) account(credentials string, from Remote) (*Grant, error) {
	text, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return nil, contract.Errorf(duly.CodeUnauthorized, "the Authorization header must be of the form Basic CREDENTIALS")
	}

	// The loop compares every account, each in constant time, so its duration says nothing about
	// the accounts.
	hash := sha256.Sum256(text)
	var found *Account
	accounts := *g.accounts.Load()
	for i := range accounts {
		if a := &accounts[i]; subtle.ConstantTimeCompare(hash[:], a.hash[:]) == 1 {
			found = a
		}
	}
	if found == nil {
		// The name is part of the key, so wrong passwords of one account do not block other
		// accounts.
		claimed, _, _ := strings.Cut(string(text), ":")
		return nil, g.refuse(guessOf(from, "account "+claimed),
			contract.Errorf(duly.CodeUnauthorized, "no account has this name and password; check both"))
	}

	return found.grant(), nil
}

// grant returns the grant of an account.
func (a *Account) grant() *Grant {
	return &Grant{
		Token:   contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin, Description: a.Name},
		account: a.Name, credential: a.credential(), key: "account " + a.Name, ctx: context.Background(),
	}
}

// credential returns a hash of the password's hash. A session holds it, and does not need the password's hash.
func (a *Account) credential() [32]byte {
	return sha256.Sum256(append([]byte("account "), a.hash[:]...))
}

// AdmitAccount returns the grant of an account that has proved its password before. credential is that of
// [Grant.Credential] at that time. It returns [duly.ErrUnauthorized] if the account is gone or has another password.
func (g *Guard) AdmitAccount(name string, credential [32]byte) (*Grant, error) {
	accounts := *g.accounts.Load()
	for i := range accounts {
		known := accounts[i].credential()
		if accounts[i].Name == name && subtle.ConstantTimeCompare(known[:], credential[:]) == 1 {
			return accounts[i].grant(), nil
		}
	}
	return nil, contract.Errorf(duly.CodeUnauthorized, "the account is gone or has another password; log in again")
}
