package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// A cached token needs no look-up while the engine reports changes. A revoked token is refused,
// also if a look-up overlapped the revocation.
func TestRevokedTokenLeavesTheCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	secret := r.create("a", contract.RightProduce)
	// The notice of the token's creation may come later and cause another look-up.
	r.eventually("the token is cached", func() bool {
		before := r.store.lookups()
		return r.check(secret) == nil && r.check(secret) == nil && r.store.lookups() == before
	})
	for range 100 {
		r.wantCode("a cached token", r.check(secret), "")
	}

	r.notify(true) // makes the next check look the token up
	r.store.mu.Lock()
	r.store.duringFind = func() { // at this time the look-up has found the token, but it is not cached yet
		if err := r.Revoke(context.Background(), hashOf(secret)); err != nil {
			t.Error(err)
		}
	}
	r.store.mu.Unlock()
	r.check(secret)
	r.wantCode("after it was revoked", r.check(secret), duly.CodeUnauthorized)
}

// Fault X4: the other server refuses a token that one server has revoked. It gets a notice and does not
// poll, because the clock does not advance.
func TestTokenRevokedOnAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	here := newRig(t)
	there := here.another()
	here.watch()
	there.watch()
	secret := here.create("a", contract.RightProduce)
	there.wantCode("before", there.check(secret), "")

	if err := here.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	here.wantCode("here", here.check(secret), duly.CodeUnauthorized)
	there.eventually("the other server refuses it", func() bool { return there.check(secret) != nil })
	there.wantCode("there", there.check(secret), duly.CodeUnauthorized)
}

