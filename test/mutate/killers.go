package main

import (
	"regexp"
	"slices"
	"strings"
)

// killers are the tests that found a mutant, by the file of the mutant, the latest one last.
type killers map[string][]string

// mostKillers is how many tests of a file run before the others.
const mostKillers = 8

// add notes that a test found a mutant of the file. It ignores names that are not tests, such as
// a panic.
func (k killers) add(file, test string) {
	if !strings.HasPrefix(test, "Test") {
		return
	}

	list := slices.DeleteFunc(k[file], func(t string) bool { return t == test })
	k[file] = append(list, test)
}

// pattern returns a pattern for go test -run that matches the latest killers of
// the file, and "" if there is none.
func (k killers) pattern(file string) string {
	var levels [][]string
	for _, test := range k[file][max(0, len(k[file])-mostKillers):] {
		// go test matches each level of subtests by a pattern of its own.
		for i, part := range strings.Split(test, "/") {
			if i == len(levels) {
				levels = append(levels, nil)
			}
			if part = regexp.QuoteMeta(part); !slices.Contains(levels[i], part) {
				levels[i] = append(levels[i], part)
			}
		}
	}

	var parts []string
	for _, level := range levels {
		parts = append(parts, "^("+strings.Join(level, "|")+")$")
	}

	return strings.Join(parts, "/")
}
