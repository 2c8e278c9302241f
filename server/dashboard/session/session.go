// Package session keeps the dashboard's sessions in sealed cookies, and its login codes in memory.
//
// A session names a token by its hash, or an account. It holds no rights: every request asks the guard for them, so a
// revoked token and a changed password end their sessions. The cookie is sealed with AES-256-GCM, so its holder can
// neither read nor change it.
package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The ends of a session.
const (
	Lifetime  = 12 * time.Hour
	IdleLimit = 30 * time.Minute
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Login identifies the credential that opened a session.
type Login struct {
	// Credential is the hash of the token, or changes with the password of the account.
	Credential [32]byte
	// Account is the name of the account, "" for a token.
	Account string
}

// Session is what a cookie holds.
type Session struct {
	ID    string
	Login Login
	// Issued is the time of the login, Used that of the last request that renewed the cookie.
	Issued, Used time.Time
}

// New returns the session of a login.
func New(login Login, now time.Time) Session {
	return Session{ID: rand.Text(), Login: login, Issued: now, Used: now}
}

// Mark returns a text for the audit log that is the same for all requests of a session, and says nothing about its ID.
func (s *Session) Mark() string {
	sum := sha256.Sum256([]byte(s.ID))
	return hex.EncodeToString(sum[:4])
}

// Stale reports whether the cookie should be renewed. Renewal at every request would be useless work.
func (s *Session) Stale(now time.Time) bool { return now.Sub(s.Used) > time.Minute }

// Left returns how long the session lasts if nobody uses it.
func (s *Session) Left(now time.Time) time.Duration {
	return min(s.Issued.Add(Lifetime).Sub(now), s.Used.Add(IdleLimit).Sub(now))
}

// ended reports whether the session is over. A session from the future comes from another clock.
func (s *Session) ended(now time.Time) bool {
	return s.Left(now) <= 0 || s.Used.Sub(now) >= IdleLimit
}

// Sealer seals sessions for cookies.
type Sealer struct {
	aead cipher.AEAD
	// purpose binds the cookies to their kind.
	purpose []byte
}

// NewSealer returns a Sealer for one kind of cookie. key has [KeySize] bytes.
func NewSealer(key []byte, kind string) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead: aead, purpose: []byte(kind)}, err
}

// Seal returns the value of a cookie.
func (s *Sealer) Seal(of Session) string {
	// A struct of texts, bytes and times always has a JSON form.
	text, _ := json.Marshal(of)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, s.purpose))
}

// Open returns the session of a cookie. Every failure is the same error.
func (s *Sealer) Open(cookie string, now time.Time) (of Session, err error) {
	over := contract.Errorf(duly.CodeUnauthorized, "the session is over; log in again")
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return of, over
	}
	text, err := s.aead.Open(nil, nil, sealed, s.purpose)
	if err != nil || json.Unmarshal(text, &of) != nil || of.ended(now) {
		return Session{}, over
	}
	return of, nil
}
