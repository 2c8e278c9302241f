package lmstfy

import (
	"testing"

	"pgregory.net/rapid"
)

// Fault X2: the token of a namespace is not valid in another namespace, even if both concatenations
// of namespace and text are equal.
func TestTokenOfANamespaceIsInvalidInOthers(t *testing.T) {
	t.Parallel()
	names, texts := rapid.StringMatching(`[-_A-Za-z0-9]{1,6}`),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab:\x00/ -_é")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "namespace"), names.Draw(t, "another")
		x, y := texts.Draw(t, "token"), texts.Draw(t, "another token")
		if rapid.Bool().Draw(t, "run together") { // the same concatenation, like ab + c and a + bc
			whole := a + b + x
			i, k := rapid.IntRange(1, len(a+b)).Draw(t, "at"), rapid.IntRange(1, len(a+b)).Draw(t, "and at")
			a, x, b, y = whole[:i], whole[i:], whole[:k], whole[k:]
		}
		if (GivenHash(a, x) == GivenHash(b, y)) != (a == b && x == y) {
			t.Fatalf("%q in %q and %q in %q", x, a, y, b)
		}
	})
}
