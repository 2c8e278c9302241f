package lua_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly/redisengine/lua"
)

// command is a script with its file.
type command struct {
	name, first, header, body string
	script                    lua.Script
	includes                  []string
}

func commands(t *testing.T) (all []command) {
	for _, name := range lua.Names() {
		c := command{name: name, script: lua.Load(name)}
		c.first, c.header, c.body = split(read(t, name+".lua"))
		for _, m := range regexp.MustCompile(`(?m)^-- @include(.*)$`).FindAllStringSubmatch(c.header, -1) {
			c.includes = append(c.includes, strings.Fields(m[1])...)
		}
		all = append(all, c)
	}
	return all
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// split splits a file into the line of flags, the header and the body.
func split(text string) (first, header, body string) {
	first, rest, _ := strings.Cut(text, "\n")
	for strings.HasPrefix(rest, "--") {
		line, after, _ := strings.Cut(rest, "\n")
		header += line + "\n"
		rest = after
	}
	return first, header, rest
}

// whole returns the text of a command with its pieces, as written.
func (c *command) whole(t *testing.T) string {
	var b strings.Builder
	for _, piece := range c.includes {
		b.WriteString(read(t, "include/"+piece+".lua"))
	}
	return b.String() + c.body
}

// each runs a test for every command.
func each(t *testing.T, f func(t *testing.T, c command)) {
	for _, c := range commands(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f(t, c)
		})
	}
}

// TestStoringScriptsFailAtFullMemory checks that a script that stores more than it deletes fails at
// full memory, as a whole and before it has written, and that all others run (C11.17).
func TestStoringScriptsFailAtFullMemory(t *testing.T) {
	t.Parallel()
	grows := []string{"push", "update", "queue_put", "topic_publish", "schedule_put", "schedule_fire"}
	writes := regexp.MustCompile(`call\('(` + strings.Join(writing, "|") + `)'`)
	each(t, func(t *testing.T, c command) {
		want := "#!lua flags=allow-oom"
		switch {
		case slices.Contains(grows, c.name):
			want = "#!lua"
		case !writes.MatchString(c.body) && !slices.ContainsFunc(c.includes,
			func(piece string) bool { return slices.Contains(acting, piece) }):
			want = "#!lua flags=no-writes"
		}
		if c.first != want {
			t.Errorf("the first line is %q, want %q", c.first, want)
		}
		if !strings.HasPrefix(c.script.Source, c.first+"\n") {
			t.Error("the sent text does not begin with the first line")
		}
	})
}

// acting are the pieces that a script includes only to write.
var acting = []string{"forward", "wake", "mend", "close", "announce", "queue_entry", "group_close", "topic", "entering"}

// These are the commands that scripts may use, as scripts spell them.
var writing, reading = upper(lua.Writing()), upper(lua.Reading())

func upper(names []string) []string {
	for i := range names {
		names[i] = strings.ToUpper(names[i])
	}
	return names
}

func TestCommandsCannotFail(t *testing.T) {
	t.Parallel()
	used := regexp.MustCompile(`(?:redis\.pcall|\bcall|\bsend)\(('[A-Z]+'|[^)]*)`)
	each(t, func(t *testing.T, c command) {
		text := c.whole(t)
		for _, m := range used.FindAllStringSubmatch(text, -1) {
			name := strings.Trim(m[1], "'")
			known := slices.Contains(writing, name) || slices.Contains(reading, name)
			chosen := strings.HasPrefix(name, "command, ")
			if !known && !chosen {
				t.Errorf("call(%s…) is not in the lists Writing and Reading", m[1])
			}
		}
		if raising := regexp.MustCompile(`\b(error\(|assert\(|error_reply)|\{err\b|'ERR`).FindString(text); raising != "" {
			t.Errorf("%s: a refusal must be a status word, too", raising)
		}
		// A command for which the user may lack the right comes first, in its piece and in the
		// callers of the piece.
		for place, first := range map[string]string{text: "call('PUBLISH'", c.body: "announce()"} {
			before, _, found := strings.Cut(place, first)
			for _, w := range writing {
				if found && strings.Contains(before, "call('"+w+"'") {
					t.Errorf("%s comes before PUBLISH", w)
				}
			}
		}
	})
}

