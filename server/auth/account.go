package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/dulymq/duly"
)

// Account is a name and a password for the admin address, as people and
// browsers give them. The zero Account is none; [NewAccount] makes one.
type Account struct {
	Name string
	hash [32]byte // of name and password
}

// NewAccount makes an account. It answers [duly.ErrInvalid] for a name or a
// password that can't be sent.
func NewAccount(name, password string) (Account, error) {
	var bad duly.BadFields
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == ':' || r <= ' ' || r >= 0x7f }) {
		bad.Add("name", "is empty, or has other characters than ASCII without blanks and colons")
	}
	if len(password) < minPassword {
		bad.Add("password", "has %d bytes, must have at least %d", len(password), minPassword)
	}
	return Account{name, hashAccount(name + ":" + password)}, bad.Err()
}

// minPassword is the least length; a longer password is better.
const minPassword = 8

// hashAccount takes "name:password"; no name has a colon.
func hashAccount(credentials string) [32]byte { return sha256.Sum256([]byte(credentials)) }

// SetAccounts replaces the accounts. What was let in by one of the old ones is
// seen to its end.
func (g *Guard) SetAccounts(accounts []Account) { g.accounts.Store(&accounts) }

// HasAccounts tells whether there are any.
func (g *Guard) HasAccounts() bool { return len(*g.accounts.Load()) > 0 }

// Challenges says by which credentials a caller is let in, as WWW-Authenticate
// has it.
func (g *Guard) Challenges(need Need) []string {
	if need == Operator && g.HasAccounts() {
		return []string{"Bearer", `Basic realm="duly", charset="UTF-8"`}
	}
	return []string{"Bearer"}
}

// account checks what basic auth sends. Every account is compared, each in
// constant time.
func (g *Guard) account(credentials string, from Remote) (*Pass, error) {
	text, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return nil, duly.Errorf(duly.CodeUnauthorized, "the Authorization header is not of the form Basic CREDENTIALS")
	}
	hash, name := sha256.Sum256(text), ""
	accounts := *g.accounts.Load()
	for i := range accounts {
		if a := &accounts[i]; subtle.ConstantTimeCompare(hash[:], a.hash[:]) == 1 {
			name = a.Name
		}
	}
	if name == "" {
		claimed, _, _ := strings.Cut(string(text), ":")
		return nil, g.refuse(guessOf(from, "account "+claimed), duly.Errorf(duly.CodeUnauthorized, "no account has this name and password"))
	}
	return &Pass{
		Token:   duly.Token{Namespace: duly.AllNamespaces, Rights: duly.RightAdmin, Description: name},
		account: name, key: "account " + name, over: context.Background(),
	}, nil
}
