package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// X5: ten failed attempts in a minute, then 429 with the time to wait; who was
// let in before still is, and other addresses notice nothing.
func TestX5FailedAttemptsAreSlowedDown(t *testing.T) {
	t.Parallel()
	const bad, good = "198.51.100.7:4000", "203.0.113.9:5000"
	r := newRig(t)
	r.listen()
	known, stranger := r.make("a", duly.RightProduce), r.make("a", duly.RightProduce)
	r.wants("a good token", r.check(known, bad), "")
	looked := r.store.looked()
	for range 10 {
		r.wants("a guess", r.check(NewSecret(), bad), duly.CodeUnauthorized)
		r.clock.Advance(time.Second)
	}
	for range 1000 {
		err := r.check(NewSecret(), "198.51.100.7:4001")
		var e *duly.Error
		if !errors.As(err, &e) || e.Code != duly.CodeLimited || e.RetryAfter != 50*time.Second {
			t.Fatalf("the eleventh guess: %v", err)
		}
		r.wants("what can't be a token", r.check("duly_x", bad), duly.CodeLimited)
	}
	if n := r.store.looked() - looked; n != 10 {
		t.Errorf("%d guesses were looked up, want 10", n)
	}
	r.wants("a stranger's good token from there", r.check(stranger, bad), duly.CodeLimited)
	r.wants("a known token from there", r.check(known, bad), "")
	r.wants("a good token from elsewhere", r.check(stranger, good), "")
	r.wants("a guess from elsewhere", r.check(NewSecret(), good), duly.CodeUnauthorized)
	r.clock.Advance(50*time.Second - time.Millisecond)
	r.wants("a guess a moment too early", r.check(NewSecret(), bad), duly.CodeLimited)
	r.clock.Advance(time.Millisecond)
	for range 10 {
		r.wants("a guess a minute later", r.check(NewSecret(), bad), duly.CodeUnauthorized)
	}
	r.wants("another one", r.check(NewSecret(), bad), duly.CodeLimited)
}

// X5: who shuts himself out does not shut out those who came before him, also
// not when all tokens have to be looked up anew.
func TestX5KnownTokensPassAlsoAfterAChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	known := r.make("a", duly.RightProduce)
	r.wants("a good token", r.check(known), "")
	for range 20 {
		r.check(NewSecret())
	}
	r.make("b", duly.RightProduce) // a change: passes are doubtful
	r.wants("the known token", r.check(known), "")
	if err := r.store.DeleteToken(t.Context(), hashOf(known)); err != nil {
		t.Fatal(err)
	}
	r.until("it is refused", func() bool { return r.check(known) != nil })
	r.wants("the token that was revoked", r.check(known), duly.CodeLimited)
}

// X5: passwords are not tried on while an address has to wait.
func TestX5AccountsAreSlowedDown(t *testing.T) {
	t.Parallel()
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	try := func(password string) error {
		_, err := r.Check(t.Context(), Claim{Header: "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+password))}, Operator, "")
		return err
	}
	for i := range 10 {
		r.wants("a guess", try(fmt.Sprintf("guess%d", i)), duly.CodeUnauthorized)
	}
	r.wants("the right one, too late", try("correct horse"), duly.CodeLimited)
	r.clock.Advance(time.Minute)
	r.wants("the right one, a minute later", try("correct horse"), "")
}

// X5: a million guesses from many addresses: no hit, and no more memory than
// for the bound.
func TestX5ManyAddressesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.make("a", duly.RightProduce)
	n := 3 * mostAddresses
	if long() {
		n = 1_000_000
	}
	for i := range n {
		if err := r.check("duly_guess", fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)); err == nil {
			t.Fatal("a guess was let in")
		}
	}
	remembered := func() int { return len(r.attempts.young) + len(r.attempts.old) }
	if n := remembered(); n > mostAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
	for range 2 {
		r.clock.Advance(time.Minute)
		r.check("duly_guess", "192.0.2.1:1")
	}
	if n := remembered(); n > 2 {
		t.Errorf("%d addresses are remembered although their minute is over", n)
	}
}
