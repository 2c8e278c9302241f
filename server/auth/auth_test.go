package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// PredictableToken, X3: 256 bits, never the same twice, no bit of which tells
// of another, and recognisable.
func TestX3PredictableToken(t *testing.T) {
	t.Parallel()
	const n = 2000
	seen := map[string]bool{}
	var ones [secretBytes * 8]int
	for range n {
		s := NewSecret()
		if seen[s] || len(s) != 48 || !strings.HasPrefix(s, "duly_") {
			t.Fatalf("%q", s)
		}
		if _, ok := Hash(s); !ok {
			t.Fatalf("%q is not known as a token", s)
		}
		seen[s] = true
		b, err := base64.RawURLEncoding.DecodeString(s[len(Prefix):])
		if err != nil || len(b) != secretBytes {
			t.Fatalf("%q: %v", s, err)
		}
		for i := range ones {
			ones[i] += int(b[i/8] >> (i % 8) & 1)
		}
	}
	for i, k := range ones { // ten standard deviations: by chance never
		if k < n/2-224 || k > n/2+224 {
			t.Errorf("bit %d is set in %d of %d tokens", i, k, n)
		}
	}
}

// X3: what the store is given is the hash alone.
func TestX3OnlyTheHashIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.make("a", duly.RightProduce)
	page, err := r.store.Tokens(t.Context(), "", duly.PageParams{})
	if err != nil || len(page.Tokens) != 1 {
		t.Fatal(page, err)
	}
	if stored := fmt.Sprintf("%+v %s", page, page.Tokens[0].Hash); strings.Contains(stored, secret[5:20]) {
		t.Errorf("the secret is stored: %s", stored)
	}
}

// X5: what can't be a token costs the registry nothing.
func TestX5MalformedTokensAskNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.make("a", duly.RightProduce)
	for i, header := range []string{"", "Bearer", "Bearer ", "Basic " + good, good, "Bearer " + good[1:], "Bearer " + good + "x", "Bearer  " + good, "Bearer " + good[:47] + "=",
		"Bearer duly_" + strings.Repeat("\x00", 43), "Bearer DULY_" + good[5:], "Bearer " + strings.Repeat("x", 10_000)} {
		from := Remote{Peer: fmt.Sprintf("10.0.0.%d:1", i)}
		if _, err := r.Check(t.Context(), Claim{header, from}, Produce, "a"); !errors.Is(err, duly.ErrUnauthorized) || strings.Contains(err.Error(), good[6:20]) {
			t.Errorf("%.60q: %v", header, err)
		}
	}
	if n := r.store.looked(); n != 0 {
		t.Errorf("%d look-ups", n)
	}
	if _, err := r.Check(t.Context(), Claim{Header: "bearer " + good}, Produce, "a"); err != nil {
		t.Errorf("the scheme is a word of any case: %v", err)
	}
}

// C1.2, C14.26, C14.27: who may do what where.
func TestNeeds(t *testing.T) {
	t.Parallel()
	const none, p, c, a = duly.Right(0), duly.RightProduce, duly.RightConsume, duly.RightAdmin
	for _, tt := range []struct {
		need      Need
		namespace string
		rights    duly.Right
		want      bool
	}{
		{Produce, "a", p, true}, {Produce, "a", c, false}, {Produce, "a", a, true}, {Produce, "*", p, true}, {Produce, "b", p, false}, {Produce, "a", none, false},
		{Either, "a", p, true}, {Either, "a", c, true}, {Either, "a", none, false}, {Admin, "a", p | c, false}, {Admin, "a", a, true},
		{Operator, "a", a, false}, {Operator, "*", a, true}, {Operator, "*", p | c, false}, {Undeclared, "*", a, false},
	} {
		if got := tt.need.Allows(&duly.Token{Namespace: tt.namespace, Rights: tt.rights}, "a"); got != tt.want {
			t.Errorf("%s for %v in %s: %v", tt.need, tt.rights, tt.namespace, got)
		}
	}
	r := newRig(t)
	if _, err := r.Check(t.Context(), Claim{Header: "Bearer " + r.make("*", a)}, Undeclared, "a"); !errors.Is(err, duly.ErrForbidden) {
		t.Errorf("an undeclared route: %v", err)
	}
}

