// Package lua holds the scripts of the Redis engine and puts them together.
//
// A script is one command in a file of its own. Its header says what it is
// for, names its keys and arguments in their order, and what it answers:
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
// Load gives the names of KEYS and ARGV to locals in front of the body, so
// that the two can't differ, and puts the pieces of include/ between them, in
// the order in which they are named. A name in round brackets stands for keys
// or arguments that repeat; the body reads those itself, as it does with what
// comes behind "then".
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

// Script is one command, ready to be sent.
type Script struct {
	Name string
	// Source is the text as Redis gets it.
	Source string
	// Keys and Args are the names of the header, in their order; without
	// those that repeat.
	Keys, Args []string
	// ReadOnly scripts carry the flag no-writes.
	ReadOnly bool

	keysRepeat, argsRepeat bool // others follow
}

// Takes tells whether the header has a meaning for so many keys and arguments.
func (s *Script) Takes(keys, args int) bool {
	return (keys == len(s.Keys) || s.keysRepeat && keys > len(s.Keys)) && (args == len(s.Args) || s.argsRepeat && args > len(s.Args))
}

var (
	headerKeys = regexp.MustCompile(`(?m)^-- KEYS +(.*)$`)
	headerArgs = regexp.MustCompile(`(?ms)^-- ARGV +(.*?)^-- RETURNS`)
	include    = regexp.MustCompile(`(?m)^-- @include(.*)$`)
	names      = regexp.MustCompile(`^[a-z_]+$`)
)

// Load reads a script by its name. A script that does not fit its header is a
// mistake of this package, found by its tests: Load panics.
func Load(name string) Script {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	s, err := assemble(name, string(text))
	if err != nil {
		panic(fmt.Errorf("lua: %s: %w", name, err))
	}
	return s
}

// Names lists every script.
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

func assemble(name, text string) (Script, error) {
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "#!lua") {
		return Script{}, fmt.Errorf("the first line is no #!lua")
	}
	s := Script{Name: name, ReadOnly: strings.Contains(first, "no-writes")}
	header, body := splitHeader(rest)
	keys, args := headerKeys.FindStringSubmatch(header), headerArgs.FindStringSubmatch(header)
	if keys == nil || args == nil {
		return Script{}, fmt.Errorf("the header lacks KEYS, ARGV or RETURNS")
	}
	var b strings.Builder
	b.WriteString(first + "\nlocal call = redis.call\n")
	var err error
	if s.Keys, s.keysRepeat, err = declare(&b, "KEYS", keys[1]); err != nil {
		return Script{}, err
	}
	if s.Args, s.argsRepeat, err = declare(&b, "ARGV", args[1]); err != nil {
		return Script{}, err
	}
	if list := include.FindStringSubmatch(header); list != nil {
		for piece := range strings.FieldsSeq(list[1]) {
			text, ok := pieces()[piece]
			if !ok {
				return Script{}, fmt.Errorf("there is no piece %s", piece)
			}
			b.WriteString(text)
		}
	}
	b.WriteString(strip(body))
	s.Source = b.String()
	return s, nil
}

// pieces are what stands in include/, stripped, by name: most scripts have
// several, and every process puts all scripts together as it starts.
var pieces = sync.OnceValue(func() map[string]string {
	entries, err := files.ReadDir("include")
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := files.ReadFile("include/" + e.Name())
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(e.Name(), ".lua")] = strip(string(text))
	}
	return all
})

// splitHeader cuts behind the leading comment.
func splitHeader(text string) (header, body string) {
	for strings.HasPrefix(text, "--") {
		line, rest, _ := strings.Cut(text, "\n")
		header += line + "\n"
		text = rest
	}
	return header, text
}

// declare gives names to the fixed places of KEYS or ARGV. Names that repeat
// are declared without a value.
func declare(b *strings.Builder, from, text string) (fixed []string, repeat bool, err error) {
	if inner, ok := strings.CutPrefix(text, "("); ok {
		inner, _, _ = strings.Cut(inner, ")")
		fmt.Fprintf(b, "local %s\n", strings.Join(strings.Fields(inner), ", "))
		return nil, true, nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "--"))
		if repeat = strings.HasPrefix(line, "then ") || strings.HasPrefix(line, "("); line == "" || repeat {
			break
		}
		line, _, _ = strings.Cut(line, "  ")
		for name := range strings.FieldsSeq(line) {
			if !names.MatchString(name) {
				return nil, false, fmt.Errorf("%q is no name in %q", name, line)
			}
			fixed = append(fixed, name)
		}
	}
	if len(fixed) == 0 {
		return nil, repeat, nil
	}
	values := make([]string, len(fixed))
	for i := range fixed {
		values[i] = fmt.Sprintf("%s[%d]", from, i+1)
	}
	fmt.Fprintf(b, "local %s = %s\n", strings.Join(fixed, ", "), strings.Join(values, ", "))
	return fixed, repeat, nil
}

// strip leaves out comments and indents: every process sends every script to
// every node.
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

// Writing lists the commands by which the scripts write. Once type and memory
// are known, and what is written as a number is one, none of them can fail.
// A table, for it is wanted whenever an engine is opened; a test compares it with
// the scripts.
func Writing() []string {
	return []string{"hset", "hdel", "hincrby", "zadd", "zrem", "zremrangebyrank", "set", "unlink", "publish"}
}

// Reading lists the other commands that the scripts call.
func Reading() []string {
	return []string{
		"time", "get", "getrange", "hget", "hmget", "hexists", "hlen", "hstrlen", "exists", "hscan",
		"zscore", "zmscore", "zcard", "zcount", "zrank", "zrange", "zrangebyscore", "zrangebylex", "zscan",
	}
}
