package lua

import (
	"strings"
	"testing"
)

// TestParseNamesTheMistake checks the errors for a script that does not match its header. Load
// panics with them.
func TestParseNamesTheMistake(t *testing.T) {
	t.Parallel()
	const whole = "#!lua\n-- KEYS    a\n-- ARGV    b  what it is\n-- RETURNS {}\n--\n-- @include now\nreturn {a, b}\n"
	if _, err := parseScript("x", whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, says string }{
		{"#!lua", "--", "the first line"},
		{"KEYS", "keys", "the header lacks"},
		{"RETURNS", "returns", "the header lacks"},
		{"    a\n", "    A1\n", `invalid name "A1"`},
		{"    b  ", "    b, c  ", `invalid name "b,"`},
		{"@include now", "@include noon", "unknown piece noon"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if _, err := parseScript("x", text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("parseScript(%q) returned %v, want %q", text, err, c.says)
		}
	}
}

// TestHeadersContinue checks that a header may continue in further lines: names, a group of names in
// parentheses, the description of a name, and the pieces.
func TestHeadersContinue(t *testing.T) {
	t.Parallel()
	s, err := parseScript("x", `#!lua
-- KEYS    a b
--         c (d
--         e)...
-- ARGV    f  what it is,
--            in two lines
--         g  another
--         then more
-- RETURNS {}
--
-- @include now
-- @include clock
return {a, b, c, f, g}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  []string
		want string
	}{
		{"keys", s.keys.fixed, "a b c"},
		{"repeated keys", s.keys.group, "d e"},
		{"arguments", s.args.fixed, "f g"},
		{"pieces", s.includes, "now clock"},
	} {
		if got := strings.Join(c.got, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}
