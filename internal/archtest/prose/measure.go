package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// measurement collects the counts of a tree.
type measurement struct {
	lines  int            // number of lines of comments and docs
	words  map[string]int // number of forbidden words, by group
	places []string       // places that count against a bound

	sentences, sentenceWords, longSentences int

	// Number of functions of 20 lines or more, of those without a blank line, and of those over 60
	// lines.
	functions, dense, longFunctions int
	bodyLines, bodyComments         int

	wideLines int
	whoOrWhat int
	sample    sample
}

// figure is a number with its bounds.
type figure struct {
	name        string
	value       float64
	least, most float64
	unit        string
}

func (f figure) inBounds() bool { return f.value >= f.least && f.value <= f.most }

func (f figure) text() string { return fmt.Sprintf("%.4g%s", f.value, f.unit) }

func (f figure) boundText() string {
	if f.least > 0 {
		return fmt.Sprintf("%g to %g%s", f.least, f.most, f.unit)
	}
	return fmt.Sprintf("at most %g%s", f.most, f.unit)
}

// figures returns the figures with their bounds.
func (m *measurement) figures() []figure {
	var list []figure
	for _, w := range wordList {
		list = append(list, figure{
			name: w.name + " per 1,000 lines", value: 1000 * ratio(m.words[w.name], m.lines), most: w.most,
		})
	}
	return append(list,
		figure{name: "words per sentence in docs", value: ratio(m.sentenceWords, m.sentences), most: 17},
		figure{name: "sentences over 30 words", value: 100 * ratio(m.longSentences, m.sentences), most: 5, unit: " %"},
		figure{name: "tests and errors that begin with who or what", value: float64(m.whoOrWhat)},
		figure{name: "functions without a blank line", value: 100 * ratio(m.dense, m.functions), most: 15, unit: " %"},
		figure{name: "functions over 60 lines", value: float64(m.longFunctions)},
		figure{
			name: "comment lines in function bodies", value: 100 * ratio(m.bodyComments, m.bodyLines),
			least: 4, most: 8, unit: " %",
		},
		figure{name: "lines over 140 columns", value: float64(m.wideLines)},
	)
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// skippedFolders have no text of this project, or text of a recorded one.
var skippedFolders = []string{".git", "testdata", "bin", "dist", "node_modules", "duly-data", "bench-data"}

// measureTree measures every file under root.
func measureTree(root string) (*measurement, error) {
	m := &measurement{words: map[string]int{}}
	// This package contains the forbidden words, so it must not count itself.
	own := filepath.Join("internal", "archtest", "prose")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == own || name != "." && slices.Contains(skippedFolders, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		return m.addFile(path, filepath.ToSlash(name))
	})
	return m, err
}

func (m *measurement) addFile(path, name string) error {
	add := map[string]func(name, text string) error{
		".go": m.addGo, ".lua": m.addDashed, ".sql": m.addDashed, ".md": m.addDocs,
	}[filepath.Ext(name)]
	// Files of other kinds have no comments or docs to measure.
	if add == nil {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	m.addColumns(name, string(text))
	return add(name, string(text))
}

// addColumns counts the lines that are too wide. A row of a table can't be broken.
func (m *measurement) addColumns(name, text string) {
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(name, ".md") && strings.HasPrefix(strings.TrimSpace(line), "|") {
			continue
		}
		// A column is a character, not a byte.
		if n := len([]rune(line)); n > 140 {
			m.wideLines++
			m.place(name, i+1, "%d columns", n)
		}
	}
}

// addDashed adds the comments of a Lua or SQL file.
func (m *measurement) addDashed(name, text string) error {
	for i, line := range strings.Split(text, "\n") {
		if _, comment, ok := strings.Cut(line, "--"); ok {
			m.addLine(name, i+1, comment)
		}
	}
	return nil
}

func (m *measurement) place(name string, line int, format string, args ...any) {
	m.places = append(m.places, fmt.Sprintf("%s:%d: %s", name, line, fmt.Sprintf(format, args...)))
}
