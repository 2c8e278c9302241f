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
	"github.com/dulymq/duly/internal/clock"
)

// mostPasses bounds the passes that are remembered; beyond it those that
// nobody waits with are forgotten and looked up anew.
const mostPasses = 10_000

// Config says what a Guard stands on. Registry and Clock must be set.
type Config struct {
	Registry duly.Registry
	// Watcher tells of changes. Nil: every request looks its token up, and a
	// request that waits goes on if another server revokes its token.
	Watcher duly.Watcher
	// Limiter counts the calls of tokens with limits. Nil: there are none.
	Limiter duly.Limiter
	// Accounts may do, by basic auth, what needs the right Operator.
	Accounts []Account
	Clock    clock.Clock
}

// Guard checks tokens against a registry. It is safe for concurrent use.
type Guard struct {
	cfg      Config
	accounts atomic.Pointer[[]Account]
	attempts attempts
	recheck  chan struct{} // holds one ring: passes that are held are to be looked up

	mu      sync.RWMutex
	passes  map[[32]byte]*Pass
	held    map[*Pass]int
	hearing bool   // the watcher tells of changes
	change  uint64 // counts changes, and whatever else makes passes doubtful
	file    string // of the local token, see FirstToken
}

// NewGuard returns a Guard on a registry.
func NewGuard(cfg Config) *Guard {
	g := &Guard{
		cfg: cfg, attempts: attempts{clock: cfg.Clock}, recheck: make(chan struct{}, 1),
		passes: map[[32]byte]*Pass{}, held: map[*Pass]int{},
	}
	g.SetAccounts(cfg.Accounts)
	return g
}

// Claim is how a request says who it is.
type Claim struct {
	Header string // Authorization
	Remote Remote
}

// Check finds out who makes a request and judges whether they may do what a
// route needs in a namespace. It answers [duly.ErrUnauthorized] or
// [duly.ErrForbidden], [duly.ErrLimited] for an address that has tried too
// often with a wrong password, or what the registry says. The pass is nil for an
// Open route.
func (g *Guard) Check(ctx context.Context, c Claim, need Need, namespace string) (*Pass, error) {
	switch need {
	case Undeclared:
		return nil, duly.Errorf(duly.CodeForbidden, "this route declares no right")
	case Open:
		return nil, nil
	}
	p, err := g.identify(ctx, c, need)
	if err != nil {
		return nil, err
	}
	if !need.Allows(&p.Token, namespace) {
		return p, need.Refusal()
	}
	return p, nil
}

func (g *Guard) identify(ctx context.Context, c Claim, need Need) (*Pass, error) {
	if c.Header == "" {
		return nil, duly.Errorf(duly.CodeUnauthorized, "no token; send it as Authorization: Bearer TOKEN")
	}
	scheme, rest, _ := strings.Cut(c.Header, " ")
	if need == Operator && g.HasAccounts() && strings.EqualFold(scheme, "Basic") {
		return g.account(rest, c.Remote)
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, duly.Errorf(duly.CodeUnauthorized, "the Authorization header is not of the form Bearer TOKEN")
	}
	hash, ok := Hash(rest)
	if !ok {
		return nil, duly.Errorf(duly.CodeUnauthorized, "the token is not one of duly's: it begins with %s and has %d characters", Prefix, secretText)
	}
	return g.Admit(ctx, hash)
}