// TestEveryListedCommandIsUsed checks that Open requires no right that no script needs.
func TestEveryListedCommandIsUsed(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, name := range lua.Names() {
		all.WriteString(lua.Load(name).Source)
	}
	for _, name := range slices.Concat(writing, reading) {
		if !strings.Contains(all.String(), "'"+name+"'") {
			t.Errorf("no script calls %s", name)
		}
	}
}

// TestScoresAreExact checks that a score is a number, or a string from %.0f (C11.15). The operator
// .. writes only fourteen digits of a number.
func TestScoresAreExact(t *testing.T) {
	t.Parallel()
	score := regexp.MustCompile(`call\('ZADD',[^\n]*|\bzadd\(\w+, [^,]*,`)
	each(t, func(t *testing.T, c command) {
		text := c.whole(t)
		for _, line := range score.FindAllString(text, -1) {
			if strings.Contains(line, "..") {
				t.Errorf("%s: a score is formatted by ..", line)
			}
		}
		if strings.Contains(text, "tostring") {
			t.Error("tostring keeps only fourteen digits")
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, "..") && strings.Contains(line, "SCORE") &&
				!regexp.MustCompile(`'\(' \.\. (now_text|score|text_of\()`).MatchString(line) {
				t.Errorf("%s: a bound is formatted by ..", strings.TrimSpace(line))
			}
		}
	})
}

// TestLoopsAreBounded checks that the bound of every loop is independent of the number of entries
// in the shard (C11.17).
func TestLoopsAreBounded(t *testing.T) {
	t.Parallel()
	// These are the loops with a condition, each with its bound.
	known := []string{
		"low < high",                          // list: halves what a set holds
		"left >= 5",                           // ulid: the bits of a number
		"parts[at] and seen < tonumber(most)", // check_page: the elements of one page
		"b >= 128 and at <= stop and weight < 2 ^ 21",
		"b >= 128", "at <= stop", // message: the headers of one message
		// Each_left: the messages of a range, at most 1000 and 8 MiB.
		"left > 0 and ordinal <= last",
		"left > 0",                                                // group_list: the same
		"at <= #text", "at <= #p.text", "at + STATE - 1 <= #text", // pages: the states of one page
		"left > 0 and beyond > 0 and passed < 1000 and bytes_read < MOST_READ and not full",
	}
	loop := regexp.MustCompile(`(?m)\b(while|repeat|until)\b *(.*?)(?: do\b|$)`)
	// Counting loops run over a table, a call or a record, or up to a constant.
	steps := regexp.MustCompile(`\bfor \w+ = [^,\n]+, (.*?)(?:, [^,\n]+)? do\b`)
	counted := regexp.MustCompile(`^(#\w+( / \d+ - 1)?|n|k|left|groups|triples|2000|#block\.bits|` +
		`block\.first \+ 8 \* #block\.bits - 1|\d{1,3}|1000|[A-Z_]+( - 1)?|` +
		`2 \* (died|finished) - 1|most|size|jobs|skips \+ 1|math\.min\(.*)$`)
	ranges := regexp.MustCompile(`call\('(ZRANGEBYSCORE|ZRANGEBYLEX|HGETALL|HKEYS|HVALS|SMEMBERS|ZRANGE)'[^\n]*`)
	few := regexp.MustCompile(`ZRANGE', .*, ('0'|0|start|middle), (0|'0'|999|middle|start \+ most - 1|` +
		`text_of\((most|(most|n|free) - 1)\))[,)]|` +
		`call\('ZRANGEBYSCORE', delayed, '-inf', now\)\) do|call\('HGETALL', heads\)|` +
		`'0', '(0|999)'|'0', text_of\(left - 1\)|'BYSCORE', 'REV', 'LIMIT'|text_of\(start \+ (most|PAGE) - 1\)`)
	each(t, func(t *testing.T, c command) {
		text := uncommented(c.whole(t))
		for _, m := range loop.FindAllStringSubmatch(text, -1) {
			if m[1] != "while" || !slices.Contains(known, strings.TrimSpace(m[2])) {
				t.Errorf("%s: this loop has no known bound", strings.TrimSpace(m[0]))
			}
		}
		for _, m := range steps.FindAllStringSubmatch(text, -1) {
			if !counted.MatchString(m[1]) {
				t.Errorf("%s: this loop has no known bound", m[0])
			}
		}
		for _, line := range ranges.FindAllString(text, -1) {
			if !strings.Contains(line, "'LIMIT'") && !few.MatchString(line) {
				t.Errorf("%s: this range has no known bound", line)
			}
		}
		for _, m := range regexp.MustCompile(`\b\d{4,}\b`).FindAllString(strings.Join(ranges.FindAllString(text, -1), "\n"),
			-1) {
			if m != "1000" {
				t.Errorf("a range of %s elements is larger than 1000", m)
			}
		}
	})
}

