package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// A module that the tree imports has its line in docs/dependencies.md.
func TestEveryDependencyIsJustified(t *testing.T) {
	t.Parallel()
	report(t, unjustified(tree(t), read(t, "docs/dependencies.md")))
}

func unjustified(files []source, page string) []string {
	var faults []string
	for _, s := range files {
		for _, i := range s.imports() {
			if standard(i.path) || folder(i.path) != "" || justified(i.path, page) {
				continue
			}
			faults = append(faults, fmt.Sprintf("%s imports %s, which has no line in docs/dependencies.md", s.at(i.pos), i.path))
		}
	}
	return faults
}

// A line of the tables in the page begins with the name of a module.
var dependencyLine = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func justified(path, page string) bool {
	for _, m := range dependencyLine.FindAllStringSubmatch(page, -1) {
		if under(path, m[1]) {
			return true
		}
	}
	return false
}

// Every error code of §13 has its line in docs/troubleshooting.md, and no
// other code has one.
func TestEveryErrorCodeIsExplained(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(read(t, contractFile), "\n## 13. ")
	if !ok {
		t.Fatalf("no section 13 in %s", contractFile)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	_, page, _ := strings.Cut(read(t, "docs/troubleshooting.md"), "\n## By error code")
	page, _, _ = strings.Cut(page, "\n## ")

	promised, explained := codes(section), codes(page)
	if len(promised) == 0 {
		t.Fatal("section 13 names no code")
	}
	for code := range promised {
		if !explained[code] {
			t.Errorf("%s has no line in docs/troubleshooting.md", code)
		}
	}
	for code := range explained {
		if !promised[code] {
			t.Errorf("docs/troubleshooting.md explains %s, which is not a code of %s", code, contractFile)
		}
	}
}

var quoted = regexp.MustCompile("`([a-z_]+)`")

// codes returns the quoted words in the first cells of a text's table rows.
func codes(text string) map[string]bool {
	found := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			found[m[1]] = true
		}
	}
	return found
}

// The tests that pages name as proofs exist.
func TestTestsThatThePagesNameExist(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"docs/promise.md", "docs/reliability.md"} {
		report(t, missingTests(tree(t), page, read(t, page)))
	}
}

// namedTest matches the name of a test in backquotes, with its subtest or its place in the
// conformance suite.
var namedTest = regexp.MustCompile("`(?:(Test[A-Z][A-Za-z0-9]*)[A-Za-z0-9/]*|[A-Z][A-Za-z]*/([A-Z][A-Za-z]*))`")

// missingTests returns a fault for each test that the page names and no file has.
func missingTests(files []source, page, text string) []string {
	known := map[string]bool{}
	for _, s := range files {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() {
				known[f.Name.Name] = true
			}
		}
		if s.dir() == suite {
			ast.Inspect(s.ast, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					known[strings.Trim(lit.Value, `"`)] = true
				}
				return true
			})
		}
	}

	var faults []string
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; !known[name] {
			faults = append(faults, fmt.Sprintf("%s names the test %s, which does not exist", page, name))
		}
	}
	return faults
}