// track admits a token and tracks its grant.
func (r *rig) track(secret string) (p *Grant, release func()) {
	r.t.Helper()
	p, err := r.Admit(r.t.Context(), hashOf(secret))
	if err != nil {
		r.t.Fatal(err)
	}
	release, err = r.Track(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, release
}

// cause waits until a grant ends, and returns the cause.
func (r *rig) cause(p *Grant) error {
	r.t.Helper()
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	select {
	case <-p.Context().Done():
		return context.Cause(p.Context())
	case <-limit.Done():
		r.t.Fatal("the grant does not end")
	}
	return nil
}

// Fault X4: the tracked grants of a token end when it is revoked or changed, on any server. Grants of
// other tokens do not end.
func TestTrackedGrantsEndWithTheirTokens(t *testing.T) {
	t.Parallel()
	here := newRig(t)
	there := here.another()
	here.watch()
	there.watch()
	secret, other := here.create("a", contract.RightProduce), here.create("a", contract.RightProduce)
	p1, release1 := here.track(secret)
	p2, release2 := there.track(secret)
	stays, release3 := there.track(other)
	defer release1()
	defer release2()
	defer release3()

	if err := here.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	// The first server needs no notice.
	here.wantCode("here", context.Cause(p1.Context()), duly.CodeUnauthorized)
	there.wantCode("there", there.cause(p2), duly.CodeUnauthorized)
	if stays.Context().Err() != nil {
		t.Error("the grant of another token has ended")
	}

	if err := here.Limit(t.Context(), hashOf(other), contract.Limits{Produce: 1, Per: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := there.cause(stays); !Changed(err) {
		t.Errorf("the grant of a changed token has ended with %v", err)
	}
	p4, release4 := there.track(other)
	defer release4()
	if p4.Token.Limits.Produce != 1 {
		t.Errorf("the new grant has %+v", p4.Token)
	}
}

// Fault X4: Track does not miss a notice that comes between the look-up and Track.
func TestTrackAfterRevocationIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	secret := r.create("a", contract.RightProduce)
	p, err := r.Admit(t.Context(), hashOf(secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.DeleteToken(t.Context(), hashOf(secret)); err != nil { // deleted by another server
		t.Fatal(err)
	}

	r.eventually("the notice has come", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return p.version < r.version })
	_, err = r.Track(t.Context(), p)
	r.wantCode("Track after the notice", err, duly.CodeUnauthorized)
}

// While the engine sends no notices, the guard does not use its cache. If a look-up fails after the
// notices are back, tracked grants end.
func TestCacheWithoutNotices(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.create("a", contract.RightProduce)
	for i := range 3 { // no watch is running
		r.wantCode("a valid token", r.check(secret), "")
		if n := r.store.lookups(); n != i+1 {
			t.Errorf("%d look-ups after %d checks", n, i+1)
		}
	}

	r.watch()
	p, release := r.track(secret)
	defer release()
	r.notify(false)
	before := r.store.lookups()
	r.wantCode("a valid token", r.check(secret), "")
	if r.store.lookups() == before {
		t.Error("the guard used its cache without notices")
	}
	if p.Context().Err() != nil {
		t.Error("the grant of a valid token has ended")
	}

	r.store.failWith(duly.ErrUnavailable)
	r.wantCode("a token whose look-up fails", r.check(secret), duly.CodeUnavailable)
	r.notify(true)
	r.wantCode("its tracked grant", r.cause(p), duly.CodeUnavailable)
	r.store.failWith(nil)
	r.wantCode("when look-ups succeed again", r.check(secret), "")
}

// Without a watcher the guard looks every token up. If a look-up does not find the token, the
// token's grants end.
func TestGuardWithoutWatcherLooksUpEveryToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Watcher = nil
	if err := r.Watch(t.Context()); err != nil {
		t.Error(err)
	}
	secret := r.create("a", contract.RightProduce)
	p, release := r.track(secret)
	defer release()
	if err := r.store.DeleteToken(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	r.wantCode("after another server revoked it", r.check(secret), duly.CodeUnauthorized)
	r.wantCode("its tracked grant", context.Cause(p.Context()), duly.CodeUnauthorized)
}

// A grant that was evicted from the cache before Track ends with its token as well.
func TestEvictedGrantEndsWithItsToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.create("a", contract.RightProduce)
	p, err := r.Admit(t.Context(), hashOf(secret))
	if err != nil {
		t.Fatal(err)
	}
	delete(r.grants, p.Token.Hash) // evicts the grant, as evictLocked does

	release, err := r.Track(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	r.wantCode("another request", r.check(secret), "")
	if err := r.Revoke(t.Context(), p.Token.Hash); err != nil {
		t.Fatal(err)
	}
	r.wantCode("its tracked grant", context.Cause(p.Context()), duly.CodeUnauthorized)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	tracked, release := r.track(r.create("a", contract.RightProduce))
	defer release()
	for i := range maxGrants {
		r.grants[[32]byte{0: byte(i), 1: byte(i >> 8), 31: 1}] = newGrant(contract.Token{})
	}
	secret := r.create("a", contract.RightProduce)
	if err := r.check(secret); err != nil || len(r.grants) > maxGrants {
		t.Errorf("%v, %d grants", err, len(r.grants))
	}
	if err := r.Revoke(t.Context(), tracked.Token.Hash); err != nil || tracked.Context().Err() == nil {
		t.Errorf("%v; a tracked grant has outlived its token", err)
	}
}

// Fault X4: with many concurrent requests, no request is admitted that begins after Revoke has
// returned.
func TestConcurrentRequestsAreRefusedAfterRevoke(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	for round := range 20 {
		secret := r.create("a", contract.RightProduce)
		revoked := make(chan struct{})
		var wg sync.WaitGroup

		for i := range 8 {
			from := fmt.Sprintf("10.0.%d.%d:1", round, i)
			wg.Go(func() {
				for {
					over := false
					select {
					case <-revoked:
						over = true
					default:
					}
					err := r.check(secret, from)
					if over && err == nil {
						t.Error("a request was admitted after the revocation")
					}
					if over || err != nil {
						return
					}
				}
			})
		}

		if err := r.Revoke(t.Context(), hashOf(secret)); err != nil {
			t.Error(err)
		}
		close(revoked)
		wg.Wait()
	}
}

// Revoke refuses to revoke the last operator's token, unless there are accounts.
func TestLastOperatorIsNotRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.create("*", contract.RightAdmin)
	r.create("*", contract.RightProduce)
	r.create("a", contract.RightAdmin)
	r.wantCode("the last operator", r.Revoke(t.Context(), hashOf(first)), duly.CodeConflict)
	r.wantCode("its token", r.check(first), "")

	second := r.create("*", contract.RightAdmin)
	r.wantCode("the first of two", r.Revoke(t.Context(), hashOf(first)), "")
	r.wantCode("a second time", r.Revoke(t.Context(), hashOf(first)), duly.CodeNotFound)

	ada, _ := NewAccount("ada", "correct horse")
	r.wantCode("the last one with an account", r.another(ada).Revoke(t.Context(), hashOf(second)), "")
}

// After its watch has ended, a guard does not use its cache.
func TestGuardWithoutAWatchUsesNoCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Watch(ctx) }()
	r.eventually("the guard watches", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return r.watching })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || r.watching {
		t.Errorf("%v, watching %t", err, r.watching)
	}
}

// An unknown token, which anybody can send, does not invalidate the cache.
func TestUnknownTokenKeepsCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	secret := r.create("a", contract.RightProduce)
	r.eventually("the token is cached", func() bool { return r.check(secret) == nil && r.Cached(hashOf(secret)) != nil })
	r.wantCode("an unknown token", r.check(NewSecret()), duly.CodeUnauthorized)
	if r.Cached(hashOf(secret)) == nil {
		t.Error("the valid token needs another look-up")
	}
}

// Fault X4: a look-up that finds a changed token ends its previous grant, before any notice of
// the change.
func TestLookUpEndsChangedGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := contract.Token{Hash: [32]byte{1}, Namespace: "a", Rights: contract.RightProduce}
	p := r.cache(token, 1)
	if again := r.cache(token, 2); again != p || p.Context().Err() != nil {
		t.Errorf("an unchanged token got another grant: %v", p.Context().Err())
	}

	token.Limits = contract.Limits{Produce: 1, Per: time.Minute}
	next := r.cache(token, 3)
	if err := context.Cause(p.Context()); !Changed(err) {
		t.Errorf("the previous grant has ended with %v", err)
	}
	if next == p || next.Context().Err() != nil || next.Token.Limits.Produce != 1 {
		t.Errorf("the new grant is %+v, %v", next.Token, next.Context().Err())
	}
}
