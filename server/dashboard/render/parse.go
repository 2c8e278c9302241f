package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"text/template/parse"
)

// Path is a URL of the dashboard, with escaped parts. Only values of this type may stand in an attribute with a URL.
type Path string

// Func is a function that templates may call.
type Func func(args ...any) (any, error)

// Set is a set of templates that may call each other.
type Set struct {
	trees map[string]*parse.Tree
	funcs map[string]Func
	// urls are the actions that write a URL.
	urls map[parse.Node]bool
}

// Parse reads all files of a folder that match a pattern. Every file defines templates by their names.
func Parse(folder fs.FS, pattern string, funcs map[string]Func) (*Set, error) {
	s := &Set{trees: map[string]*parse.Tree{}, funcs: funcs, urls: map[parse.Node]bool{}}
	known := map[string]any{}
	for name, f := range funcs {
		known[name] = f
	}

	files, err := fs.Glob(folder, pattern)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		// parse adds the templates that the file defines, and the rest of the file under the file's name.
		if _, err := parse.New(path.Base(file)).Parse(string(text), "", "", s.trees, known); err != nil {
			return nil, err
		}
	}

	for name, tree := range s.trees {
		end, err := s.check(context{}, tree.Root)
		if err == nil && end.state != inText {
			err = fmt.Errorf("ends inside a tag")
		}
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", name, err)
		}
	}
	return s, nil
}

// check returns the context after a node. It returns an error for a value in a place that escaping does not cover, and
// for a node that Execute does not support.
func (s *Set) check(c context, node parse.Node) (context, error) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return c, nil
		}
		for _, child := range n.Nodes {
			var err error
			if c, err = s.check(c, child); err != nil {
				return c, err
			}
		}
		return c, nil
	case *parse.TextNode:
		next, err := c.advance(string(n.Text))
		return next, at(n, err)
	case *parse.CommentNode:
		return c, nil
	case *parse.ActionNode:
		return s.checkAction(c, n)
	case *parse.IfNode:
		return s.checkBranches(c, &n.BranchNode)
	case *parse.RangeNode:
		return s.checkBranches(c, &n.BranchNode)
	case *parse.TemplateNode:
		if c.state != inText {
			return c, at(n, fmt.Errorf("a template is called inside a tag"))
		}
		if s.trees[n.Name] == nil {
			return c, at(n, fmt.Errorf("there is no template %s", n.Name))
		}
		return c, checkPipe(n.Pipe)
	}
	return c, at(node, fmt.Errorf("not supported"))
}

func (s *Set) checkAction(c context, n *parse.ActionNode) (context, error) {
	if err := checkPipe(n.Pipe); err != nil {
		return c, err
	}
	switch c.state {
	case inText:
		return c, nil
	case inValue:
		if c.takesURL() {
			if !c.empty {
				return c, at(n, fmt.Errorf("a URL has an action after its beginning; write the whole URL as one action"))
			}
			s.urls[n] = true
		}
		c.empty = false
		return c, nil
	}
	return c, at(n, fmt.Errorf("a value is neither in text nor in a quoted attribute; move it into one of them"))
}

// checkBranches requires that both branches end in one context. A loop may run any number of times, so its body ends
// where it begins.
func (s *Set) checkBranches(c context, n *parse.BranchNode) (context, error) {
	if err := checkPipe(n.Pipe); err != nil {
		return c, err
	}
	yes, err := s.check(c, n.List)
	if err != nil {
		return c, err
	}
	no, err := s.check(c, n.ElseList)
	if err != nil {
		return c, err
	}
	return join(yes, no, n)
}

// join returns the context after two branches. They may differ in whether a value is still empty and a name has ended.
func join(yes, no context, n parse.Node) (context, error) {
	var errs [2]error
	yes, errs[0] = yes.endName()
	no, errs[1] = no.endName()
	if err := errors.Join(errs[:]...); err != nil {
		return yes, at(n, err)
	}
	yes.empty, yes.glued = yes.empty && no.empty, yes.glued || no.glued
	no.empty, no.glued = yes.empty, yes.glued
	if yes != no {
		return yes, at(n, fmt.Errorf("its branches end in different places"))
	}
	return yes, nil
}

func checkPipe(p *parse.PipeNode) error {
	if p != nil && (len(p.Cmds) != 1 || len(p.Decl) > 0) {
		return at(p, fmt.Errorf("pipes and variables are not supported"))
	}
	return nil
}

func at(n parse.Node, err error) error {
	if err == nil {
		return nil
	}
	text := n.String()
	return fmt.Errorf("%w: %.80s", err, text)
}
