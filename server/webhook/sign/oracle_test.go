package sign_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

func newRing(t testing.TB) *seal.Ring {
	t.Helper()
	r, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// headers returns the headers of a request that the set signs.
func headers(t testing.TB, r *seal.Ring, s sign.Set, v sign.Versions, id string, at time.Time,
	body []byte) http.Header {
	t.Helper()
	signer, _, err := s.Signer(r, v, at)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(sign.HeaderID, id)
	h.Set(sign.HeaderTimestamp, sign.Timestamp(at))
	h.Set(sign.HeaderSignature, signature)
	return h
}

// oracle returns a receiver with the public Go library.
func oracle(t testing.TB, secret sign.Secret) *standardwebhooks.Webhook {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// C16.41: the public Go library accepts every request and refuses modified ones. C16.42: the
// library refuses requests whose time is ten minutes in the past or future.
func TestPublicLibraryVerifies(t *testing.T) {
	t.Parallel()
	r, pair := newRing(t), sign.NewPair()
	set := sign.NewSet(r, "shop", "", pair)
	library, now := oracle(t, pair.V1), time.Now()

	bodies := map[string][]byte{
		"empty": nil, "JSON": []byte(`{"paid":17}`), "bytes": {0, 0xff, '.', '\n'},
		"a mebibyte": []byte(strings.Repeat("duly", 1<<18)), "dots": []byte("1.2.3"),
	}
	for name, body := range bodies {
		for _, v := range []sign.Versions{{}, {V1: true}, {V1: true, V1a: true}} {
			h := headers(t, r, set, v, "shop/orders/42", now, body)
			if err := library.Verify(body, h); err != nil {
				t.Errorf("%s, %+v: %v", name, v, err)
			}
		}
	}

	body := []byte(`{"paid":17}`)
	changes := map[string]func(h http.Header) []byte{
		"the body": func(http.Header) []byte { return []byte(`{"paid":18}`) },
		"the ID":   func(h http.Header) []byte { h.Set(sign.HeaderID, "shop/orders/43"); return body },
		"the timestamp": func(h http.Header) []byte {
			h.Set(sign.HeaderTimestamp, sign.Timestamp(now.Add(time.Second)))
			return body
		},
	}
	for name, change := range changes {
		h := headers(t, r, set, sign.Versions{}, "shop/orders/42", now, body)
		if changed := change(h); library.Verify(changed, h) == nil {
			t.Errorf("the library accepts a request after a change of %s", name)
		}
	}
	for _, d := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		if h := headers(t, r, set, sign.Versions{}, "shop/orders/42", now.Add(d), body); library.Verify(body,
			h) == nil {
			t.Errorf("the library accepts a timestamp %s from now", d)
		}
	}
}

// C16.41: the signature of a known request.
func TestSignatureOfAKnownRequestMatches(t *testing.T) {
	t.Parallel()
	secret, err := sign.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	pair := sign.NewPair()
	pair.Replace(secret)
	r := newRing(t)
	h := headers(t, r, sign.NewSet(r, "shop", "", pair), sign.Versions{}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := h.Get(sign.HeaderSignature), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

// C16.41: v1a is ed25519 of the same text, verified with only the public key.
func TestV1aIsVerifiedWithThePublicKey(t *testing.T) {
	t.Parallel()
	r, pair := newRing(t), sign.NewPair()
	h := headers(t, r, sign.NewSet(r, "shop", "", pair), sign.Versions{V1a: true}, "id", time.Unix(1700000000, 0),
		[]byte("body"))

	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(pair.V1a.Public(), "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	version, encoded, _ := strings.Cut(h.Get(sign.HeaderSignature), ",")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || version != "v1a" {
		t.Fatalf("the header is %s", h.Get(sign.HeaderSignature))
	}
	if !ed25519.Verify(public, []byte("id.1700000000.body"), signature) {
		t.Error("the signature is wrong")
	}
	if ed25519.Verify(public, []byte("id.1700000000.bodx"), signature) {
		t.Error("the signature fits another body")
	}
}

// C16.59: during the overlap, both secrets sign. C16.61: the clock ends the overlap.
func TestBothSecretsSignDuringTheOverlap(t *testing.T) {
	t.Parallel()
	r, first, second := newRing(t), sign.NewPair(), sign.NewPair()
	now := time.Now()
	old := sign.NewSet(r, "shop", "crm", first)
	set, err := old.Rotate(r, second, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	body := []byte("body")
	accepts := func(s sign.Set, p sign.Pair, at time.Time) bool {
		h := headers(t, r, s, sign.Versions{V1: true, V1a: true}, "id", at, body)
		return oracle(t, p.V1).VerifyIgnoringTimestamp(body, h) == nil
	}
	if !accepts(old, first, now) || accepts(old, second, now) {
		t.Error("before the rotation, the first secret alone must sign")
	}
	for _, at := range []time.Duration{0, time.Second, time.Hour - time.Millisecond} {
		if !accepts(set, first, now.Add(at)) || !accepts(set, second, now.Add(at)) {
			t.Errorf("%s into the overlap, one of the secrets does not sign", at)
		}
	}
	for _, at := range []time.Duration{time.Hour, 24 * time.Hour} {
		if accepts(set, first, now.Add(at)) || !accepts(set, second, now.Add(at)) {
			t.Errorf("%s after the rotation, the second secret alone must sign", at)
		}
	}

	signer, until, err := set.Signer(r, sign.Versions{}, now)
	if err != nil || signer == nil || !until.Equal(now.Add(time.Hour)) {
		t.Errorf("the signer is good until %s, %v, want the end of the overlap", until, err)
	}
	if _, until, err := set.Signer(r, sign.Versions{}, now.Add(time.Hour)); err != nil || !until.IsZero() {
		t.Errorf("after the overlap, the signer is good until %s, %v, want no end", until, err)
	}
}

// C16.59: an overlap of 0 ends the old secret at once, and the maximum is 30 days.
func TestOverlapIsAtMost30Days(t *testing.T) {
	t.Parallel()
	r, now := newRing(t), time.Now()
	set := sign.NewSet(r, "shop", "", sign.NewPair())
	at, err := set.Rotate(r, sign.NewPair(), now, 0)
	if err != nil || len(at.Generations) != 1 || at.Generations[0].Number != 2 {
		t.Errorf("with no overlap: %d generations, %v, want the second one alone", len(at.Generations), err)
	}
	if _, err := set.Rotate(r, sign.NewPair(), now, sign.MaxOverlap); err != nil {
		t.Errorf("30 days: %v", err)
	}
	for _, d := range []time.Duration{-1, sign.MaxOverlap + 1} {
		if _, err := set.Rotate(r, sign.NewPair(), now, d); err == nil {
			t.Errorf("an overlap of %s is accepted", d)
		}
	}
}

// C16.60: a second rotation within the overlap ends the oldest secret.
func TestAtMostTwoSecretsAreLive(t *testing.T) {
	t.Parallel()
	r, now := newRing(t), time.Now()
	pairs := []sign.Pair{sign.NewPair(), sign.NewPair(), sign.NewPair()}
	set := sign.NewSet(r, "shop", "", pairs[0])
	for _, p := range pairs[1:] {
		var err error
		if set, err = set.Rotate(r, p, now, time.Hour); err != nil {
			t.Fatal(err)
		}
	}

	if n := len(set.Generations); n != 2 {
		t.Fatalf("%d generations, want 2", n)
	}
	h := headers(t, r, set, sign.Versions{}, "id", now, nil)
	for i, want := range []bool{false, true, true} {
		if got := oracle(t, pairs[i].V1).Verify(nil, h) == nil; got != want {
			t.Errorf("secret %d signs: %v, want %v", i+1, got, want)
		}
	}
}

// C16.52: a sealed secret that is copied to another owner can't be opened there.
func TestSetOpensOnlyForItsOwner(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	set := sign.NewSet(r, "shop", "crm", sign.NewPair())
	for _, moved := range []sign.Set{
		{Namespace: "other", Target: "crm", Generations: set.Generations},
		{Namespace: "shop", Target: "erp", Generations: set.Generations},
		{Namespace: "shop", Generations: set.Generations},
		{Namespace: "shop", Target: "crm",
			Generations: []sign.Generation{{Number: 2, Sealed: set.Generations[0].Sealed}}},
	} {
		if _, _, err := moved.Signer(r, sign.Versions{}, time.Now()); err == nil {
			t.Errorf("%s/%s signs with the secret of shop/crm", moved.Namespace, moved.Target)
		}
	}
	if _, _, err := set.Signer(newRing(t), sign.Versions{}, time.Now()); err == nil {
		t.Error("a set opens with another ring")
	}
}
