package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// RevokedTokenCached: a token is looked up once while the engine tells of
// changes, and a revoked one opens nothing, also if a look-up was under way.
func TestRevokedTokenCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	secret := r.make("a", duly.RightProduce)
	// The notice of its making may come later than this; then it is looked up twice.
	r.until("it is remembered", func() bool {
		before := r.store.looked()
		return r.check(secret) == nil && r.check(secret) == nil && r.store.looked() == before
	})
	for range 100 {
		r.wants("a token that is remembered", r.check(secret), "")
	}
	r.told(true) // so that it has to be looked up
	r.store.mu.Lock()
	r.store.before = func() { // the look-up has found it; now it is revoked before it is remembered
		if err := r.Revoke(context.Background(), hashOf(secret)); err != nil {
			t.Error(err)
		}
	}
	r.store.mu.Unlock()
	r.check(secret)
	r.wants("after it was revoked", r.check(secret), duly.CodeUnauthorized)
}

// X4: revoked through one server, refused by the other: told, not polled, for
// the clock stands still.
func TestX4RevokedOnAnotherServer(t *testing.T) {
	t.Parallel()
	here := newRig(t)
	there := here.another()
	here.listen()
	there.listen()
	secret := here.make("a", duly.RightProduce)
	there.wants("before", there.check(secret), "")
	if err := here.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	here.wants("here, at once", here.check(secret), duly.CodeUnauthorized)
	there.until("it is refused there", func() bool { return there.check(secret) != nil })
	there.wants("there", there.check(secret), duly.CodeUnauthorized)
}

// hold takes a token's pass and waits with it.
func (r *rig) hold(secret string) (p *Pass, release func()) {
	r.t.Helper()
	p, err := r.Admit(r.t.Context(), hashOf(secret))
	if err != nil {
		r.t.Fatal(err)
	}
	release, err = r.Hold(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, release
}

func (r *rig) ends(p *Pass) error {
	r.t.Helper()
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	select {
	case <-p.Over().Done():
		return context.Cause(p.Over())
	case <-limit.Done():
		r.t.Fatal("the pass does not end")
	}
	return nil
}

// X4: what waits with a token that is revoked or changed, here or elsewhere,
// ends; what waits with others goes on.
func TestX4HeldPassesEndWithTheirTokens(t *testing.T) {
	t.Parallel()
	here := newRig(t)
	there := here.another()
	here.listen()
	there.listen()
	secret, other := here.make("a", duly.RightProduce), here.make("a", duly.RightProduce)
	p1, release1 := here.hold(secret)
	p2, release2 := there.hold(secret)
	stays, release3 := there.hold(other)
	defer release1()
	defer release2()
	defer release3()
	if err := here.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	here.wants("here", context.Cause(p1.Over()), duly.CodeUnauthorized) // at once
	there.wants("there", there.ends(p2), duly.CodeUnauthorized)
	if stays.Over().Err() != nil {
		t.Error("the pass of another token has ended")
	}
	if err := here.Limit(t.Context(), hashOf(other), duly.Limits{Produce: 1, Per: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := there.ends(stays); !Changed(err) {
		t.Errorf("the pass of a token that has changed has ended with %v", err)
	}
	p4, release4 := there.hold(other)
	defer release4()
	if p4.Token.Limits.Produce != 1 {
		t.Errorf("the new pass has %+v", p4.Token)
	}
}

// X4: a notice that comes between the look-up and the waiting is not missed.
func TestX4APassThatEndedBeforeItWasHeldIsNotHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	secret := r.make("a", duly.RightProduce)
	p, err := r.Admit(t.Context(), hashOf(secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.DeleteToken(t.Context(), hashOf(secret)); err != nil { // by another server
		t.Fatal(err)
	}
	r.until("the notice has come", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return p.checked < r.change })
	_, err = r.Hold(t.Context(), p)
	r.wants("a hold after the notice", err, duly.CodeUnauthorized)
}

// While the engine can't be heard nothing that is remembered is used, and who
// waits has to come again when it can't be found out how his token is.
func TestNothingIsRememberedWhileTheEngineIsNotHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.make("a", duly.RightProduce)
	for i := range 3 { // nobody listens
		r.wants("a good token", r.check(secret), "")
		if n := r.store.looked(); n != i+1 {
			t.Errorf("%d look-ups after %d checks", n, i+1)
		}
	}
	r.listen()
	p, release := r.hold(secret)
	defer release()
	r.told(false)
	looked := r.store.looked()
	r.wants("a good token", r.check(secret), "")
	if r.store.looked() == looked {
		t.Error("what was remembered was used while changes were not heard of")
	}
	if p.Over().Err() != nil {
		t.Error("the pass has ended although nothing is known against it")
	}
	r.store.failWith(duly.ErrUnavailable)
	r.wants("a token that can't be looked up", r.check(secret), duly.CodeUnavailable)
	r.told(true)
	r.wants("what waits with it", r.ends(p), duly.CodeUnavailable)
	r.store.failWith(nil)
	r.wants("when it can be looked up again", r.check(secret), "")
}

// Without a watcher nothing is remembered either, and what is revoked here
// ends here.
func TestAGuardWithoutAWatcherLooksEveryTokenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Watcher = nil
	if err := r.Watch(t.Context()); err != nil {
		t.Error(err)
	}
	secret := r.make("a", duly.RightProduce)
	p, release := r.hold(secret)
	defer release()
	if err := r.store.DeleteToken(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	r.wants("after it was revoked elsewhere", r.check(secret), duly.CodeUnauthorized)
	r.wants("what waits with it", context.Cause(p.Over()), duly.CodeUnauthorized)
}

// A pass that was forgotten for want of room before its request came to wait
// ends with its token nevertheless.
func TestAPassThatWasForgottenEndsWithItsToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.make("a", duly.RightProduce)
	p, err := r.Admit(t.Context(), hashOf(secret))
	if err != nil {
		t.Fatal(err)
	}
	delete(r.passes, p.Token.Hash)
	release, err := r.Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	r.wants("another request", r.check(secret), "")
	if err := r.Revoke(t.Context(), p.Token.Hash); err != nil {
		t.Fatal(err)
	}
	r.wants("what waits with it", context.Cause(p.Over()), duly.CodeUnauthorized)
}

func TestTheRememberedPassesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	held, release := r.hold(r.make("a", duly.RightProduce))
	defer release()
	for i := range mostPasses {
		r.passes[[32]byte{0: byte(i), 1: byte(i >> 8), 31: 1}] = newPass(duly.Token{})
	}
	secret := r.make("a", duly.RightProduce)
	if err := r.check(secret); err != nil || len(r.passes) > mostPasses {
		t.Errorf("%v, %d passes", err, len(r.passes))
	}
	if err := r.Revoke(t.Context(), held.Token.Hash); err != nil || held.Over().Err() == nil {
		t.Errorf("%v; a pass that is held has outlived its token", err)
	}
}