func uncommented(text string) string {
	return regexp.MustCompile(`(?m)(^| )--.*$`).ReplaceAllString(text, "")
}

// TestHeadersFitBodies checks that keys and arguments are used by their names in the header. Only
// repeated ones are read by index (C11.17).
func TestHeadersFitBodies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c command) {
		text := uncommented(c.whole(t))
		for kind, names := range map[string][]string{"KEYS": c.script.Keys, "ARGV": c.script.Args} {
			used := 0
			for _, name := range names {
				if regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
					used++
				} else if !c.everyKey() || kind == "ARGV" {
					t.Errorf("%s has %s, which is not used", kind, name)
				}
			}
			repeats := regexp.MustCompile(`(?m)^-- *(` + kind + `  +)?(then |\()`).MatchString(section(c.header, kind))
			for _, m := range regexp.MustCompile(kind+`\[(.*?)\]`).FindAllStringSubmatch(text, -1) {
				if !repeats {
					t.Errorf("%s: use a name in the header instead of the index", m[0])
				}
			}
		}
		if lines := strings.Count(c.body, "\n"); lines > 400 {
			t.Errorf("the body has %d lines, at most 400 are allowed: move a part to a piece", lines)
		}
		if !strings.Contains(section(c.header, "RETURNS"), "{") {
			t.Error("the header does not say what the script answers")
		}
	})
}

// everyKey reports whether the command names all keys of a shard. Scripts that share pieces share
// their keys.
func (c *command) everyKey() bool { return len(c.script.Keys) >= 16 }

// section returns the part of a header that begins with a word.
func section(header, word string) string {
	m := regexp.MustCompile(`(?s)-- ` + word + `\b.*?(-- (KEYS|ARGV|RETURNS|@include)|$)`).FindStringSubmatch(header)
	if m == nil {
		return ""
	}
	return strings.TrimSuffix(m[0], m[1])
}

// TestIncludesAreUsed checks that every included piece is used, and that every used name is
// declared.
func TestIncludesAreUsed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c command) {
		texts := make([]string, 0, len(c.includes)+1)
		for _, piece := range c.includes {
			texts = append(texts, uncommented(read(t, "include/"+piece+".lua")))
		}
		texts = append(texts, uncommented(c.body))
		for i, piece := range c.includes {
			declared := declared(texts[i])
			later := strings.Join(texts[i+1:], "\n")
			uses := func(name string) bool { return regexp.MustCompile(`\b` + name + `\b`).MatchString(later) }
			if len(declared) > 0 && !slices.ContainsFunc(declared, uses) {
				t.Errorf("the piece %s is not used", piece)
			}
		}
		for _, name := range unknown(c.script.Source) {
			t.Errorf("%s is not declared: include its piece", name)
		}
	})
}

