package lua

import (
	"strings"
	"testing"
)

// Load panics with what parseScript says of a script that does not fit its header.
func TestParseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const whole = "#!lua\n-- KEYS    a\n-- ARGV    b  what it is\n-- RETURNS {}\n--\n-- @include now\nreturn {a, b}\n"
	if _, err := parseScript("x", whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, says string }{
		{"#!lua", "--", "the first line"},
		{"KEYS", "keys", "the header lacks"},
		{"RETURNS", "returns", "the header lacks"},
		{"    a\n", "    A1\n", `"A1" is no name`},
		{"    b  ", "    b, c  ", `"b," is no name`},
		{"@include now", "@include noon", "there is no piece noon"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if _, err := parseScript("x", text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("of %q it says %v, want %q", text, err, c.says)
		}
	}
}
