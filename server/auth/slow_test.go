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
)

// chosen tries a token whose text a person has chosen, in the namespace a.
func (r *rig) chosen(text string, from ...string) error {
	_, err := r.AdmitChosen(context.Background(), Remote{Peer: strings.Join(from, "")}, "a", chosenHash(text))
	return err
}

func chosenHash(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// choose makes a token with a chosen text.
func (r *rig) choose(text string) {
	r.t.Helper()
	err := r.CreateAs(r.t.Context(), duly.Token{Hash: chosenHash(text), Namespace: "a", Rights: duly.RightProduce})
	if err != nil {
		r.t.Fatal(err)
	}
}

// password tries a password of the account ada.
func (r *rig) password(password string, from ...string) error {
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+password))
	_, err := r.Check(context.Background(), Claim{header, Remote{Peer: strings.Join(from, "")}}, Operator, "")
	return err
}

// X5, C14.41: ten wrong secrets of one address for one account in a minute are
// unauthorized, further ones limited, with the time to wait. The same holds for
// passwords and for tokens with a chosen text. Another account and another
// address notice nothing.
func TestX5FailedGuessesAreSlowedPerAddressAndAccount(t *testing.T) {
	t.Parallel()
	const bad, good = "198.51.100.7:4000", "203.0.113.9:5000"
	for kind, try := range map[string]func(r *rig, secret string, from ...string) error{"password": (*rig).password, "chosen token": (*rig).chosen} {
		ada, _ := NewAccount("ada", "correct horse")
		r := newRig(t, ada)
		r.listen()
		for range 10 {
			r.wants(kind, try(r, "wrong", bad), duly.CodeUnauthorized)
			r.clock.Advance(time.Second)
		}
		for range 100 {
			err := try(r, "wrong", "198.51.100.7:4001")
			var e *duly.Error
			if !errors.As(err, &e) || e.Code != duly.CodeLimited || e.RetryAfter != 50*time.Second {
				t.Fatalf("the eleventh wrong %s: %v", kind, err)
			}
		}
		r.wants(kind+" from another address", try(r, "wrong", good), duly.CodeUnauthorized)
		_, err := r.AdmitChosen(t.Context(), Remote{Peer: bad}, "b", chosenHash("wrong"))
		r.wants("another account", err, duly.CodeUnauthorized)

		r.clock.Advance(50*time.Second - time.Millisecond)
		r.wants(kind+" a moment too early", try(r, "wrong", bad), duly.CodeLimited)
		r.clock.Advance(time.Millisecond)
		for range 10 {
			r.wants(kind+" a minute later", try(r, "wrong", bad), duly.CodeUnauthorized)
		}
		r.wants(kind+" once more", try(r, "wrong", bad), duly.CodeLimited)
	}
}

// X5, C14.41: a good credential is let in however many bad ones came from its
// address: on its first use, and after a change makes the server look it up
// again.
func TestX5AGoodCredentialIsNeverRefused(t *testing.T) {
	t.Parallel()
	const text = "0123456789-0123456789"
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	r.listen()
	token := r.make("a", duly.RightProduce)
	r.choose(text)
	for round := range 3 {
		for range 100 {
			r.check(NewSecret())
			r.check("duly_malformed")
			r.chosen("wrong")
			r.password("wrong")
		}
		r.wants("a wrong password", r.password("wrong"), duly.CodeLimited)
		r.wants("the right password", r.password("correct horse"), "")
		r.wants("a wrong chosen token", r.chosen("wrong"), duly.CodeLimited)
		r.wants("the chosen token", r.chosen(text), "")
		r.wants("the token", r.check(token), "")
		if round == 1 {
			r.make("b", duly.RightProduce) // a change: passes are doubtful
		}
	}
}

// X5, C14.41: tokens have 256 random bits, so wrong ones are not counted: a worker
// that repeats an old token gets unauthorized each time.
func TestX5WrongTokensAreNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen()
	revoked := r.make("a", duly.RightProduce)
	if err := r.Revoke(t.Context(), hashOf(revoked)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.wants("the same wrong token", r.check(revoked), duly.CodeUnauthorized)
		r.wants("a new wrong token", r.check(NewSecret()), duly.CodeUnauthorized)
		r.wants("what can't be a token", r.check("duly_x"), duly.CodeUnauthorized)
	}
	if n := len(r.attempts.young) + len(r.attempts.old); n != 0 {
		t.Errorf("%d kinds of guesses are remembered", n)
	}
}

// X5: a million guesses from many addresses and for many accounts find no secret,
// and use no more memory than the bound allows.
func TestX5ManyAddressesAndAccountsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := 3 * mostGuesses
	if long() {
		n = 1_000_000
	}
	for i := range n {
		from := Remote{Peer: fmt.Sprintf("10.%d.%d.%d:1", i>>17, i>>9&255, i>>1&255)}
		if _, err := r.AdmitChosen(t.Context(), from, fmt.Sprint("account ", i&1), chosenHash("guess")); err == nil {
			t.Fatal("a guess was let in")
		}
	}
	remembered := func() int { return len(r.attempts.young) + len(r.attempts.old) }
	if n := remembered(); n > mostGuesses {
		t.Errorf("%d kinds of guesses are remembered", n)
	}
	for range 2 {
		r.clock.Advance(time.Minute)
		r.chosen("guess", "192.0.2.1:1")
	}
	if n := remembered(); n > 2 {
		t.Errorf("%d kinds of guesses are remembered although their minute is over", n)
	}
}
