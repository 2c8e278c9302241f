package lua_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeysAreNotDerived checks that every key that a script accesses is in KEYS (C11.14). No key
// is computed, and none is an argument.
func TestKeysAreNotDerived(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c command) {
		for _, key := range keysOf(c.whole(t)) {
			if fault := derived(key, c.script.Args); fault != "" {
				t.Errorf("the key %s %s", key, fault)
			}
		}
	})
}

// derived returns why an expression is not a key from KEYS, or "".
func derived(key string, args []string) string {
	switch {
	case strings.Contains(key, ".."), strings.Contains(key, "format"):
		return "is put together"
	case strings.ContainsAny(key, `'"`):
		return "is a constant"
	case key == "ARGV" || slices.Contains(args, key) || strings.HasPrefix(key, "ARGV["):
		return "is an argument"
	}
	return ""
}

// keysOf returns the first arguments of the commands, as they are written.
func keysOf(text string) (keys []string) {
	call := regexp.MustCompile(`\bp?call\((?:'[A-Z]+'|command), *((?:[^,()]|\([^()]*\))+)`)
	for _, m := range call.FindAllStringSubmatch(uncommented(text), -1) {
		keys = append(keys, strings.TrimSpace(m[1]))
	}
	return keys
}

func TestDerivedKeysAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`call('GET', config)`:                            "",
		`local x = call('HGET', set[state], field .. 1)`: "",
		`call('UNLINK', unpack(KEYS))`:                   "",
		`call('GET', prefix .. ':config')`:               "is put together",
		`call('GET', 'duly:x')`:                          "is a constant",
		`redis.pcall('HSCAN', id, cursor)`:               "is an argument",
		`call(command, ARGV[3], cursor)`:                 "is an argument",
	} {
		keys := keysOf(text)
		if len(keys) != 1 || derived(keys[0], []string{"id"}) != want {
			t.Errorf("%s: keys %q, want one that %s", text, keys, want)
		}
	}
}
