package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// maxGrants bounds the cached grants. Beyond it the guard drops all that no request
// waits with.
const maxGrants = 10_000

// Config configures a Guard. Registry and Clock must be set.
type Config struct {
	Registry contract.Registry
	// Watcher reports changes of tokens. If it is nil, every request looks its token up, and a
	// waiting request continues after another server has revoked its token.
	Watcher contract.Watcher
	// Limiter counts the calls of tokens with limits. Nil: tokens have no limits.
	Limiter contract.Limiter
	// Accounts have the access Operator, with basic auth.
	Accounts []Account
	Clock    duly.Clock
}

// Guard checks credentials against a registry. It is safe for concurrent use.
type Guard struct {
	cfg      Config
	accounts atomic.Pointer[[]Account]
	attempts attempts
	recheck  chan struct{} // asks Watch to verify the tracked grants; has capacity 1

	mu       sync.RWMutex
	grants   map[[32]byte]*Grant
	tracked  map[*Grant]int // grants of waiting requests, with the number of these requests
	watching bool           // whether the watcher reports changes
	version  uint64         // increased by every change, and when a change may have been missed
	file     string         // path of the file with the local token; see FirstToken
}

// NewGuard returns a Guard on a registry.
func NewGuard(cfg Config) *Guard {
	g := &Guard{
		cfg: cfg, attempts: attempts{clock: cfg.Clock}, recheck: make(chan struct{}, 1),
		grants: map[[32]byte]*Grant{}, tracked: map[*Grant]int{},
	}
	g.SetAccounts(cfg.Accounts)
	return g
}

// Credentials are the parts of a request that prove its rights.
type Credentials struct {
	Header string // the Authorization header
	Remote Remote
}

// Check identifies the caller of a request and checks the access that the route
// requires in a namespace. It returns [duly.ErrUnauthorized] or [duly.ErrForbidden],
// [duly.ErrLimited] after too many wrong passwords from one address, or an error of the
// registry. The grant is nil for an Open route.
func (g *Guard) Check(ctx context.Context, c Credentials, required Access, namespace string) (*Grant, error) {
	switch required {
	case Undeclared:
		return nil, contract.Errorf(duly.CodeForbidden, "this route declares no right, so nobody may use it; that is a bug of duly")
	case Open:
		return nil, nil
	}

	grant, err := g.identify(ctx, c, required)
	if err != nil {
		return nil, err
	}
	if !required.Allows(&grant.Token, namespace) {
		return grant, required.Refusal()
	}
	return grant, nil
}

func (g *Guard) identify(ctx context.Context, c Credentials, required Access) (*Grant, error) {
	if c.Header == "" {
		return nil, contract.Errorf(duly.CodeUnauthorized, "no token; send it as Authorization: Bearer TOKEN")
	}

	scheme, rest, _ := strings.Cut(c.Header, " ")
	if required == Operator && g.HasAccounts() && strings.EqualFold(scheme, "Basic") {
		return g.account(rest, c.Remote)
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, contract.Errorf(duly.CodeUnauthorized, "the Authorization header must be of the form Bearer TOKEN")
	}

	hash, ok := Hash(rest)
	if !ok {
		return nil, contract.Errorf(duly.CodeUnauthorized,
			"the token has the wrong form; a token of duly begins with %s and has %d characters", Prefix, secretLen)
	}
	return g.Admit(ctx, hash)
}

