package main

import (
	"bufio"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// changes lists "rule: changed line" for each mutant of a text.
func changes(t *testing.T, name, text string) []string {
	t.Helper()
	all, err := mutate(name, text)
	if err != nil {
		t.Fatal(err)
	}

	var lines []string
	for _, m := range all {
		changed := strings.Split(m.apply(text), "\n")
		lines = append(lines, m.rule+": "+strings.TrimSpace(changed[m.line-1]))
	}

	return lines
}

func TestGoFileHasTheExpectedMutants(t *testing.T) {
	t.Parallel()
	const text = `package p

func (q *queue[T]) f(a, b int) bool {
	slog.Info("no mutant here", "n", 1+1)
	q.n = 7
	defer q.end()
	if a < b && !q.closed {
		q.move(a, b)
	}
	q.at = min(a, b)
	return true
}
`
	want := []string{
		"dropped: ",
		"dropped: ",
		"dropped: ",
		"number: q.n = 8",
		"logic: if a < b || !q.closed {",
		"boundary: if a <= b && !q.closed {",
		"negation: if a >= b && !q.closed {",
		"negation: if a < b && q.closed {",
		"dropped: ",
		"arguments: q.move(b, a)",
		"boolean: return false",
	}
	if got := changes(t, "p.go", text); !slices.Equal(got, want) {
		t.Errorf("mutants:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLuaFileHasTheExpectedMutants(t *testing.T) {
	t.Parallel()
	const text = `-- a < b in a comment is no place
local function f(a)
  if a >= 10 and name ~= 'x < y' then
    call('DEL', -1)
  end
  done = a
end
`
	want := []string{
		"boundary: if a > 10 and name ~= 'x < y' then",
		"negation: if a < 10 and name ~= 'x < y' then",
		"number: if a >= 11 and name ~= 'x < y' then",
		"logic: if a >= 10 or name ~= 'x < y' then",
		"negation: if a >= 10 and name == 'x < y' then",
		"number: call('DEL', -2)",
		"dropped: ",
		"dropped: ",
	}
	if got := changes(t, "f.lua", text); !slices.Equal(got, want) {
		t.Errorf("mutants:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSQLFileHasTheExpectedMutants(t *testing.T) {
	t.Parallel()
	const text = `-- name: due
SELECT number FROM jobs WHERE due <= ?1 AND state = 2 ORDER BY due DESC;
`
	want := []string{
		"boundary: SELECT number FROM jobs WHERE due < ?1 AND state = 2 ORDER BY due DESC;",
		"logic: SELECT number FROM jobs WHERE due <= ?1 OR state = 2 ORDER BY due DESC;",
		"number: SELECT number FROM jobs WHERE due <= ?1 AND state = 3 ORDER BY due DESC;",
		"order: SELECT number FROM jobs WHERE due <= ?1 AND state = 2 ORDER BY due ASC;",
	}
	if got := changes(t, "due.sql", text); !slices.Equal(got, want) {
		t.Errorf("mutants:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestKeySurvivesChangesElsewhere checks that a change elsewhere in the file keeps a mutant's key
// and stored verdict, although the mutant moves to another line. A change of the function itself
// makes the verdict invalid.
func TestKeySurvivesChangesElsewhere(t *testing.T) {
	t.Parallel()
	const before = "package p\n\nfunc f(a int) bool { return a < 1 }\n"
	const after = "package p\n\nfunc g() {}\n\nfunc f(a int) bool { return a < 1 }\n"
	const changed = "package p\n\nfunc f(a int) bool { a--; return a < 1 }\n"

	first := func(text string) mutant {
		all, err := mutate("p.go", text)
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	a, b, c := first(before), first(after), first(changed)
	if a.key() != b.key() || a.block != b.block {
		t.Errorf("a change elsewhere changed the mutant: %s %s, %s %s", a.key(), a.block, b.key(), b.block)
	}
	if a.block == c.block {
		t.Error("the verdict is still valid after a change of the function")
	}
}

func TestLargerSampleContainsTheSmaller(t *testing.T) {
	t.Parallel()
	all := make([]mutant, 100)
	for i := range all {
		all[i] = mutant{file: "p.go", line: i + 1, nth: i + 1}
	}

	small, large := sample(all, "1", 10), sample(all, "1", 50)
	if !slices.Equal(small, large[:10]) {
		t.Error("a larger sample does not begin with the smaller one")
	}
	if slices.Equal(small, sample(all, "2", 10)) {
		t.Error("another seed draws the same sample")
	}
}

func TestFailureNamesTheFirstFailedTest(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n":         "",
		"=== RUN   TestA\n    --- FAIL: TestA/sub (0.10s)\nFAIL\n": "TestA/sub",
		"panic: index out of range\n":                              "panic: index out of range",
	} {
		if got := failure(bufio.NewReader(strings.NewReader(output))); got != want {
			t.Errorf("failure of %q is %q, want %q", output, got, want)
		}
	}
}

func TestResultsSurviveARestart(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "mutants.jsonl")
	m := mutant{file: "p.go", function: "f", block: "1"}

	r, err := openResults(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.put(target{name: "x"}, m, outcome{verdict: killed, by: "TestA"}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.file.WriteString(`{"key": "half`); err != nil {
		t.Fatal(err)
	}
	r.file.Close()

	r, err = openResults(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.file.Close()
	if one, ok := r.get(m); !ok || one.By != "TestA" {
		t.Errorf("verdict after a restart: %+v, %t", one, ok)
	}
	if err := r.put(target{name: "x"}, mutant{file: "q.go"}, outcome{verdict: hung}, 0); err != nil {
		t.Fatal(err)
	}
	again, err := openResults(name)
	if err != nil {
		t.Fatal(err)
	}
	defer again.file.Close()
	if len(again.by) != 2 {
		t.Errorf("%d verdicts after a half-written line, want 2", len(again.by))
	}

	m.block = "2"
	if _, ok := r.get(m); ok {
		t.Error("a verdict is valid for a function that has changed")
	}
}

func TestTestsThatKilledAMutantRunFirst(t *testing.T) {
	t.Parallel()
	k := killers{}
	for _, test := range []string{"TestA", "TestB/x (1)", "TestA", "exit: signal", "TestB/y"} {
		k.add("f.go", test)
	}
	if got, want := k.pattern("f.go"), `^(TestB|TestA)$/^(x \(1\)|y)$`; got != want {
		t.Errorf("the pattern is %q, want %q", got, want)
	}
	if got := k.pattern("g.go"); got != "" {
		t.Errorf("the pattern of a file without killers is %q", got)
	}

	for i := range 2 * mostKillers {
		k.add("f.go", fmt.Sprintf("Test%d", i))
	}
	if got := k.pattern("f.go"); strings.Contains(got, "TestA") || strings.Count(got, "|") != mostKillers-1 {
		t.Errorf("the pattern of many killers is %q", got)
	}
}

// TestEverySurvivorExists checks that every entry of survivors.txt has a mutant.
func TestEverySurvivorExists(t *testing.T) {
	t.Parallel()
	reasons, err := survivors(survivorsText)
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, target := range targets {
		all, err := target.mutants(root)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			t.Errorf("target %s has no mutants", target.name)
		}
		for _, m := range all {
			delete(reasons, m.key())
		}
	}
	for key := range reasons {
		t.Errorf("survivors.txt lists a mutant that does not exist: %s", key)
	}
}
