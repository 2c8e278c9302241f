package auth

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dulymq/duly/contract"
)

// similarNames draws a name, and a second name that looks like it.
func similarNames(t *rapid.T) (a, b string) {
	name := rapid.StringMatching(`[-_A-Za-z0-9][A-Za-z0-9._-]{0,12}`)
	a = name.Draw(t, "name")
	rest := rapid.StringMatching(`[A-Za-z0-9._-]{0,3}`).Draw(t, "rest")
	b = rapid.SampledFrom([]string{
		a, a + rest, rest + a, a[:len(a)-1], a[1:], strings.ToUpper(a), strings.ToLower(a), a + "/" + rest, a + "%2f" + rest,
		a + "\x00", "{" + a + "}", a + "*", "*", "", a + ".", a + "/.", "../" + a, strings.ReplaceAll(a, "a", "а"),
		name.Draw(t, "other"),
	}).Draw(t, "another")
	return a, b
}

// Fault X2: a token gives access only to its own namespace, however similar the names are. Two
// different texts are two tokens. The long form of the test tries a million pairs.
func TestTokenOpensOnlyItsOwnNamespace(t *testing.T) {
	t.Parallel()
	pairs := 500
	if long() {
		pairs = 10_000
	}
	rapid.Check(t, func(t *rapid.T) { // rapid calls the function a hundred times
		for range pairs {
			a, b := similarNames(t)
			token := &contract.Token{Namespace: a, Rights: contract.RightAdmin}
			for _, access := range []Access{Produce, Consume, Either, Admin} {
				if access.Allows(token, b) != (a == b) {
					t.Fatalf("a token of %q has access %s in %q: %v", a, access, b, access.Allows(token, b))
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
		if i := rapid.IntRange(len(Prefix), secretLen-1).Draw(t, "at"); rapid.Bool().Draw(t, "near") {
			b = a[:i] + b[i:i+1] + a[i+1:]
		}
		ha, ok1 := Hash(a)
		hb, ok2 := Hash(b)
		if !ok1 || !ok2 || (ha == hb) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}
