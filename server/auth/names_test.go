package auth

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
)

// alike draws a name, and another one that somebody could take for it.
func alike(t *rapid.T) (a, b string) {
	name := rapid.StringMatching(`[-_A-Za-z0-9][A-Za-z0-9._-]{0,12}`)
	a = name.Draw(t, "name")
	rest := rapid.StringMatching(`[A-Za-z0-9._-]{0,3}`).Draw(t, "rest")
	b = rapid.SampledFrom([]string{a, a + rest, rest + a, a[:len(a)-1], a[1:], strings.ToUpper(a), strings.ToLower(a), a + "/" + rest, a + "%2f" + rest,
		a + "\x00", "{" + a + "}", a + "*", "*", "", a + ".", a + "/.", "../" + a, strings.ReplaceAll(a, "a", "а"), name.Draw(t, "other")}).Draw(t, "another")
	return a, b
}

// X2, TokenNamesInjective: a token opens its own namespace and no other,
// however alike the names; and two texts are two tokens. A million pairs in the
// long form.
func TestX2TokenNamesInjective(t *testing.T) {
	t.Parallel()
	pairs := 500
	if long() {
		pairs = 10_000
	}
	rapid.Check(t, func(t *rapid.T) { // a hundred times
		for range pairs {
			a, b := alike(t)
			token := &duly.Token{Namespace: a, Rights: duly.RightAdmin}
			for _, need := range []Need{Produce, Consume, Either, Admin} {
				if need.Allows(token, b) != (a == b) {
					t.Fatalf("a token of %q in %q, where %s is needed: %v", a, b, need, need.Allows(token, b))
				}
			}
			if Operator.Allows(token, b) {
				t.Fatalf("a token of %q is an operator's", a)
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z0-9_-]{43}`)
		a, b := Prefix+text.Draw(t, "a"), Prefix+text.Draw(t, "b")
		if i := rapid.IntRange(len(Prefix), secretText-1).Draw(t, "at"); rapid.Bool().Draw(t, "near") {
			b = a[:i] + b[i:i+1] + a[i+1:]
		}
		ha, ok1 := Hash(a)
		hb, ok2 := Hash(b)
		if !ok1 || !ok2 || (ha == hb) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}
