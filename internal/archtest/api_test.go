package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

// maxRootSymbols bounds what the root package exports. A reader of its documentation
// sees that many names. What only an engine's author needs belongs into contract.
const maxRootSymbols = 120

// exportedSymbols counts the package-level names that a package exports, as go doc -short
// lists them: a type, a function, and a group of constants or variables in one declaration
// count once each. Methods and fields do not count.
func exportedSymbols(files []source, dir string) (n int) {
	for _, s := range files {
		if s.isTest() || s.dir() != dir {
			continue
		}
		for _, d := range s.ast.Decls {
			n += exportedBy(d)
		}
	}
	return n
}

// exportedBy counts what one declaration exports.
func exportedBy(d ast.Decl) (n int) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil && f.Name.IsExported() {
			n++
		}
		return n
	}

	g := d.(*ast.GenDecl)
	values := 0
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					values = 1
				}
			}
		}
	}
	if g.Tok == token.CONST || g.Tok == token.VAR {
		return values
	}
	return n
}

func TestRootPackageIsSmall(t *testing.T) {
	t.Parallel()
	n := exportedSymbols(tree(t), ".")
	t.Logf("the root exports %d symbols", n)
	if n > maxRootSymbols {
		t.Errorf("the root exports %d symbols, may export %d; move what only engines need to contract", n, maxRootSymbols)
	}
}

func TestExportedSymbolsCountsAsGoDocDoes(t *testing.T) {
	t.Parallel()
	const text = `package x
const (
	A = iota
	B
)
const hidden = 1
var C, d = 1, 2
type T struct{ Field int }
type u int
func (T) Method() {}
func F() {}
func g() {}
`
	files := plant(t, map[string]string{"x.go": text, "x_test.go": "package x\nfunc Test() {}\n", "sub/y.go": "package y\nfunc Y() {}\n"})
	if got := exportedSymbols(files, "."); got != 4 {
		t.Errorf("%d symbols, want 4: A and B, C, T, F", got)
	}
}
