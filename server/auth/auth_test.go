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
	"github.com/dulymq/duly/contract"
)

// Fault X3: tokens have 256 random bits and the prefix, and no two are equal.
func TestTokensAreRandom(t *testing.T) {
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
			t.Fatalf("Hash refuses %q", s)
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

	for i, k := range ones { // ten standard deviations, which never occur by chance
		if k < n/2-224 || k > n/2+224 {
			t.Errorf("bit %d is set in %d of %d tokens", i, k, n)
		}
	}
}

// Fault X3: the store gets only the hash of a token.
func TestOnlyTheHashIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.create("a", contract.RightProduce)
	page, err := r.store.Tokens(t.Context(), "", duly.PageParams{})
	if err != nil || len(page.Tokens) != 1 {
		t.Fatal(page, err)
	}
	if stored := fmt.Sprintf("%+v %s", page, page.Tokens[0].Hash); strings.Contains(stored, secret[5:20]) {
		t.Errorf("the secret is stored: %s", stored)
	}
}

// Fault X5: a string that cannot be a token causes no look-up.
func TestMalformedTokensCauseNoLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.create("a", contract.RightProduce)
	for i, header := range []string{
		"", "Bearer", "Bearer ", "Basic " + good, good, "Bearer " + good[1:], "Bearer " + good + "x", "Bearer  " + good,
		"Bearer " + good[:47] + "=", "Bearer duly_" + strings.Repeat("\x00", 43), "Bearer DULY_" + good[5:],
		"Bearer " + strings.Repeat("x", 10_000),
	} {
		from := Remote{Peer: fmt.Sprintf("10.0.0.%d:1", i)}
		_, err := r.Check(t.Context(), Credentials{header, from}, Produce, "a")
		if !errors.Is(err, duly.ErrUnauthorized) || strings.Contains(err.Error(), good[6:20]) {
			t.Errorf("%.60q: %v", header, err)
		}
	}
	if n := r.store.lookups(); n != 0 {
		t.Errorf("%d look-ups", n)
	}
	if _, err := r.Check(t.Context(), Credentials{Header: "bearer " + good}, Produce, "a"); err != nil {
		t.Errorf("a scheme in lower case: %v", err)
	}
}

// C1.2, C14.26, C14.27: the access that rights give in a namespace.
func TestRightsGiveAccessInTheirNamespace(t *testing.T) {
	t.Parallel()
	const none, p, c, a = contract.Right(0), contract.RightProduce, contract.RightConsume, contract.RightAdmin
	for _, tt := range []struct {
		access    Access
		namespace string
		rights    contract.Right
		want      bool
	}{
		{Produce, "a", p, true}, {Produce, "a", c, false}, {Produce, "a", a, true}, {Produce, "*", p, true},
		{Produce, "b", p, false}, {Produce, "a", none, false},
		{Either, "a", p, true}, {Either, "a", c, true}, {Either, "a", none, false},
		{Admin, "a", p | c, false}, {Admin, "a", a, true},
		{Operator, "a", a, false}, {Operator, "*", a, true}, {Operator, "*", p | c, false}, {Undeclared, "*", a, false},
	} {
		if got := tt.access.Allows(&contract.Token{Namespace: tt.namespace, Rights: tt.rights}, "a"); got != tt.want {
			t.Errorf("%s for %v in %s: %v", tt.access, tt.rights, tt.namespace, got)
		}
	}

	r := newRig(t)
	_, err := r.Check(t.Context(), Credentials{Header: "Bearer " + r.create("*", a)}, Undeclared, "a")
	r.wantCode("an undeclared route", err, duly.CodeForbidden)
}

