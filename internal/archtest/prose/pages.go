package main

import (
	"regexp"
	"strings"
)

var (
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence   = regexp.MustCompile(`[.!?]["')*]*(\s+|$)`)
	abbreviate = strings.NewReplacer("e.g.", "eg", "i.e.", "ie", "etc.", "etc")
)

// addDocs adds a page: each line counts for words, each paragraph and list item for
// sentences.
func (m *measurement) addDocs(name, text string) error {
	var block []string
	from, code := 0, false
	flush := func() {
		m.addSentences(name, from, strings.Join(block, " "))
		block = nil
	}

	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if trimmed != "" {
			m.addLine(name, i+1, line)
		}
		// A block of code has lines, but no sentences.
		if strings.HasPrefix(trimmed, "```") {
			flush()
			code = !code
			continue
		}

		switch {
		case code:
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "|"):
			flush()
		default:
			// Each item of a list is a paragraph of its own.
			if listItem.MatchString(line) {
				flush()
			}
			if len(block) == 0 {
				from = i + 1
			}
			block = append(block, listItem.ReplaceAllString(line, ""))
		}
	}
	flush()
	return nil
}

// addSentences adds the sentences of a paragraph. A link counts as its text, and inline
// code as one word.
func (m *measurement) addSentences(name string, line int, text string) {
	text = link.ReplaceAllString(inlineCode.ReplaceAllString(text, "code"), "$1")
	for _, s := range sentence.Split(abbreviate.Replace(text), -1) {
		n := len(strings.Fields(s))
		// The text after the last full stop is empty.
		if n == 0 {
			continue
		}
		m.sentences++
		m.sentenceWords += n
		if n > 30 {
			m.longSentences++
			m.place(name, line, "a sentence of %d words", n)
		}
	}
}
