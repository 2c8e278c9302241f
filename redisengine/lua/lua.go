// Package lua has the Lua source of the Redis engine and assembles it.
//
// A script is one command in one file. Its header says what the command does, names its keys and
// arguments in their order, and describes its answer:
//
//	#!lua flags=allow-oom
//	-- Removes the first jobs of one state's set.
//	--
//	-- KEYS    config records …
//	-- ARGV    clock version limits  as in reserve
//	--         state  whose set
//	--         then …
//	-- RETURNS {'ok', removed, left}
//	--
//	-- @include guard now …
//
// The names of KEYS and ARGV become locals, so header and code can't differ. A name in
// parentheses means keys or arguments that repeat. The script reads those itself, like the
// arguments after "then". Pieces that scripts share are in include/.
//
// A line "-- @call" divides a piece or a script. The text above it defines functions and
// constants. The text below it runs at every call, and sets every variable of the call. A piece
// names the arguments that it reads in a line "-- @args". If a piece has a line "-- @answer f", each
// script that includes it returns f(answer) instead of its answer. A return in a piece before it does
// not go through f.
//
// A script and its pieces have call for redis.call, and byte for string.byte, which the loops
// over jobs use most.
//
// The same files have two forms. [Script.Source] is one complete script, for EVAL. A [Library]
// registers all scripts of one concern as functions. Redis then runs the definitions once, when
// the library is loaded, and not at each call.
package lua

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.lua include/*.lua
var files embed.FS

// Script is one command that can be sent.
type Script struct {
	Name string
	// Source is the text for EVAL.
	Source string
	// Keys and Args are the names of the header, in their order, without the repeated ones.
	Keys, Args []string
	// ReadOnly scripts have the flag no-writes.
	ReadOnly bool
	// Library contains the script as the function with the name Function.
	Library  *Library
	Function string

	keysRepeat, argsRepeat bool // more may follow
}

// Takes reports whether the header allows these numbers of keys and arguments.
func (s *Script) Takes(keys, args int) bool {
	return (keys == len(s.Keys) || s.keysRepeat && keys > len(s.Keys)) &&
		(args == len(s.Args) || s.argsRepeat && args > len(s.Args))
}

// Load returns a script by its name. It panics if the script does not match its header, a mistake
// that the tests of this package find.
func Load(name string) Script {
	text, err := readScript(name)
	if err != nil {
		panic(err)
	}
	s := text.script()
	s.Library = libraryOf(name)
	s.Function = s.Library.function(name)
	return s
}

// Names returns the names of all scripts.
func Names() (list []string) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".lua"); ok {
			list = append(list, name)
		}
	}
	return list
}

// scriptText is the text of a script, in parts.
type scriptText struct {
	name, first string // the first line has the flags
	keys, args  names
	includes    []string
	define, run string // above and below @call
}

var (
	headerKeys = regexp.MustCompile(`(?ms)^-- KEYS +(.*?)^-- ARGV`)
	headerArgs = regexp.MustCompile(`(?ms)^-- ARGV +(.*?)^-- RETURNS`)
	include    = regexp.MustCompile(`(?m)^-- @include(.*)$`)
	flags      = regexp.MustCompile(`flags=([a-z-]+)`)
	isName     = regexp.MustCompile(`^[a-z_]+$`)
)

func readScript(name string) (*scriptText, error) {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		return nil, err
	}
	return parseScript(name, string(text))
}

func parseScript(name, text string) (s *scriptText, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "#!lua") {
		return nil, fmt.Errorf("lua: %s: the first line does not begin with #!lua", name)
	}
	header, body := splitHeader(rest)
	keys, args := headerKeys.FindStringSubmatch(header), headerArgs.FindStringSubmatch(header)
	if keys == nil || args == nil {
		return nil, fmt.Errorf("lua: %s: the header lacks KEYS, ARGV or RETURNS", name)
	}

	s = &scriptText{name: name, first: first}
	if s.keys, err = parseNames(keys[1]); err != nil {
		return nil, fmt.Errorf("lua: %s: %w", name, err)
	}
	if s.args, err = parseNames(args[1]); err != nil {
		return nil, fmt.Errorf("lua: %s: %w", name, err)
	}
	s.includes = includesOf(header)
	for _, name := range s.includes {
		if _, ok := pieces()[name]; !ok {
			return nil, fmt.Errorf("lua: %s: unknown piece %s", s.name, name)
		}
	}

	var divided bool
	// Without a division, all of the text runs at every call.
	if s.define, s.run, divided = cutCall(body); !divided {
		s.define, s.run = "", s.define
	}
	return s, nil
}

// includesOf returns the pieces that the @include lines of a header name, in order.
func includesOf(header string) (list []string) {
	for _, line := range include.FindAllStringSubmatch(header, -1) {
		list = append(list, strings.Fields(line[1])...)
	}
	return list
}

// readOnly reports whether the script has the flag no-writes.
func (s *scriptText) readOnly() bool { return strings.Contains(s.first, "no-writes") }

// script returns the form for EVAL: all that the script needs, in one text.
func (s *scriptText) script() Script {
	var b strings.Builder
	b.WriteString(s.first + "\nlocal byte = string.byte\nlocal call = redis.call\n")
	s.keys.declare(&b)
	s.args.declare(&b)
	s.keys.assign(&b, "KEYS")
	s.args.assign(&b, "ARGV")

	answer, before, after := s.runs()
	for _, name := range s.includes {
		b.WriteString(pieces()[name].define)
	}
	b.WriteString(s.define)
	if answer != "" {
		b.WriteString("local function answer()\n" + after + "end\n")
		after = "return " + answer + "(answer())\n"
	}
	b.WriteString(before + after)

	return Script{
		Name: s.name, Source: b.String(), Keys: s.keys.fixed, Args: s.args.fixed,
		ReadOnly: s.readOnly(), keysRepeat: s.keys.repeat, argsRepeat: s.args.repeat,
	}
}

// runs returns the text of the pieces and of the script that runs at every call, divided after the
// last piece with an @answer. The answer of the part after goes through the function answer. Without
// such a piece, answer and the part before are empty.
func (s *scriptText) runs() (answer, before, after string) {
	for _, name := range s.includes {
		piece := pieces()[name]
		if piece.answer == "" {
			after += piece.run
			continue
		}
		answer, before, after = piece.answer, before+after+piece.run, ""
	}
	return answer, before, after + s.run
}

// piece is a file of include/.
type piece struct {
	args        []string // the arguments that it reads
	answer      string   // the function of @answer, "" for none
	define, run string
}

var (
	pieceArgs   = regexp.MustCompile(`(?m)^-- @args(.*)$`)
	pieceAnswer = regexp.MustCompile(`(?m)^-- @answer (.*)$`)
)

// pieces has the files of include/, by name.
var pieces = sync.OnceValue(func() map[string]piece {
	entries, err := files.ReadDir("include")
	if err != nil {
		panic(err)
	}
	all := map[string]piece{}
	for _, e := range entries {
		text, err := files.ReadFile("include/" + e.Name())
		if err != nil {
			panic(err)
		}
		var p piece
		if m := pieceArgs.FindSubmatch(text); m != nil {
			p.args = strings.Fields(string(m[1]))
		}
		if m := pieceAnswer.FindSubmatch(text); m != nil {
			p.answer = string(m[1])
		}
		p.define, p.run, _ = cutCall(string(text))
		all[strings.TrimSuffix(e.Name(), ".lua")] = p
	}
	return all
})

// cutCall divides a string at its line @call, and strips both parts.
func cutCall(text string) (define, run string, divided bool) {
	define, run, divided = strings.Cut(text, "-- @call\n")
	return strip(define), strip(run), divided
}

// splitHeader splits a string after its leading comment.
func splitHeader(text string) (header, body string) {
	for strings.HasPrefix(text, "--") {
		line, rest, _ := strings.Cut(text, "\n")
		header += line + "\n"
		text = rest
	}
	return header, text
}

// names are the keys or the arguments of a script.
type names struct {
	fixed  []string
	group  []string // repeated keys, which the script reads itself
	repeat bool     // more may follow
}

// continued begins a header line that continues the description of a name. The names themselves
// are indented less.
const continued = "--          "

// parseNames reads the names of a KEYS or ARGV section of a header.
func parseNames(text string) (n names, err error) {
	for rest := text; rest != "" && !n.repeat; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		// Only lines with names have less indentation.
		if strings.HasPrefix(line, continued) {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "--"))
		if n.repeat = strings.HasPrefix(line, "then "); line == "" || n.repeat {
			break
		}

		line, _, _ = strings.Cut(line, "  ")
		line, group, repeats := strings.Cut(" "+line, " (")
		for name := range strings.FieldsSeq(line) {
			if !isName.MatchString(name) {
				return names{}, fmt.Errorf("invalid name %q in %q", name, line)
			}
			n.fixed = append(n.fixed, name)
		}
		// The group ends in this line or in a later one.
		if n.repeat = repeats; repeats {
			group, _, _ = strings.Cut(group+" "+rest, ")")
			n.group = strings.Fields(strings.ReplaceAll(group, "--", ""))
		}
	}

	return n, nil
}

// declare writes the declaration of the names.
func (n names) declare(b *strings.Builder) {
	if all := append(n.fixed[:len(n.fixed):len(n.fixed)], n.group...); len(all) > 0 {
		fmt.Fprintf(b, "local %s\n", strings.Join(all, ", "))
	}
}

// assign writes the assignment of the names' values.
func (n names) assign(b *strings.Builder, from string) {
	if len(n.fixed) == 0 {
		return
	}
	// Lua reads a long list faster in one piece.
	if len(n.fixed) > 8 {
		fmt.Fprintf(b, "%s = unpack(%s, 1, %d)\n", strings.Join(n.fixed, ", "), from, len(n.fixed))
		return
	}
	values := make([]string, len(n.fixed))
	for i := range n.fixed {
		values[i] = fmt.Sprintf("%s[%d]", from, i+1)
	}
	fmt.Fprintf(b, "%s = %s\n", strings.Join(n.fixed, ", "), strings.Join(values, ", "))
}

// strip removes comments and indentation, because every process sends the text to every node.
func strip(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if at := strings.Index(line, " -- "); at >= 0 {
			line = strings.TrimSpace(line[:at])
		}
		if line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Writing returns the commands by which the scripts write. If type and memory are right and
// numeric values are numbers, none of them can fail. It is a table because every Open needs it. A
// test compares it with the scripts.
func Writing() []string {
	return []string{
		"hset",
		"hdel",
		"hincrby",
		"zadd",
		"zrem",
		"zremrangebyrank",
		"set",
		"unlink",
		"publish",
		"xadd",
		"xdel",
		"xtrim",
		"rpush",
		"ltrim",
		"zremrangebyscore",
	}
}

// Reading returns the other commands that the scripts call.
func Reading() []string {
	return []string{
		"time", "get", "getrange", "hget", "hmget", "hexists", "hlen", "hstrlen", "exists", "hscan",
		"zscore", "zmscore", "zcard", "zcount", "zrank", "zrange", "zrangebyscore", "zrangebylex", "zscan", "hgetall",
		"xrange", "xrevrange", "xlen", "lrange", "llen",
	}
}