// declared returns the locals of a piece that others may use.
func declared(text string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:,\s*\w+)*)`).FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// globals are the names that a script can use without declaring them, and Lua's keywords.
var globals = strings.Fields(`redis cmsgpack struct string table math tonumber type ipairs pairs next pcall unpack KEYS ARGV
	and break do else elseif end false for function if in local nil not or repeat return then true until while`)

// unknown returns the names that are used outside the scope of their declaration.
func unknown(source string) (names []string) {
	_, body, _ := strings.Cut(source, "\n")
	tokens := luaToken.FindAllString(body, -1)
	scopes := []map[string]bool{{}}
	declare := func(name string) { scopes[len(scopes)-1][name] = true }
	open := func(declared []string) {
		scopes = append(scopes, map[string]bool{})
		for _, name := range declared {
			declare(name)
		}
	}
	use := func(name string) {
		inScope := func(s map[string]bool) bool { return s[name] }
		if !slices.Contains(globals, name) && !slices.Contains(names, name) && !slices.ContainsFunc(scopes, inScope) {
			names = append(names, name)
		}
	}
	// list returns the names from a token up to the last one before an end, and the index of the end.
	list := func(i int, ends ...string) ([]string, int) {
		from := i
		for !slices.Contains(ends, tokens[i]) {
			i++
		}
		return tokens[from:i], i
	}

	var variables, brackets []string // of a for until its do; open ones
	tokens = append([]string{"", ""}, append(tokens, "", "")...)
	for i := 2; i < len(tokens)-2; i++ {
		switch token := tokens[i]; token {
		case "{", "(", "[":
			brackets = append(brackets, token)
		case "}", ")", "]":
			brackets = brackets[:len(brackets)-1]

		case "for":
			variables, i = list(i+1, "=", "in")
		case "do", "then", "repeat":
			open(variables)
			variables = nil
		case "end", "elseif", "else", "until":
			scopes = scopes[:len(scopes)-1]
			if token == "else" {
				open(nil)
			}

		case "local":
			if tokens[i+1] == "function" {
				declare(tokens[i+2])
				continue
			}
			for declare(tokens[i+1]); tokens[i+2] == ","; declare(tokens[i+1]) {
				i += 2
			}
			i++
		case "function":
			name, opening := list(i+1, "(")
			if len(name) > 0 {
				use(name[0])
			}
			var parameters []string
			parameters, i = list(opening+1, ")")
			open(parameters)

		default:
			isName := token[0] == '_' || token[0]|0x20 >= 'a' && token[0]|0x20 <= 'z'
			isField := tokens[i-1] == ":" || tokens[i-1] == "." && tokens[i-2] != "."
			isKey := len(brackets) > 0 && brackets[len(brackets)-1] == "{" && tokens[i+1] == "=" && tokens[i+2] != "="
			if isName && !isField && !isKey {
				use(token)
			}
		}
	}
	return names
}

// TestUndeclaredNamesAreFound checks that unknown finds undeclared names.
func TestUndeclaredNamesAreFound(t *testing.T) {
	t.Parallel()
	if got := unknown("#!lua\nlocal a = b(c, 'd e')\nfor i, v in ipairs(a) do f{x = v} end"); !slices.Equal(got,
		[]string{"b", "c", "f"}) {
		t.Errorf("unknown returned %v", got)
	}
	if got := unknown("#!lua\nlocal f\ndo\nlocal a, b = 1\nfunction f(c, d) return a .. b .. c end\nend\n" +
		"if a then local g = 1 elseif g then f() else g = 2 end\nlocal function h(i) if i then return j end end\nb.k = d"); !slices.Equal(
		got, []string{"a", "g", "j", "b", "d"}) {
		t.Errorf("unknown returned %v", got)
	}
	if got := declared("local a, b = 1\nlocal function c(d)\n  local e = 1\nend\nlocal f,\n  g\n"); !slices.Equal(got,
		[]string{"a", "b", "c", "f", "g"}) {
		t.Errorf("declared returned %v", got)
	}
}
