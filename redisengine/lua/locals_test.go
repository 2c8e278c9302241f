package lua_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly/redisengine/lua"
)

// TestScriptsStayBelowTheLimitOfLocals checks that no script has more than 200 locals at once, the limit of a
// Lua function. The library and the EVAL form of a script are one function each, and the tests
// add a few.
func TestScriptsStayBelowTheLimitOfLocals(t *testing.T) {
	t.Parallel()
	const most = 195
	check := func(name, source string) {
		if n := mostLocals(source); n > most {
			t.Errorf("%s has %d locals at once, at most %d: put helpers between do and end", name, n, most)
		}
	}
	for _, l := range lua.Libraries() {
		check(l.Name, l.Source)
	}
	for _, name := range lua.Names() {
		check(name, lua.Load(name).Source)
	}
}

var luaToken = regexp.MustCompile(`'(?:\\.|[^'\\])*'|\w+|[^\s\w]`)

// mostLocals returns the largest number of live locals of the main function.
func mostLocals(source string) (most int) {
	_, body, _ := strings.Cut(source, "\n")
	tokens := luaToken.FindAllString(body, -1)
	alive, functions := []int{0}, 0 // by block
	var blocks []bool               // nested blocks of the main function: whether a function opened each

	for i := 0; i < len(tokens); i++ {
		switch token := tokens[i]; token {
		case "function", "do", "if":
			if blocks = append(blocks, token == "function"); token == "function" {
				functions++
			}
			alive = append(alive, alive[len(alive)-1])
		case "end":
			if blocks[len(blocks)-1] {
				functions--
			}
			blocks, alive = blocks[:len(blocks)-1], alive[:len(alive)-1]
		case "local":
			if functions > 0 {
				continue
			}
			names := 1
			if tokens[i+1] != "function" {
				for at := i + 2; at < len(tokens) && tokens[at] == ","; at += 2 {
					names++
				}
			}
			alive[len(alive)-1] += names
			most = max(most, slices.Max(alive))
		}
	}
	return most
}

func TestLocalsAreCounted(t *testing.T) {
	t.Parallel()
	const source = "#!lua\nlocal a, b = 1, 'local c'\nlocal function f(x)\n  local y\n  if y then return end\nend\n" +
		"do\nlocal g\nlocal h, i\nend\nfor j = 1, 2 do local k end\nlocal l\n"
	if n := mostLocals(source); n != 6 {
		t.Errorf("got %d locals, want 6", n)
	}
}