// Under a crowd that comes and goes no revoked token is let in once its
// revocation has been answered.
func TestX4ACrowdIsRefusedOnceItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	for round := range 20 {
		secret := r.make("a", duly.RightProduce)
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
						t.Error("it was let in after it was revoked")
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

// Nobody locks himself out: the last operator's token stays, unless there are
// accounts.
func TestTheLastOperatorIsNotRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.make("*", duly.RightAdmin)
	r.make("*", duly.RightProduce)
	r.make("a", duly.RightAdmin)
	r.wants("the last operator", r.Revoke(t.Context(), hashOf(first)), duly.CodeConflict)
	r.wants("its token", r.check(first), "")
	second := r.make("*", duly.RightAdmin)
	r.wants("the first of two", r.Revoke(t.Context(), hashOf(first)), "")
	r.wants("a second time", r.Revoke(t.Context(), hashOf(first)), duly.CodeNotFound)
	ada, _ := NewAccount("ada", "correct horse")
	r.wants("the last one beside an account", r.another(ada).Revoke(t.Context(), hashOf(second)), "")
}

func TestAWatchThatEndsIsNotRelyedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Watch(ctx) }()
	r.until("the guard hears", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return r.hearing })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || r.hearing {
		t.Errorf("%v, hearing %t", err, r.hearing)
	}
}

// A token that nobody has, which anybody may show, voids nothing that is
// remembered.
func TestAnUnknownTokenVoidsNoPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	secret := r.make("a", duly.RightProduce)
	r.until("it is remembered", func() bool { return r.check(secret) == nil && r.Remembered(hashOf(secret)) != nil })
	r.wants("an unknown token", r.check(NewSecret()), duly.CodeUnauthorized)
	if r.Remembered(hashOf(secret)) == nil {
		t.Error("the token that is good is to be looked up anew")
	}
}

// X4: who waits with a token that a look-up finds changed ends, before any notice
// of the change.
func TestX4APassEndsOnceItsTokenIsFoundChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := duly.Token{Hash: [32]byte{1}, Namespace: "a", Rights: duly.RightProduce}
	p := r.remember(token, 1)
	if again := r.remember(token, 2); again != p || p.Over().Err() != nil {
		t.Errorf("found as it was, the token has another pass: %v", p.Over().Err())
	}

	token.Limits = duly.Limits{Produce: 1, Per: time.Minute}
	next := r.remember(token, 3)
	if err := context.Cause(p.Over()); !Changed(err) {
		t.Errorf("the pass of the token as it was has ended with %v", err)
	}
	if next == p || next.Over().Err() != nil || next.Token.Limits.Produce != 1 {
		t.Errorf("the new pass is %+v, %v", next.Token, next.Over().Err())
	}
}
