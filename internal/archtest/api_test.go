package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// maxRootSymbols is the largest number of names that the root package may export. A reader of its
// documentation sees that many names. Names that only the authors of engines need belong in package
// contract.
const maxRootSymbols = 136

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

// exportedBy counts the names that one declaration exports.
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

// publicPackage reports whether users can import the package in dir.
func publicPackage(dir string) bool {
	return !under(dir, "cmd", "examples", "test", "scripts") && !slices.Contains(strings.Split(dir, "/"), "internal")
}

// internalTypes lists the places where a public package exports a name whose type belongs to an
// internal package. A user could neither name such a type nor read its documentation.
func internalTypes(files []source) (faults []string) {
	for _, s := range files {
		if s.isTest() || !publicPackage(s.dir()) {
			continue
		}

		hidden := map[string]string{}
		for _, i := range s.imports() {
			if to := folder(i.path); to != "" && !publicPackage(to) {
				hidden[i.name] = to
			}
		}
		for _, d := range s.ast.Decls {
			for name, types := range exportedTypes(d) {
				for _, t := range types {
					faults = append(faults, hiddenNames(s, name, t, hidden)...)
				}
			}
		}
	}
	return faults
}

// hiddenNames lists the names of internal packages in a type.
func hiddenNames(s source, name string, t ast.Node, hidden map[string]string) (faults []string) {
	ast.Inspect(t, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && hidden[x.Name] != "" {
			faults = append(faults, fmt.Sprintf("%s: %s has the type %s of %s, which users cannot import",
				s.at(sel.Pos()), name, sel.Sel.Name, hidden[x.Name]))
		}
		return true
	})
	return faults
}

// exportedTypes returns the types of the exported names of a declaration, by name.
func exportedTypes(d ast.Decl) map[string][]ast.Node {
	types := map[string][]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) {
			types[d.Name.Name] = []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					types[spec.Name.Name] = visibleParts(spec.Type)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						types[name.Name] = valueTypes(spec)
					}
				}
			}
		}
	}
	return types
}

// valueTypes returns the type of a variable, or the values from which its type is inferred.
func valueTypes(spec *ast.ValueSpec) (types []ast.Node) {
	if spec.Type != nil {
		return []ast.Node{spec.Type}
	}
	for _, v := range spec.Values {
		types = append(types, v)
	}
	return types
}

// visibleParts returns a type, of a struct only the fields that users see.
func visibleParts(t ast.Expr) []ast.Node {
	s, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	var fields []ast.Node
	for _, f := range s.Fields.List {
		embedded := len(f.Names) == 0
		if embedded || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			fields = append(fields, f.Type)
		}
	}
	return fields
}

func TestPublicPackagesExportNoInternalTypes(t *testing.T) {
	t.Parallel()
	report(t, internalTypes(tree(t)))
}

func TestInternalTypesFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	const head = "package x\nimport (\n\"github.com/dulymq/duly\"\n\"github.com/dulymq/duly/internal/clock\"\n)\n"
	tests := []struct {
		name, file, text string
		want             int
	}{
		{"Field", "worker/a.go", "type Config struct{ Clock clock.Clock }", 1},
		{"Function", "worker/a.go", "func New(c clock.Clock, d duly.Clock) *clock.Fake { return nil }", 2},
		{"Method", "worker/a.go", "type T int\nfunc (*T) Clock() clock.Clock { return nil }", 1},
		{"Variable", "worker/a.go", "var System = clock.System()", 1},
		{"Alias", "worker/a.go", "type Clock = clock.Clock", 1},
		{"Embedded", "worker/a.go", "type T struct{ clock.Clock }", 1},
		{"HiddenField", "worker/a.go", "type T struct{ clock clock.Clock }", 0},
		{"HiddenMethod", "worker/a.go", "type t int\nfunc (t) Clock() clock.Clock { return nil }", 0},
		{"Internal", "internal/x/a.go", "type Config struct{ Clock clock.Clock }", 0},
		{"Program", "cmd/duly/a.go", "type Config struct{ Clock clock.Clock }", 0},
		{"Public", "worker/a.go", "type Config struct{ Clock duly.Clock }", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := internalTypes(plant(t, map[string]string{tt.file: head + tt.text + "\n"}))
			if len(got) != tt.want {
				t.Errorf("%d faults, want %d: %q", len(got), tt.want, got)
			}
		})
	}
}
