package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the path under which this tree is imported.
const module = "github.com/dulymq/duly"

// source is one parsed Go file.
type source struct {
	path string // path relative to the module's root, with slashes
	fset *token.FileSet
	ast  *ast.File
}

// dir returns the file's package as a folder; "." is the root package.
func (s source) dir() string { return path.Dir(s.path) }

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at formats pos as "path:line".
func (s source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// imports lists the paths that the file imports, with the names that the file uses for them.
func (s source) imports() []imported {
	list := make([]imported, 0, len(s.ast.Imports))
	for _, spec := range s.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // impossible, because the parser has accepted the path
		}
		name := path.Base(p)
		if p == "math/rand/v2" {
			name = "rand"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		list = append(list, imported{path: p, name: name, pos: spec.Pos()})
	}
	return list
}

type imported struct {
	path, name string
	pos        token.Pos
}

// parse reads one file's text.
func parse(name string, text any) (source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	return source{path: name, fset: fset, ast: f}, nil
}

// under reports whether dir is one of the folders, or inside one.
func under(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return dir == f || strings.HasPrefix(dir, f+"/")
	})
}

// loadTree parses every Go file of the module, once for all tests. It ignores build tags, because
// the rules hold on every platform.
var loadTree = sync.OnceValues(func() ([]source, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	var tree []source
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && skipped(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err != nil {
			return err
		}
		tree = append(tree, s)
		return nil
	})
	return tree, err
})

// skipped reports whether a folder has no packages: go build skips it, or builds and runs create it.
func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		slices.Contains([]string{"testdata", "vendor", "bin", "duly-data", "bench-data"}, name)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the test's folder")
		}
		dir = parent
	}
}

// tree returns every Go file of the module.
func tree(t *testing.T) []source {
	t.Helper()
	files, err := loadTree()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// read returns the text of a file, named from the module's root.
func read(t *testing.T, name string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hasPackage reports whether the tree holds Go files in dir.
func hasPackage(files []source, dir string) bool {
	return slices.ContainsFunc(files, func(s source) bool { return s.dir() == dir })
}

// report fails the test. It prints one line per fault.
func report(t *testing.T, faults []string) {
	t.Helper()
	slices.Sort(faults)
	for _, f := range slices.Compact(faults) {
		t.Error(f)
	}
}

// exception is a place where a rule does not hold, and why.
type exception struct {
	folder string // folder of a package; the exception also covers all folders below it
	reason string
}

func excepted(list []exception, dir string) bool {
	return slices.ContainsFunc(list, func(e exception) bool { return under(dir, e.folder) })
}