// C4.84, C13.8: a limit is spent in the registry, one that is not set costs
// nothing, and a token that was revoked meanwhile is not known any more.
func TestLimitsAreSpentInTheRegistry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	free, _, err := r.Create(t.Context(), duly.Token{Namespace: "a", Rights: duly.RightProduce})
	if err != nil {
		t.Fatal(err)
	}
	limited, made, err := r.Create(t.Context(), duly.Token{Namespace: "a", Rights: duly.RightProduce, Limits: duly.Limits{Produce: 2, Per: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(secret string) *Pass {
		t.Helper()
		p, err := r.Admit(t.Context(), hashOf(secret))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	f, l := pass(free), pass(limited)
	r.cfg.Limiter = nil // a limit that is not set asks nobody
	for _, none := range []struct {
		p     *Pass
		right duly.Right
	}{{nil, duly.RightProduce}, {f, duly.RightProduce}, {l, duly.RightConsume}, {l, 0}} {
		if window, err := r.Spend(t.Context(), none.p, none.right); err != nil || !window.IsZero() {
			t.Errorf("spent %s, %v", window, err)
		}
	}
	_, err = r.Spend(t.Context(), l, duly.RightProduce)
	r.wants("a limit that nobody counts", err, duly.CodeUnsupported)
	r.cfg.Limiter = r.store
	window, err := r.Spend(t.Context(), l, duly.RightProduce)
	if err != nil || window.IsZero() {
		t.Errorf("spent %s, %v", window, err)
	}
	if _, err := r.Spend(t.Context(), l, duly.RightProduce); err != nil {
		t.Error(err)
	}
	_, err = r.Spend(t.Context(), l, duly.RightProduce)
	r.wants("a third call", err, duly.CodeLimited)
	if err := r.GiveBack(t.Context(), l, duly.RightProduce, window); err != nil {
		t.Error(err)
	}
	if _, err := r.Spend(t.Context(), l, duly.RightProduce); err != nil {
		t.Errorf("after a call was given back: %v", err)
	}
	if err := r.store.DeleteToken(t.Context(), made.Hash); err != nil {
		t.Fatal(err)
	}
	_, err = r.Spend(t.Context(), l, duly.RightProduce)
	r.wants("a call of a revoked token", err, duly.CodeUnauthorized)
}

// X8: an account has the right admin for everything, where that is asked for,
// and nowhere else.
func TestAccountsAreOperators(t *testing.T) {
	t.Parallel()
	ada, err := NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := NewAccount("bob", "battery:staple")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, ada, bob)
	basic := func(credentials string) Claim {
		return Claim{Header: "basic " + base64.StdEncoding.EncodeToString([]byte(credentials))}
	}
	for _, good := range []string{"ada:correct horse", "bob:battery:staple"} {
		p, err := r.Check(t.Context(), basic(good), Operator, "")
		if err != nil || !p.Account() || !strings.HasPrefix(good, strings.TrimPrefix(p.Name(), "account ")+":") {
			t.Errorf("%s: %+v, %v", good, p, err)
			continue
		}
		if release, err := r.Hold(t.Context(), p); err != nil {
			t.Error(err)
		} else {
			release()
		}
	}
	for _, bad := range []string{"ada:battery:staple", "bob:battery", "ada", "ada:", ":correct horse", "", "Ada:correct horse", "ada:correct horse\x00"} {
		_, err := r.Check(t.Context(), basic(bad), Operator, "")
		r.wants(bad, err, duly.CodeUnauthorized)
		if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the credentials are repeated: %v", err)
		}
	}
	for _, need := range []Need{Produce, Consume, Either, Admin} {
		_, err := r.Check(t.Context(), Claim{basic("ada:correct horse").Header, Remote{Peer: "10.0.0.1:1"}}, need, "a")
		r.wants("an account where "+need.String()+" is needed", err, duly.CodeUnauthorized)
	}
	if got := r.Challenges(Operator); len(got) != 2 || !strings.HasPrefix(got[1], "Basic ") || len(r.Challenges(Admin)) != 1 || len(newRig(t).Challenges(Operator)) != 1 {
		t.Errorf("challenges %q", got)
	}
	for _, bad := range [][2]string{{"", "long enough"}, {"a:b", "long enough"}, {"a b", "long enough"}, {"ü", "long enough"}, {"a\n", "long enough"}, {"ada", "short"}, {"ada", ""}} {
		if _, err := NewAccount(bad[0], bad[1]); duly.CodeOf(err) != duly.CodeInvalid || bad[1] != "" && strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if text := fmt.Sprintf("%+v %#v %s", ada, ada, ada); strings.Contains(text, "horse") {
		t.Errorf("an account prints its password: %s", text)
	}
}

// The address is the client's if configured proxies have written it. Each case
// has the lines of X-Forwarded-For, separated by "|".
func TestAddressesAreThoseOfClients(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:80", "", "192.0.2.1"},
		{"192.0.2.1:80", "198.51.100.1", "192.0.2.1"}, // any client can send it
		{"[::ffff:192.0.2.1]:80", "", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:80", "", "2001:db8:1:2::"},
		{"[2001:db8:1:2:8003:4:5:6]:80", "", "2001:db8:1:2::"},
		{"[fe80::1%eth0]:80", "", "fe80::"},
		{"127.0.0.1:80", "198.51.100.1", "127.0.0.1"}, // any local user can send it
		{"[::1]:80", "198.51.100.1", "::"},
		{"10.1.2.3:80", "203.0.113.5, 198.51.100.1", "198.51.100.1"}, // the proxy has written the last one alone
		{"10.1.2.3:80", "203.0.113.5|198.51.100.1", "198.51.100.1"},  // in a line of its own
		{"10.1.2.3:80", "203.0.113.5, 203.0.113.6|198.51.100.1", "198.51.100.1"},
		{"10.1.2.3:80", "203.0.113.5|198.51.100.1|10.1.0.1", "198.51.100.1"},
		{"10.1.2.3:80", "203.0.113.5||198.51.100.1", "198.51.100.1"},
		{"10.1.2.3:80", "203.0.113.5,198.51.100.1 , 10.1.0.1,[fd00::1]", "198.51.100.1"},
		{"10.1.2.3:80", "10.1.0.1", "10.1.0.1"},
		{"10.1.2.3:80", "nonsense", "10.1.2.3"},
		{"10.1.2.3:80", "198.51.100.1, nonsense", "10.1.2.3"},
		{"10.1.2.3:80", "198.51.100.1|", "10.1.2.3"},
		{"10.1.2.3:80", ",,", "10.1.2.3"},
		{"10.2.2.3:80", "198.51.100.1", "10.2.2.3"},
		{"pipe", "198.51.100.1", "invalid IP"},
		{"", "", "invalid IP"},
	} {
		if got := (Remote{tt.peer, strings.Split(tt.forwarded, "|"), proxies}).address().String(); got != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}

	loopback := Remote{"127.0.0.1:80", []string{"198.51.100.1"}, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	if got := loopback.address().String(); got != "198.51.100.1" {
		t.Errorf("a configured proxy on the loopback: %s", got)
	}
}
