package auth

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
)

// countingRegistry counts its look-ups. Its look-ups can fail, or call a function.
type countingRegistry struct {
	*model.Engine
	mu         sync.Mutex
	finds      int
	duringFind func()
	fail       error
}

func (c *countingRegistry) FindToken(ctx context.Context, hash [32]byte) (contract.Token, error) {
	c.mu.Lock()
	c.finds++
	during, fail := c.duringFind, c.fail
	c.duringFind = nil
	c.mu.Unlock()

	t, err := c.Engine.FindToken(ctx, hash)
	if during != nil {
		during()
	}
	if fail != nil {
		return contract.Token{}, fail
	}
	return t, err
}

func (c *countingRegistry) lookups() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finds
}

func (c *countingRegistry) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// rig is a guard on a registry in memory, with a fake clock.
type rig struct {
	*Guard
	t     *testing.T
	store *countingRegistry
	clock *clock.Fake
}

func newRig(t *testing.T, accounts ...Account) *rig {
	c := clock.NewFake()
	return (&rig{t: t, clock: c, store: &countingRegistry{Engine: model.New(model.Config{Clock: c})}}).another(accounts...)
}

// another returns the guard of another server on the same registry.
func (r *rig) another(accounts ...Account) *rig {
	r.t.Helper()
	g := NewGuard(Config{Registry: r.store, Watcher: r.store, Limiter: r.store, Accounts: accounts, Clock: r.clock})
	return &rig{Guard: g, t: r.t, store: r.store, clock: r.clock}
}

// watch runs the guard's watch until the test ends, and waits until the watch has begun.
func (r *rig) watch() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Watch(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
	r.eventually("the guard watches", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return r.watching })
}

// eventually waits until a condition holds, whatever the fake clock shows.
func (r *rig) eventually(what string, happened func() bool) {
	r.t.Helper()
	eventually.True(r.t, what, happened)
}

// create creates a token and returns its secret.
func (r *rig) create(namespace string, rights contract.Right) string {
	r.t.Helper()
	secret, _, err := r.Create(r.t.Context(), contract.Token{Namespace: namespace, Rights: rights})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

func (r *rig) check(secret string, from ...string) error {
	c := Credentials{"Bearer " + secret, Remote{Peer: strings.Join(from, "")}}
	_, err := r.Check(context.Background(), c, Produce, "a")
	return err
}

func (r *rig) wantCode(what string, err error, code duly.Code) {
	r.t.Helper()
	if duly.CodeOf(err) != code {
		r.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func hashOf(secret string) [32]byte {
	hash, _ := Hash(secret)
	return hash
}