// Admit returns the pass of the first known hash of a secret in the request. It
// returns [duly.ErrUnauthorized] if no hash is known, else errors as
// [Guard.Check].
func (g *Guard) Admit(ctx context.Context, hashes ...[32]byte) (*Pass, error) {
	if p := g.Remembered(hashes...); p != nil {
		return p, nil
	}

	for _, hash := range hashes {
		t, change, err := g.lookUp(ctx, hash)
		if errors.Is(err, duly.ErrNotFound) {
			if g.knows(hash) { // to forget it voids what is known of all the others
				g.forget(hash, revoked())
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		return g.remember(t, change), nil
	}
	return nil, revoked()
}

// AdmitChosen is [Guard.Admit] for a secret that a person has chosen, which can
// be guessed. A wrong secret counts as a failed attempt of its address for that
// account. Beyond the bound AdmitChosen returns [duly.ErrLimited].
func (g *Guard) AdmitChosen(ctx context.Context, from Remote, account string, hash [32]byte) (*Pass, error) {
	p, err := g.Admit(ctx, hash)
	if errors.Is(err, duly.ErrUnauthorized) {
		return nil, g.refuse(guessOf(from, account), err)
	}
	return p, err
}

// refuse counts a failed guess. It returns err, or [duly.ErrLimited] beyond the
// bound. Callers check the secret first, so a good one is never refused because
// of bad ones from the same address.
func (g *Guard) refuse(of guess, err error) error {
	if wait := g.attempts.fail(of); wait > 0 {
		return slowDown(wait)
	}
	return err
}

// Remembered returns the pass of the first hash that was admitted before and is
// still good, without a look-up. It returns nil if there is none.
func (g *Guard) Remembered(hashes ...[32]byte) *Pass {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, hash := range hashes {
		if p := g.passes[hash]; p != nil && g.goodLocked(p) {
			return p
		}
	}
	return nil
}

// goodLocked tells whether a pass may be used without a look-up.
func (g *Guard) goodLocked(p *Pass) bool { return g.hearing && p.checked == g.change }

// lookUp asks the registry, and tells the last change that its answer is sure
// to have in it.
func (g *Guard) lookUp(ctx context.Context, hash [32]byte) (t duly.Token, change uint64, err error) {
	g.mu.RLock()
	change = g.change
	g.mu.RUnlock()
	t, err = g.cfg.Registry.FindToken(ctx, hash)
	if err == nil && subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
		err = duly.ErrNotFound
	}
	return t, change, err
}

// remember gives a token that was found its pass.
func (g *Guard) remember(t duly.Token, change uint64) *Pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.passes[t.Hash]
	if p == nil || !p.same(&t) {
		if p != nil {
			p.end(errChanged)
		}
		g.makeRoomLocked()
		p = newPass(t)
		g.passes[t.Hash] = p
	}
	p.checked = max(p.checked, change)
	return p
}

func (g *Guard) makeRoomLocked() {
	if len(g.passes) < mostPasses {
		return
	}
	for hash, p := range g.passes {
		if g.held[p] == 0 {
			delete(g.passes, hash)
		}
	}
}

// knows tells whether a token has a pass.
func (g *Guard) knows(hash [32]byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.passes[hash] != nil {
		return true
	}
	for p := range g.held {
		if p.Token.Hash == hash {
			return true
		}
	}
	return false
}

// forget ends the passes of a token, with what to answer to those who wait.
func (g *Guard) forget(hash [32]byte, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change++
	if p := g.passes[hash]; p != nil {
		p.end(cause)
		delete(g.passes, hash)
	}
	for p := range g.held {
		if p.Token.Hash == hash {
			p.end(cause)
		}
	}
}

// Spend counts a call under the limit that a token has for a right, and tells
// its window for [Guard.GiveBack]. A token without one costs nothing. It
// answers [duly.ErrLimited] if the limit is used up.
func (g *Guard) Spend(ctx context.Context, p *Pass, right duly.Right) (window time.Time, err error) {
	if p == nil || p.Token.Limits.Of(right) == 0 {
		return window, nil
	}
	if g.cfg.Limiter == nil {
		return window, errNoLimiter()
	}
	window, err = g.cfg.Limiter.Spend(ctx, p.Token.Hash, right)
	if errors.Is(err, duly.ErrNotFound) {
		g.forget(p.Token.Hash, revoked())
		return window, revoked()
	}
	return window, err
}

// GiveBack takes a call off what was counted, for one that is not to count
// after all.
func (g *Guard) GiveBack(ctx context.Context, p *Pass, right duly.Right, window time.Time) error {
	if p == nil || window.IsZero() {
		return nil
	}
	return g.cfg.Limiter.GiveBack(ctx, p.Token.Hash, right, window)
}

func errNoLimiter() error {
	return duly.Errorf(duly.CodeUnsupported, "the engine of this server bounds no tokens")
}
