package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// mutant is one file with one change.
type mutant struct {
	file     string // relative to the module's root, with slashes
	function string // the function or, in Lua and SQL, the block with the change
	rule     string // for example boundary
	line     int    // from 1
	text     string // the original line without indentation
	nth      int    // number among equal mutants of the function, from 1
	block    string // hash of the function's text, for which a verdict is valid

	start, end  int // the replaced bytes
	replacement string
}

// key identifies the mutant. It survives changes of other functions in the file.
func (m mutant) key() string {
	return fmt.Sprintf("%s %s %s %q %d", m.file, m.function, m.rule, m.text, m.nth)
}

// change describes what the mutant does to its line.
func (m mutant) change(source string) string {
	return fmt.Sprintf("%q -> %q", source[m.start:m.end], m.replacement)
}

// apply returns the file's text with the bug in it.
func (m mutant) apply(source string) string {
	return source[:m.start] + m.replacement + source[m.end:]
}

// collector collects the mutants of one file.
type collector struct {
	file   string
	source string
	seen   map[string]int
	all    []mutant
}

func newCollector(file, source string) *collector {
	return &collector{file: file, source: source, seen: map[string]int{}}
}

// add adds the mutant that replaces the bytes from start to end.
func (c *collector) add(rule, function string, body string, start, end int, replacement string) {
	first := strings.LastIndexByte(c.source[:start], '\n') + 1
	last := len(c.source)
	if n := strings.IndexByte(c.source[start:], '\n'); n >= 0 {
		last = start + n
	}

	m := mutant{
		file: c.file, function: function, rule: rule,
		line: strings.Count(c.source[:start], "\n") + 1, text: strings.TrimSpace(c.source[first:last]),
		block: hash(body), start: start, end: end, replacement: replacement,
	}
	// Equal changes on equal lines differ only by their number.
	c.seen[m.key()]++
	m.nth = c.seen[m.key()]
	c.all = append(c.all, m)
}

// sample returns n of the mutants, selected by seed. A larger n keeps the mutants of a smaller
// one.
func sample(all []mutant, seed string, n int) []mutant {
	drawn := slices.Clone(all)
	order := make(map[string]string, len(all))
	for _, m := range all {
		order[m.key()] = hash(seed + "\n" + m.key())
	}
	slices.SortFunc(drawn, func(a, b mutant) int { return cmp.Compare(order[a.key()], order[b.key()]) })

	return drawn[:min(n, len(drawn))]
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
