package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

var (
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)_?([A-Z]|$)`)
	testOfWho  = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)_?(Who|What)([A-Z_]|$)`)
	errorOfWho = regexp.MustCompile(`^(who|what)\b`)
)

// addGo adds a Go file: its comments, its strings, and the functions outside tests.
func (m *measurement) addGo(name, text string) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	line := func(pos token.Pos) int { return fset.Position(pos).Line }

	for _, group := range file.Comments {
		if text := group.Text(); text != "" { // a directive has no text
			take(&m.sample.comments, name, line(group.Pos()), text)
		}
		for _, c := range group.List {
			// A block comment is one entry with several lines.
			for i, text := range strings.Split(c.Text, "\n") {
				m.addLine(name, line(c.Pos())+i, text)
			}
		}
	}
	m.addTexts(name, file, line)

	lines := strings.Split(text, "\n")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		// Tests may be long and dense, so only their names are read.
		if !strings.HasSuffix(name, "_test.go") {
			m.addFunction(name, f.Name.Name, line(f.Pos()), line(f.Body.Lbrace), line(f.Body.Rbrace), lines)
			continue
		}
		if f.Recv == nil && testName.MatchString(f.Name.Name) {
			take(&m.sample.tests, name, line(f.Pos()), f.Name.Name)
		}
		if f.Recv == nil && testOfWho.MatchString(f.Name.Name) {
			m.whoOrWhat++
			m.place(name, line(f.Pos()), "the test %s begins with who or what", f.Name.Name)
		}
	}
	return nil
}

// addTexts adds the strings of a file, and the texts of its errors.
func (m *measurement) addTexts(name string, file *ast.File, line func(token.Pos) int) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				m.addWords(name, line(n.Pos()), text)
			}
		case *ast.CallExpr:
			text, ok := errorText(n)
			if !ok {
				break
			}
			// No user reads the errors that tests make.
			if !strings.HasSuffix(name, "_test.go") {
				take(&m.sample.errors, name, line(n.Pos()), text)
			}
			if errorOfWho.MatchString(text) {
				m.whoOrWhat++
				m.place(name, line(n.Pos()), "the error %q begins with who or what", text)
			}
		}
		return true
	})
}

// errorText returns the text of a call that makes an error: the first string among the
// arguments of errors.New, fmt.Errorf, or a function whose name says so.
func errorText(call *ast.CallExpr) (string, bool) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	pkg, _ := s.X.(*ast.Ident)
	made := pkg != nil && pkg.Name == "errors" && s.Sel.Name == "New" || strings.HasSuffix(s.Sel.Name, "Errorf") ||
		s.Sel.Name == "Invalid"
	if !made {
		return "", false
	}

	args := call.Args
	if s.Sel.Name == "Invalid" && len(args) > 1 {
		// The first argument is the field. The text follows it.
		args = args[1:]
	}
	for _, arg := range args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			return text, err == nil
		}
	}
	return "", false
}

// addFunction adds the function of the lines from first to last, whose body begins in
// the line body.
func (m *measurement) addFunction(file, name string, first, body, last int, lines []string) {
	blank := false
	// A function in one line has no separate line for its body.
	for _, l := range lines[min(body, last-1) : last-1] {
		l = strings.TrimSpace(l)
		blank = blank || l == ""
		if strings.HasPrefix(l, "//") {
			m.bodyComments++
		}
		m.bodyLines++
	}

	size := last - first + 1
	if size > 60 {
		m.longFunctions++
		m.place(file, first, "the function %s has %d lines", name, size)
	}
	// A short function needs no paragraphs.
	if size < 20 {
		return
	}
	m.functions++
	if !blank {
		m.dense++
		m.place(file, first, "the function %s has %d lines and no blank one", name, size)
	}
}
