package render

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// Execute appends the output of a template.
func (s *Set) Execute(out []byte, name string, data any) ([]byte, error) {
	tree := s.trees[name]
	if tree == nil {
		return out, fmt.Errorf("render: there is no template %s", name)
	}
	e := execution{set: s, out: out}
	if err := e.run(tree.Root, frame{root: data, dot: data}); err != nil {
		return out, fmt.Errorf("render: template %s: %w", name, err)
	}
	return e.out, nil
}

type execution struct {
	set *Set
	out []byte
}

// frame has the values of a template call: $ and the dot.
type frame struct{ root, dot any }

func (e *execution) run(node parse.Node, f frame) (err error) {
	switch n := node.(type) {
	case *parse.ListNode:
		for i := 0; n != nil && i < len(n.Nodes) && err == nil; i++ {
			err = e.run(n.Nodes[i], f)
		}
	case *parse.TextNode:
		e.out = append(e.out, n.Text...)
	case *parse.ActionNode:
		return e.print(n, f)
	case *parse.IfNode:
		v, err := e.pipe(n.Pipe, f)
		switch {
		case err != nil:
			return err
		case truth(v):
			return e.run(n.List, f)
		}
		return e.run(n.ElseList, f)
	case *parse.RangeNode:
		return e.loop(n, f)
	case *parse.TemplateNode:
		v, err := e.pipe(n.Pipe, f)
		if err != nil {
			return err
		}
		return e.run(e.set.trees[n.Name].Root, frame{v, v})
	}
	return err
}

func (e *execution) loop(n *parse.RangeNode, f frame) error {
	v, err := e.pipe(n.Pipe, f)
	list := reflect.ValueOf(v)
	if err == nil && list.Kind() != reflect.Slice {
		err = at(n.Pipe, fmt.Errorf("range over %T, which is not a slice", v))
	}
	if err == nil && list.Len() == 0 {
		return e.run(n.ElseList, f)
	}
	for i := 0; err == nil && i < list.Len(); i++ {
		err = e.run(n.List, frame{f.root, list.Index(i).Interface()})
	}
	return err
}

// print writes a value. A URL must be a Path, because escaping does not make a string a URL of the dashboard.
func (e *execution) print(n *parse.ActionNode, f frame) error {
	v, err := e.pipe(n.Pipe, f)
	if err != nil {
		return err
	}
	if _, path := v.(Path); e.set.urls[n] && !path {
		return at(n, fmt.Errorf("a URL is a %T, not a Path", v))
	}
	if v == nil {
		return at(n, fmt.Errorf("the value is nil"))
	}
	e.out = append(e.out, Escape(fmt.Sprint(v))...)
	return nil
}

func (e *execution) pipe(p *parse.PipeNode, f frame) (any, error) {
	if p == nil {
		return nil, nil
	}
	args := p.Cmds[0].Args
	id, call := args[0].(*parse.IdentifierNode)
	if !call {
		return e.value(args[0], f)
	}
	values := make([]reflect.Value, len(args)-1)
	for i := range values {
		v, err := e.value(args[i+1], f)
		if err != nil {
			return nil, err
		}
		values[i] = reflect.ValueOf(v)
	}
	v, err := apply(e.set.funcs[id.Ident], values)
	return v, at(p, err)
}

// apply calls a function. Arguments that do not fit are an error.
func apply(f any, args []reflect.Value) (v any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	return reflect.ValueOf(f).Call(args)[0].Interface(), nil
}

func (e *execution) value(node parse.Node, f frame) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return f.dot, nil
	case *parse.FieldNode:
		v, err := fields(f.dot, n.Ident)
		return v, at(n, err)
	case *parse.VariableNode: // only $ exists
		v, err := fields(f.root, n.Ident[1:])
		return v, at(n, err)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return int(n.Int64), nil
	case *parse.PipeNode:
		if err := checkPipe(n); err != nil {
			return nil, err
		}
		return e.pipe(n, f)
	}
	return nil, at(node, fmt.Errorf("not supported"))
}

// fields follows a chain of fields of structs.
func fields(v any, names []string) (any, error) {
	for _, name := range names {
		in := reflect.Indirect(reflect.ValueOf(v))
		if in.Kind() != reflect.Struct {
			return nil, fmt.Errorf("%T has no fields", v)
		}
		field := in.FieldByName(name)
		if !field.IsValid() || !field.CanInterface() {
			return nil, fmt.Errorf("%T has no field %s", v, name)
		}
		v = field.Interface()
	}
	return v, nil
}

// truth reports whether a value is neither nil nor the zero value of its type nor an empty slice.
func truth(v any) bool {
	in := reflect.ValueOf(v)
	if in.IsValid() && in.Kind() == reflect.Slice {
		return in.Len() > 0
	}
	return in.IsValid() && !in.IsZero()
}

// escaper replaces what has a meaning in HTML. A browser drops a NUL or fails on it.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\x00", "\uFFFD")

// Escape returns a text for HTML, in an element or a quoted attribute. It replaces invalid UTF-8.
func Escape(text string) string { return escaper.Replace(strings.ToValidUTF8(text, "\uFFFD")) }
