package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// tryChosen tries a token with a chosen text, in the namespace a.
func (r *rig) tryChosen(text string, from ...string) error {
	_, err := r.AdmitChosen(context.Background(), Remote{Peer: strings.Join(from, "")}, "a", chosenHash(text))
	return err
}

func chosenHash(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// createChosen creates a token with a chosen text.
func (r *rig) createChosen(text string) {
	r.t.Helper()
	err := r.CreateAs(r.t.Context(), contract.Token{Hash: chosenHash(text), Namespace: "a", Rights: contract.RightProduce})
	if err != nil {
		r.t.Fatal(err)
	}
}

// tryPassword tries a password of the account ada.
func (r *rig) tryPassword(password string, from ...string) error {
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+password))
	_, err := r.Check(context.Background(), Credentials{header, Remote{Peer: strings.Join(from, "")}}, Operator, "")
	return err
}

// Fault X5, C14.41: ten wrong secrets of one address for one account in a minute return unauthorized,
// further ones return limited with the time to wait. The same holds for passwords and for tokens
// with a chosen text. Other accounts and other addresses are not affected.
func TestFailedGuessesAreSlowedPerAddressAndAccount(t *testing.T) {
	t.Parallel()
	const bad, good = "198.51.100.7:4000", "203.0.113.9:5000"
	for kind, try := range map[string]func(r *rig, secret string, from ...string) error{
		"password": (*rig).tryPassword, "chosen token": (*rig).tryChosen,
	} {
		ada, _ := NewAccount("ada", "correct horse")
		r := newRig(t, ada)
		r.watch()
		for range 10 {
			r.wantCode(kind, try(r, "wrong", bad), duly.CodeUnauthorized)
			r.clock.Advance(time.Second)
		}

		for range 100 {
			err := try(r, "wrong", "198.51.100.7:4001")
			var e *duly.Error
			if !errors.As(err, &e) || e.Code != duly.CodeLimited || e.RetryAfter != 50*time.Second {
				t.Fatalf("the eleventh wrong %s: %v", kind, err)
			}
		}
		r.wantCode(kind+" from another address", try(r, "wrong", good), duly.CodeUnauthorized)
		_, err := r.AdmitChosen(t.Context(), Remote{Peer: bad}, "b", chosenHash("wrong"))
		r.wantCode("another account", err, duly.CodeUnauthorized)

		r.clock.Advance(50*time.Second - time.Millisecond)
		r.wantCode(kind+" a moment too early", try(r, "wrong", bad), duly.CodeLimited)
		r.clock.Advance(time.Millisecond)
		for range 10 {
			r.wantCode(kind+" a minute later", try(r, "wrong", bad), duly.CodeUnauthorized)
		}
		r.wantCode(kind+" once more", try(r, "wrong", bad), duly.CodeLimited)
	}
}

// Fault X5, C14.41: a valid credential is admitted, however many wrong ones came from its address. That
// holds for its first use, and after a change makes the server look it up again.
func TestValidCredentialIsNeverRefused(t *testing.T) {
	t.Parallel()
	const text = "0123456789-0123456789"
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	r.watch()
	token := r.create("a", contract.RightProduce)
	r.createChosen(text)

	for round := range 3 {
		for range 100 {
			r.check(NewSecret())
			r.check("duly_malformed")
			r.tryChosen("wrong")
			r.tryPassword("wrong")
		}

		r.wantCode("a wrong password", r.tryPassword("wrong"), duly.CodeLimited)
		r.wantCode("the right password", r.tryPassword("correct horse"), "")
		r.wantCode("a wrong chosen token", r.tryChosen("wrong"), duly.CodeLimited)
		r.wantCode("the chosen token", r.tryChosen(text), "")
		r.wantCode("the token", r.check(token), "")
		if round == 1 {
			r.create("b", contract.RightProduce) // a change of any token invalidates the cache
		}
	}
}

// Fault X5, C14.41: tokens have 256 random bits, so the guard does not count wrong tokens. A worker that
// repeats an old token gets unauthorized each time.
func TestWrongTokensAreNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watch()
	revoked := r.create("a", contract.RightProduce)
	if err := r.Revoke(t.Context(), hashOf(revoked)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.wantCode("the same wrong token", r.check(revoked), duly.CodeUnauthorized)
		r.wantCode("a new wrong token", r.check(NewSecret()), duly.CodeUnauthorized)
		r.wantCode("a text that cannot be a token", r.check("duly_x"), duly.CodeUnauthorized)
	}
	if n := len(r.attempts.recent) + len(r.attempts.previous); n != 0 {
		t.Errorf("%d keys are in memory", n)
	}
}

// Fault X5: a million guesses from many addresses and for many accounts find no secret and use
// bounded memory.
func TestGuessesFromManyAddressesUseBoundedMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := 3 * maxGuesses
	if long() {
		n = 1_000_000
	}
	for i := range n {
		from := Remote{Peer: fmt.Sprintf("10.%d.%d.%d:1", i>>17, i>>9&255, i>>1&255)}
		if _, err := r.AdmitChosen(t.Context(), from, fmt.Sprint("account ", i&1), chosenHash("guess")); err == nil {
			t.Fatal("a guess was admitted")
		}
	}

	keys := func() int { return len(r.attempts.recent) + len(r.attempts.previous) }
	if n := keys(); n > maxGuesses {
		t.Errorf("%d keys are in memory", n)
	}
	for range 2 {
		r.clock.Advance(time.Minute)
		r.tryChosen("guess", "192.0.2.1:1")
	}
	if n := keys(); n > 2 {
		t.Errorf("%d keys are in memory after their minute", n)
	}
}
