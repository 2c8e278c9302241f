package main

import (
	"regexp"
	"strconv"
	"strings"
)

// language describes a language for which there is no parser.
type language struct {
	code    *regexp.Regexp // one token, or a comment or string to skip
	swaps   map[string][]swap
	block   *regexp.Regexp // the start of a block; its first group is the name
	dropped *regexp.Regexp // a line that can be removed as a whole
}

type swap struct{ rule, by string }

// passed matches comments and strings first, so that nothing in them is a token.
const passed = `--\[\[[\s\S]*?\]\]|--[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"`

var lua = language{
	code: regexp.MustCompile(passed + `|\d+(?:\.\d+)?|[A-Za-z_]\w*|<=|>=|==|~=|\.\.|[<>+\-]`),
	swaps: map[string][]swap{
		"<": {{"boundary", "<="}, {"negation", ">="}}, "<=": {{"boundary", "<"}, {"negation", ">"}},
		">": {{"boundary", ">="}, {"negation", "<="}}, ">=": {{"boundary", ">"}, {"negation", "<"}},
		"==": {{"negation", "~="}}, "~=": {{"negation", "=="}},
		"and": {{"logic", "or"}}, "or": {{"logic", "and"}},
		"+": {{"sign", "-"}}, "-": {{"sign", "+"}},
		"not": {{"negation", ""}}, "true": {{"boolean", "false"}}, "false": {{"boolean", "true"}},
	},
	block:   regexp.MustCompile(`(?m)^(?:local )?function ([\w.:]+)`),
	dropped: regexp.MustCompile(`^[A-Za-z_][\w.]*(?:\[[^\]]*\])*(?:\(.*\)| = [^{]*)$`),
}

var sql = language{
	code: regexp.MustCompile(passed + `|\?\d*|[xX]'[0-9a-fA-F]*'|\d+|[A-Za-z_]\w*|<=|>=|<>|==|[<>+\-=]`),
	swaps: map[string][]swap{
		"<": {{"boundary", "<="}}, "<=": {{"boundary", "<"}}, ">": {{"boundary", ">="}}, ">=": {{"boundary", ">"}},
		"<>": {{"negation", "="}}, "AND": {{"logic", "OR"}}, "OR": {{"logic", "AND"}},
		"+": {{"sign", "-"}}, "-": {{"sign", "+"}}, "DESC": {{"order", "ASC"}},
		"min": {{"function", "max"}}, "max": {{"function", "min"}}, "NOT": {{"negation", ""}},
	},
	block: regexp.MustCompile(`(?m)^-- name: (\w+)`),
}

// mutateText returns the mutants of a Lua or SQL file.
func mutateText(name, text string, l language) []mutant {
	s := textSites{collector: newCollector(name, text), language: l}
	s.split()
	s.tokens()
	if l.dropped != nil {
		s.lines()
	}

	return s.all
}

type textSites struct {
	*collector
	language
	starts []int // offsets of the blocks
	names  []string
}

// split finds the blocks. The text before the first one is block "file".
func (s *textSites) split() {
	s.starts, s.names = []int{0}, []string{"file"}
	for _, m := range s.block.FindAllStringSubmatchIndex(s.source, -1) {
		s.starts = append(s.starts, m[0])
		s.names = append(s.names, s.source[m[2]:m[3]])
	}
}

// at returns the name and the text of the block at an offset.
func (s *textSites) at(pos int) (name, body string) {
	i := len(s.starts) - 1
	for s.starts[i] > pos {
		i--
	}
	end := len(s.source)
	if i+1 < len(s.starts) {
		end = s.starts[i+1]
	}

	return s.names[i], s.source[s.starts[i]:end]
}

func (s *textSites) replace(rule string, start, end int, by string) {
	name, body := s.at(start)
	s.add(rule, name, body, start, end, by)
}

// tokens replaces operators, words and numbers.
func (s *textSites) tokens() {
	for _, place := range s.code.FindAllStringIndex(s.source, -1) {
		word := s.source[place[0]:place[1]]

		// The sign of a number is not an operator.
		if (word == "+" || word == "-") && s.unary(place[0]) {
			continue
		}
		for _, by := range s.swaps[word] {
			s.replace(by.rule, place[0], place[1], by.by)
		}
		// Strings and comments are tokens too, but none of them is a number.
		if v, err := strconv.Atoi(word); err == nil {
			s.replace("number", place[0], place[1], strconv.Itoa(v+1))
		}
	}
}

// unary reports whether the sign at pos belongs to a number.
func (s *textSites) unary(pos int) bool {
	before := strings.TrimRight(s.source[:pos], " \n")
	if before == "" || strings.HasSuffix(before, "return") {
		return true
	}

	return strings.ContainsRune("(,={<>~+-*/", rune(before[len(before)-1]))
}

// lines removes each line that is one complete statement.
func (s *textSites) lines() {
	pos := 0
	for line := range strings.SplitAfterSeq(s.source, "\n") {
		trimmed := strings.TrimSpace(line)
		if s.dropped.MatchString(trimmed) && balanced(trimmed) && !strings.HasPrefix(trimmed, "return") {
			start := pos + strings.Index(line, trimmed)
			s.replace("dropped", start, start+len(trimmed), "")
		}
		pos += len(line)
	}
}

// unfinished matches a line whose statement continues in the next one.
var unfinished = regexp.MustCompile(`(\b(function|or|and|do|then)|,|\.\.)$`)

// balanced reports whether the line closes every bracket that it opens, so that the line is a
// complete statement.
func balanced(line string) bool {
	if unfinished.MatchString(line) {
		return false
	}

	depth := 0
	for _, r := range line {
		switch r {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		}
		// The line closes a bracket of an earlier line.
		if depth < 0 {
			return false
		}
	}

	return depth == 0
}
