package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
)

// The numbers of texts that a sample has of each kind.
const (
	sampledComments = 100
	sampledErrors   = 40
	sampledTests    = 40
)

// sample has the texts from which readers get a random choice.
type sample struct {
	comments, errors, tests []string // each text with its place
}

// print prints the choice of a seed. The same tree and seed have the same choice.
func (s *sample) print(w io.Writer, seed uint64) {
	for _, kind := range []struct {
		title string
		texts []string
		n     int
	}{
		{"COMMENTS", s.comments, sampledComments},
		{"ERRORS", s.errors, sampledErrors},
		{"TESTS", s.tests, sampledTests},
	} {
		fmt.Fprintf(w, "== %s: %d of %d\n\n", kind.title, min(kind.n, len(kind.texts)), len(kind.texts))

		texts := slices.SortedFunc(slices.Values(kind.texts), func(a, b string) int {
			return cmp.Compare(rank(seed, a), rank(seed, b))
		})
		for i, text := range texts[:min(kind.n, len(texts))] {
			fmt.Fprintf(w, "%d. %s\n\n", i+1, text)
		}
	}
}

// rank returns the sort key of a text for a seed. A hash mixes similar texts.
func rank(seed uint64, text string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, text))
	return string(sum[:])
}

// take appends a string with its place to a list.
func take(to *[]string, name string, line int, text string) {
	*to = append(*to, fmt.Sprintf("%s:%d\n%s", name, line, text))
}
