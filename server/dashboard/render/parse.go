package render

import (
	"fmt"
	"io/fs"
	"path"
	"text/template/parse"
)

// Path is a URL of the dashboard, with escaped parts. Only values of this type may stand in an attribute with a URL.
type Path string

// Set is a set of templates that may call each other.
type Set struct {
	trees map[string]*parse.Tree
	funcs map[string]any
	// urls are the actions that write a URL.
	urls map[parse.Node]bool
}

// Parse reads all files of a folder that match a pattern. Every file defines templates by their names. They may call
// the functions. A function returns one value.
func Parse(folder fs.FS, pattern string, funcs map[string]any) (*Set, error) {
	s := &Set{trees: map[string]*parse.Tree{}, funcs: funcs, urls: map[parse.Node]bool{}}
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
		if _, err := parse.New(path.Base(file)).Parse(string(text), "", "", s.trees, funcs); err != nil {
			return nil, err
		}
	}

	for name, tree := range s.trees {
		if err := s.check(tree); err != nil {
			return nil, fmt.Errorf("template %s: %w", name, err)
		}
	}
	return s, nil
}

func at(n parse.Node, err error) error {
	if err == nil {
		return nil
	}
	text := n.String()
	return fmt.Errorf("%w: %.80s", err, text)
}