// Admit returns the grant of the first hash that the registry has. It returns
// [duly.ErrUnauthorized] if the registry has none of the hashes, and otherwise the errors of
// [Guard.Check].
func (g *Guard) Admit(ctx context.Context, hashes ...[32]byte) (*Grant, error) {
	if grant := g.Cached(hashes...); grant != nil {
		return grant, nil
	}

	for _, hash := range hashes {
		t, version, err := g.lookUp(ctx, hash)
		if errors.Is(err, duly.ErrNotFound) {
			// invalidate makes the guard look every token up again. A caller must not be able to
			// cause this with random tokens.
			if g.cached(hash) {
				g.invalidate(hash, revoked())
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		return g.cache(t, version), nil
	}
	return nil, revoked()
}

// AdmitChosen is like [Guard.Admit] for a secret that a person has chosen, which can be
// guessed. A wrong secret counts as a failed attempt of its address for that account.
// Beyond the maximum AdmitChosen returns [duly.ErrLimited].
func (g *Guard) AdmitChosen(ctx context.Context, from Remote, account string, hash [32]byte) (*Grant, error) {
	grant, err := g.Admit(ctx, hash)
	if errors.Is(err, duly.ErrUnauthorized) {
		return nil, g.refuse(guessOf(from, account), err)
	}
	return grant, err
}

// refuse counts a failed guess. It returns err, or [duly.ErrLimited] if there were too many.
// Callers check the secret first, so a valid secret is never refused because of wrong ones from the
// same address.
func (g *Guard) refuse(of guess, err error) error {
	if wait := g.attempts.fail(of); wait > 0 {
		return slowDown(wait)
	}
	return err
}

// Cached returns the grant of the first hash that has a valid cached grant. It returns nil if no
// hash has one. It never asks the registry.
func (g *Guard) Cached(hashes ...[32]byte) *Grant {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, hash := range hashes {
		if grant := g.grants[hash]; grant != nil && g.validLocked(grant) {
			return grant
		}
	}
	return nil
}

// validLocked reports whether a grant may be used without a look-up.
func (g *Guard) validLocked(grant *Grant) bool { return g.watching && grant.version == g.version }

// lookUp reads a token from the registry. version is the latest version that the result
// certainly reflects.
func (g *Guard) lookUp(ctx context.Context, hash [32]byte) (t contract.Token, version uint64, err error) {
	g.mu.RLock()
	// A change during the look-up must count as one after it.
	version = g.version
	g.mu.RUnlock()

	t, err = g.cfg.Registry.FindToken(ctx, hash)
	if err == nil && subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
		err = duly.ErrNotFound
	}
	return t, version, err
}

// cache returns the grant of a token, and creates it if necessary.
func (g *Guard) cache(t contract.Token, version uint64) *Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant := g.grants[t.Hash]
	if grant == nil || !grant.matches(&t) {
		if grant != nil {
			grant.cancel(errChanged)
		}
		g.evictLocked()
		grant = newGrant(t)
		g.grants[t.Hash] = grant
	}
	grant.version = max(grant.version, version)
	return grant
}

func (g *Guard) evictLocked() {
	if len(g.grants) < maxGrants {
		return
	}
	for hash, grant := range g.grants {
		if g.tracked[grant] == 0 {
			delete(g.grants, hash)
		}
	}
}

// cached reports whether a token has a grant.
func (g *Guard) cached(hash [32]byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.grants[hash] != nil {
		return true
	}
	for grant := range g.tracked {
		if grant.Token.Hash == hash {
			return true
		}
	}
	return false
}

// invalidate ends the grants of a token. cause is the answer to requests that wait.
func (g *Guard) invalidate(hash [32]byte, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	if grant := g.grants[hash]; grant != nil {
		grant.cancel(cause)
		delete(g.grants, hash)
	}

	// A tracked grant may have been evicted from the cache.
	for grant := range g.tracked {
		if grant.Token.Hash == hash {
			grant.cancel(cause)
		}
	}
}

// Spend counts a call against the token's limit for a right. It returns the window of the limit for
// [Guard.GiveBack]. For a token without a limit it counts nothing. Spend returns [duly.ErrLimited]
// if the limit is used up.
func (g *Guard) Spend(ctx context.Context, grant *Grant, right contract.Right) (window time.Time, err error) {
	if grant == nil || grant.Token.Limits.Of(right) == 0 {
		return window, nil
	}
	if g.cfg.Limiter == nil {
		return window, errNoLimiter()
	}

	window, err = g.cfg.Limiter.Spend(ctx, grant.Token.Hash, right)
	if errors.Is(err, duly.ErrNotFound) {
		g.invalidate(grant.Token.Hash, revoked())
		return window, revoked()
	}
	return window, err
}

// GiveBack undoes a Spend, for a call that turns out not to count.
func (g *Guard) GiveBack(ctx context.Context, grant *Grant, right contract.Right, window time.Time) error {
	if grant == nil || window.IsZero() {
		return nil
	}
	return g.cfg.Limiter.GiveBack(ctx, grant.Token.Hash, right, window)
}

func errNoLimiter() error {
	return contract.Errorf(duly.CodeUnsupported, "the engine of this server does not support limits of tokens")
}
