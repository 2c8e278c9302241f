package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"testing"
)

// commentFaults lists packages and exported symbols without a comment: types,
// their methods, functions, constants, variables, and the methods of exported
// interfaces. A group of constants or variables may share the group's comment.
func commentFaults(files []source) []string {
	var faults []string
	documented := map[string]bool{}
	first := map[string]source{}
	for _, s := range files {
		if s.isTest() {
			continue
		}
		if _, ok := first[s.dir()]; !ok {
			first[s.dir()] = s
		}
		if s.ast.Doc.Text() != "" {
			documented[s.dir()] = true
		}
		if ast.IsGenerated(s.ast) {
			continue
		}
		for _, d := range s.ast.Decls {
			for _, name := range bare(d) {
				faults = append(faults, fmt.Sprintf("%s: %s has no comment", s.at(name.Pos()), name.Name))
			}
		}
	}

	for dir, s := range first {
		if !documented[dir] {
			faults = append(faults, fmt.Sprintf("%s: package %s has no comment", dir, s.ast.Name.Name))
		}
	}
	return faults
}

// bare lists the exported names of a declaration that have no comment.
func bare(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc.Text() == "" && exportedReceiver(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, bareSpec(d, spec)...)
		}
		return names
	}
	return nil
}

func bareSpec(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		if spec.Doc.Text() == "" && spec.Comment.Text() == "" && (d.Doc.Text() == "" || d.Lparen != token.NoPos) {
			names = append(names, spec.Name)
		}
		if iface, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, m := range iface.Methods.List {
				for _, name := range m.Names {
					if name.IsExported() && m.Doc.Text() == "" && m.Comment.Text() == "" {
						names = append(names, name)
					}
				}
			}
		}
	case *ast.ValueSpec:
		if d.Doc.Text() != "" || spec.Doc.Text() != "" || spec.Comment.Text() != "" {
			return nil
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				names = append(names, name)
			}
		}
	}

	return names
}

// exportedReceiver reports whether a function is visible outside its package: it has no
// receiver, or a receiver of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr: // a generic receiver, like Recv[T]
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

func TestEverythingExportedHasAComment(t *testing.T) {
	t.Parallel()
	report(t, commentFaults(tree(t)))
}
