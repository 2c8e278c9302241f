package main

import (
	"fmt"
	"io"
	"math/rand/v2"
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
	comments, errors, tests []string // each with its place
}

// print prints the choice of a seed. The same tree and seed have the same choice.
func (s *sample) print(w io.Writer, seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed))
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

		// The walk of the tree has a fixed order, but a choice needs it only to be stable.
		texts := slices.Sorted(slices.Values(kind.texts))
		random.Shuffle(len(texts), func(i, k int) { texts[i], texts[k] = texts[k], texts[i] })
		for i, text := range texts[:min(kind.n, len(texts))] {
			fmt.Fprintf(w, "%d. %s\n\n", i+1, text)
		}
	}
}

// take adds a text with its place.
func take(to *[]string, name string, line int, text string) {
	*to = append(*to, fmt.Sprintf("%s:%d\n%s", name, line, text))
}
