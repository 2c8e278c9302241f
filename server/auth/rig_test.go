package auth

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
)

// counting is a registry that counts its look-ups and can hold one back.
type counting struct {
	*model.Engine
	mu     sync.Mutex
	finds  int
	before func()
	fail   error
}

func (c *counting) FindToken(ctx context.Context, hash [32]byte) (duly.Token, error) {
	c.mu.Lock()
	c.finds++
	before, fail := c.before, c.fail
	c.before = nil
	c.mu.Unlock()
	t, err := c.Engine.FindToken(ctx, hash)
	if before != nil {
		before()
	}
	if fail != nil {
		return duly.Token{}, fail
	}
	return t, err
}

func (c *counting) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finds
}

func (c *counting) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// rig is a guard on a registry in memory, with a clock that only the test moves.
type rig struct {
	*Guard
	t     *testing.T
	store *counting
	clock *clock.Fake
}

func newRig(t *testing.T, accounts ...Account) *rig {
	c := clock.NewFake()
	return (&rig{t: t, clock: c, store: &counting{Engine: model.New(model.Config{Clock: c})}}).another(accounts...)
}

// another is the guard of another server on the same registry.
func (r *rig) another(accounts ...Account) *rig {
	r.t.Helper()
	g := NewGuard(Config{Registry: r.store, Watcher: r.store, Limiter: r.store, Accounts: accounts, Clock: r.clock})
	return &rig{Guard: g, t: r.t, store: r.store, clock: r.clock}
}

// listen runs the guard's watch until the test ends, and waits until it hears.
func (r *rig) listen() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Watch(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
	r.until("the guard hears", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return r.hearing })
}

// until waits for something that another goroutine does, by no clock.
func (r *rig) until(what string, happened func() bool) {
	r.t.Helper()
	eventually.True(r.t, what, happened)
}

// make makes a token and tells its secret.
func (r *rig) make(namespace string, rights duly.Right) string {
	r.t.Helper()
	secret, _, err := r.Create(r.t.Context(), duly.Token{Namespace: namespace, Rights: rights})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

func (r *rig) check(secret string, from ...string) error {
	_, err := r.Check(context.Background(), Claim{"Bearer " + secret, Remote{Peer: strings.Join(from, "")}}, Produce, "a")
	return err
}

func (r *rig) wants(what string, err error, code duly.Code) {
	r.t.Helper()
	if duly.CodeOf(err) != code {
		r.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func hashOf(secret string) [32]byte {
	hash, _ := Hash(secret)
	return hash
}
