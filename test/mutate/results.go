package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is one line of the results file.
type result struct {
	Target  string  `json:"target"`
	Key     string  `json:"key"`
	Block   string  `json:"block"`
	Verdict verdict `json:"verdict"`
	By      string  `json:"by,omitempty"`
	Seconds float64 `json:"seconds"`
}

// results is the file of all verdicts so far.
type results struct {
	file *os.File
	by   map[string]result // results by the key of the mutant
}

// openResults reads the verdicts of earlier runs. It skips a line that a killed run left
// incomplete.
func openResults(name string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	r := &results{by: map[string]result{}}
	old, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		defer old.Close()
		lines := bufio.NewScanner(old)
		for lines.Scan() {
			var one result
			// The last verdict of a mutant counts, because a retry appends another verdict.
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				r.by[one.Key] = one
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}

	r.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// A killed run may have left an incomplete line, which the next verdict must not continue.
	_, err = r.file.WriteString("\n")

	return r, err
}

// get returns the verdict for the mutant if its function has not changed since.
func (r *results) get(m mutant) (result, bool) {
	one, ok := r.by[m.key()]
	return one, ok && one.Block == m.block
}

// killers returns the tests that found mutants so far, by file.
func (r *results) killers() killers {
	k := killers{}
	// The order decides which tests run first, so it is the same in every run.
	for _, key := range slices.Sorted(maps.Keys(r.by)) {
		file, _, _ := strings.Cut(key, " ")
		k.add(file, r.by[key].By)
	}

	return k
}

// put appends a verdict.
func (r *results) put(t target, m mutant, o outcome, took time.Duration) error {
	one := result{Target: t.name, Key: m.key(), Block: m.block, Verdict: o.verdict, By: o.by, Seconds: took.Seconds()}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	r.by[one.Key] = one
	// One write includes the line end, so a kill leaves at most one incomplete line.
	_, err = r.file.Write(append(line, '\n'))

	return err
}

//go:embed survivors.txt
var survivorsText string

// survivors returns the reasons of the listed survivors by key.
func survivors(text string) (map[string]string, error) {
	reasons := map[string]string{}
	var key string
	for n, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "    ") && key != "":
			reasons[key] = strings.TrimSpace(reasons[key] + " " + strings.TrimSpace(line))
		case strings.HasPrefix(line, " "):
			return nil, fmt.Errorf("survivors.txt line %d: a reason has no mutant above it", n+1)
		default:
			key = line
			reasons[key] = ""
		}
	}
	for key, reason := range reasons {
		if reason == "" {
			return nil, fmt.Errorf("survivors.txt: %s has no reason", key)
		}
	}

	return reasons, nil
}