// C4.84, C13.8: Spend counts a call in the registry. For a token without a limit it counts nothing.
// For a revoked token it returns unauthorized.
func TestSpendCountsCallsOfALimitedToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	free, _, err := r.Create(t.Context(), contract.Token{Namespace: "a", Rights: contract.RightProduce})
	if err != nil {
		t.Fatal(err)
	}
	limited, created, err := r.Create(t.Context(), contract.Token{
		Namespace: "a", Rights: contract.RightProduce, Limits: contract.Limits{Produce: 2, Per: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	admit := func(secret string) *Grant {
		t.Helper()
		p, err := r.Admit(t.Context(), hashOf(secret))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	f, l := admit(free), admit(limited)

	r.cfg.Limiter = nil // without a limit, Spend does not call the Limiter
	for _, none := range []struct {
		p     *Grant
		right contract.Right
	}{{nil, contract.RightProduce}, {f, contract.RightProduce}, {l, contract.RightConsume}, {l, 0}} {
		if window, err := r.Spend(t.Context(), none.p, none.right); err != nil || !window.IsZero() {
			t.Errorf("spent %s, %v", window, err)
		}
	}
	_, err = r.Spend(t.Context(), l, contract.RightProduce)
	r.wantCode("a limit without a Limiter", err, duly.CodeUnsupported)

	r.cfg.Limiter = r.store
	window, err := r.Spend(t.Context(), l, contract.RightProduce)
	if err != nil || window.IsZero() {
		t.Errorf("spent %s, %v", window, err)
	}
	if _, err := r.Spend(t.Context(), l, contract.RightProduce); err != nil {
		t.Error(err)
	}
	_, err = r.Spend(t.Context(), l, contract.RightProduce)
	r.wantCode("a third call", err, duly.CodeLimited)

	if err := r.GiveBack(t.Context(), l, contract.RightProduce, window); err != nil {
		t.Error(err)
	}
	if _, err := r.Spend(t.Context(), l, contract.RightProduce); err != nil {
		t.Errorf("after a call was given back: %v", err)
	}

	if err := r.store.DeleteToken(t.Context(), created.Hash); err != nil {
		t.Fatal(err)
	}
	_, err = r.Spend(t.Context(), l, contract.RightProduce)
	r.wantCode("a call of a revoked token", err, duly.CodeUnauthorized)
}

// Fault X8: an account has the access Operator and no other access.
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
	basic := func(credentials string) Credentials {
		return Credentials{Header: "basic " + base64.StdEncoding.EncodeToString([]byte(credentials))}
	}
	for _, good := range []string{"ada:correct horse", "bob:battery:staple"} {
		p, err := r.Check(t.Context(), basic(good), Operator, "")
		if err != nil || !p.Account() || !strings.HasPrefix(good, strings.TrimPrefix(p.Name(), "account ")+":") {
			t.Errorf("%s: %+v, %v", good, p, err)
			continue
		}

		if release, err := r.Track(t.Context(), p); err != nil {
			t.Error(err)
		} else {
			release()
		}
	}

	for _, bad := range []string{
		"ada:battery:staple", "bob:battery", "ada", "ada:", ":correct horse", "", "Ada:correct horse",
		"ada:correct horse\x00",
	} {
		_, err := r.Check(t.Context(), basic(bad), Operator, "")
		r.wantCode(bad, err, duly.CodeUnauthorized)
		if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the credentials are repeated: %v", err)
		}
	}
	for _, access := range []Access{Produce, Consume, Either, Admin} {
		c := Credentials{basic("ada:correct horse").Header, Remote{Peer: "10.0.0.1:1"}}
		_, err := r.Check(t.Context(), c, access, "a")
		r.wantCode("an account on a route that requires "+access.String(), err, duly.CodeUnauthorized)
	}
	got := r.Challenges(Operator)
	if len(got) != 2 || !strings.HasPrefix(got[1], "Basic ") || len(r.Challenges(Admin)) != 1 ||
		len(newRig(t).Challenges(Operator)) != 1 {
		t.Errorf("challenges %q", got)
	}

	if text := fmt.Sprintf("%+v %#v %s", ada, ada, ada); strings.Contains(text, "horse") {
		t.Errorf("an account prints its password: %s", text)
	}
}

func TestNewAccountRefusesBadNamesAndPasswords(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{
		{"", "long enough"}, {"a:b", "long enough"}, {"a b", "long enough"}, {"ü", "long enough"}, {"a\n", "long enough"},
		{"ada", "short"}, {"ada", ""},
	} {
		_, err := NewAccount(bad[0], bad[1])
		if duly.CodeOf(err) != duly.CodeInvalid || bad[1] != "" && strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Remote.address returns the client's address if a configured proxy has written it into the header.
// Each case has the lines of X-Forwarded-For, separated by "|".
func TestAddressComesFromAConfiguredProxy(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:80", "", "192.0.2.1"},
		{"192.0.2.1:80", "198.51.100.1", "192.0.2.1"}, // any client can send this header
		{"[::ffff:192.0.2.1]:80", "", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:80", "", "2001:db8:1:2::"},
		{"[2001:db8:1:2:8003:4:5:6]:80", "", "2001:db8:1:2::"},
		{"[fe80::1%eth0]:80", "", "fe80::"},
		{"127.0.0.1:80", "198.51.100.1", "127.0.0.1"}, // any local user can send this header
		{"[::1]:80", "198.51.100.1", "::"},
		// The proxy has written only the last address.
		{"10.1.2.3:80", "203.0.113.5, 198.51.100.1", "198.51.100.1"},
		// The proxy has written its address in a separate line.
		{"10.1.2.3:80", "203.0.113.5|198.51.100.1", "198.51.100.1"},
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

	onLoopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	loopback := Remote{"127.0.0.1:80", []string{"198.51.100.1"}, onLoopback}
	if got := loopback.address().String(); got != "198.51.100.1" {
		t.Errorf("a configured proxy on the loopback: %s", got)
	}
}
