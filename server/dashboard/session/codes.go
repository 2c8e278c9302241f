package session

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

const (
	// CodeLifetime is how long a login code is valid.
	CodeLifetime = time.Minute
	// maxCodes bounds the codes in memory. Beyond it the oldest one is dropped.
	maxCodes = 100
)

// Codes are login codes: each opens one session of the caller that asked for it.
type Codes struct {
	Clock duly.Clock

	mu    sync.Mutex
	codes []code // oldest first
}

type code struct {
	hash  [32]byte // so that a comparison says nothing about the code
	login Login
	until time.Duration // monotonic
}

// Create returns a code for a session.
func (c *Codes) Create(login Login) string {
	text := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.codes) >= maxCodes {
		c.codes = c.codes[1:]
	}
	c.codes = append(c.codes, code{
		hash: sha256.Sum256([]byte(text)), login: login, until: c.Clock.Mono() + CodeLifetime,
	})
	return text
}

// Redeem returns the login of a code, once. ok is false for an unknown, used or old code.
func (c *Codes) Redeem(text string) (login Login, ok bool) {
	hash, now := sha256.Sum256([]byte(text)), c.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.codes, func(known code) bool { return known.hash == hash })
	if i < 0 {
		return login, false
	}
	known := c.codes[i]
	c.codes = slices.Delete(c.codes, i, i+1)
	return known.login, now < known.until
}
