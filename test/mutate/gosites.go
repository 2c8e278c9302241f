package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// swapped maps an operator to the operators that replace it, each with its rule.
var swapped = map[token.Token][]struct {
	rule string
	by   token.Token
}{
	token.LSS:  {{"boundary", token.LEQ}, {"negation", token.GEQ}},
	token.LEQ:  {{"boundary", token.LSS}, {"negation", token.GTR}},
	token.GTR:  {{"boundary", token.GEQ}, {"negation", token.LEQ}},
	token.GEQ:  {{"boundary", token.GTR}, {"negation", token.LSS}},
	token.EQL:  {{"negation", token.NEQ}},
	token.NEQ:  {{"negation", token.EQL}},
	token.LAND: {{"logic", token.LOR}},
	token.LOR:  {{"logic", token.LAND}},
	token.ADD:  {{"sign", token.SUB}},
	token.SUB:  {{"sign", token.ADD}},
}

// mutateGo returns the mutants of a Go file.
func mutateGo(name, text string) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}

	g := &goSites{collector: newCollector(name, text), fset: fset}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		g.function = functionName(f)
		g.body = text[g.offset(f.Pos()):g.offset(f.End())]
		ast.Inspect(f.Body, g.visit)
	}

	return g.all, nil
}

// functionName returns the function's name, after the type of its receiver if it has one.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}

	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}

	return f.Name.Name
}

// goSites collects the mutants of one file.
type goSites struct {
	*collector
	fset     *token.FileSet
	function string
	body     string
}

func (g *goSites) offset(p token.Pos) int { return g.fset.Position(p).Offset }

func (g *goSites) replace(rule string, from, to token.Pos, by string) {
	g.add(rule, g.function, g.body, g.offset(from), g.offset(to), by)
}

// visit adds the mutants of one node and reports whether to look inside it.
func (g *goSites) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		g.operator(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			g.replace("negation", n.OpPos, n.X.Pos(), "")
		}
	case *ast.BasicLit:
		g.number(n)
	case *ast.Ident:
		switch n.Name {
		case "true":
			g.replace("boolean", n.Pos(), n.End(), "false")
		case "false":
			g.replace("boolean", n.Pos(), n.End(), "true")
		}
	case *ast.CallExpr:
		if logs(n) {
			return false // the tests do not specify log lines
		}
		g.arguments(n)
	case *ast.BlockStmt:
		for _, s := range n.List {
			g.statement(s)
		}
	case *ast.CaseClause:
		for _, s := range n.Body {
			g.statement(s)
		}
	}

	return true
}

func (g *goSites) operator(n *ast.BinaryExpr) {
	// A minus does not compile for strings.
	if n.Op == token.ADD && (isText(n.X) || isText(n.Y)) {
		return
	}
	for _, s := range swapped[n.Op] {
		g.replace(s.rule, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), s.by.String())
	}
}

func (g *goSites) number(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
		g.replace("number", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
	}
}

// symmetric are the functions whose arguments can be swapped without a difference. For errors.Is
// that is true unless the error wraps another one.
var symmetric = []string{"min", "max", "errors.Is"}

// arguments swaps each argument with the next if both are plain names with different texts. Most
// pairs of different types do not compile, and do not count.
func (g *goSites) arguments(n *ast.CallExpr) {
	if slices.Contains(symmetric, g.source[g.offset(n.Fun.Pos()):g.offset(n.Fun.End())]) {
		return
	}

	for i := 0; i+1 < len(n.Args); i++ {
		a, b := g.plain(n.Args[i]), g.plain(n.Args[i+1])
		// A context never has the type of its neighbor.
		if a == "" || b == "" || a == b || a == "ctx" || b == "ctx" {
			continue
		}
		between := g.source[g.offset(n.Args[i].End()):g.offset(n.Args[i+1].Pos())]
		g.replace("arguments", n.Args[i].Pos(), n.Args[i+1].End(), b+between+a)
	}
}

// plain returns the text of a name or a selector, and "" for anything else.
func (g *goSites) plain(e ast.Expr) string {
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return g.source[g.offset(e.Pos()):g.offset(e.End())]
	}

	return ""
}

// statement removes a statement that has an effect and declares nothing.
func (g *goSites) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok && logs(call) {
			return
		}
	case *ast.AssignStmt:
		// Without a declaration the function would not compile.
		if s.Tok == token.DEFINE {
			return
		}
	case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
	default:
		return
	}

	g.replace("dropped", s.Pos(), s.End(), "")
}

// logs reports whether the call writes a log line or formats a text.
func logs(n *ast.CallExpr) bool {
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}

	var owner string
	switch x := sel.X.(type) {
	case *ast.Ident:
		owner = x.Name
	case *ast.SelectorExpr:
		owner = x.Sel.Name
	}
	owner = strings.ToLower(owner)

	return owner == "slog" || owner == "log" || owner == "logger" || owner == "fmt"
}

func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(e.X) || isText(e.Y)
	}

	return false
}
