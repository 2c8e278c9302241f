package main

import "regexp"

// forbidden is a group of words with its bound.
type forbidden struct {
	name    string
	pattern *regexp.Regexp
	most    float64 // maximum per 1,000 lines of comments and docs
}

// wordList has words that plain English has better ones for. CONTRIBUTING.md lists them.
var wordList = []forbidden{
	{"tell, tells, told", word(`tell|tells|told`), 2},
	{"stand, stands, stood", word(`stand|stands|stood`), 1},
	{"whoever", word(`whoever`), 0},
	{"anew, heed, reckon, of itself, for ever", word(`anew|heeds?|heeded|reckons?|reckoned|of itself|for ever`), 0},
}

func word(list string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + list + `)\b`) }

// addLine adds a line of a comment or a page.
func (m *measurement) addLine(name string, line int, text string) {
	m.lines++
	m.addWords(name, line, text)
}

func (m *measurement) addWords(name string, line int, text string) {
	for _, w := range wordList {
		for _, found := range w.pattern.FindAllString(text, -1) {
			m.words[w.name]++
			m.place(name, line, "the word %q", found)
		}
	}
}
