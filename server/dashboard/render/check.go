package render

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// The marks of actions in the flat text of a template: a value, and the begin, the middle and the end of a branch.
const (
	value  = "\x01"
	begin  = "\x02"
	middle = "\x03"
	end    = "\x04"
)

var (
	// tag matches a comment, or a tag whose values are in double quotes and whose actions are values or branches.
	tag = regexp.MustCompile(`^(?:<!--[^\x01-\x04]*?-->|<([/!]?[a-zA-Z0-9]+)((?:="[^"<]*"|[^<>"'=\x01])*)>)`)
	// attribute matches a name with its value. A branch that begins or ends within a name matches split.
	attribute = regexp.MustCompile(`([^\s="/\x02-\x04]+)(?:="([^"]*)")?`)
	split     = regexp.MustCompile(`[^\s"\x02-\x04]\x02|\x04[^\s/>\x02-\x04]`)
	quoted    = regexp.MustCompile(`="[^"]*"`)
	// takesURL matches the text before the value of an attribute with a URL.
	takesURL = regexp.MustCompile(`(?i)(?:^|\s)(?:href|src|action|formaction|poster)="$`)
)

// forbidden are elements and attributes that hold code or styles, or take a URL that nobody needs.
var forbidden = []string{"style", "iframe", "object", "embed", "base", "srcdoc", "srcset", "ping", "data"}

// flat returns the text of a node, with marks for its actions. It returns an error for a node that Execute does not
// support.
func (s *Set) flat(before string, node parse.Node) (text string, err error) {
	switch n := node.(type) {
	case *parse.ListNode:
		for i := 0; n != nil && i < len(n.Nodes) && err == nil; i++ {
			var more string
			more, err = s.flat(before+text, n.Nodes[i])
			text += more
		}
		return text, err
	case *parse.TextNode:
		return string(n.Text), nil
	case *parse.CommentNode:
		return "", nil
	case *parse.ActionNode:
		s.urls[n] = takesURL.MatchString(before)
		return value, checkPipe(n.Pipe)
	case *parse.IfNode:
		return s.branches(&n.BranchNode)
	case *parse.RangeNode:
		return s.branches(&n.BranchNode)
	case *parse.TemplateNode:
		if s.trees[n.Name] == nil {
			return "", at(n, fmt.Errorf("there is no template %s", n.Name))
		}
		return "<template>", checkPipe(n.Pipe) // where a tag may not begin, no call may be
	}
	return "", at(node, fmt.Errorf("not supported"))
}

func (s *Set) branches(n *parse.BranchNode) (string, error) {
	yes, err := s.flat("", n.List)
	if err != nil {
		return "", err
	}
	no, err := s.flat("", n.ElseList)
	if err != nil {
		return "", err
	}
	return begin + yes + middle + no + end, checkPipe(n.Pipe)
}

// check returns an error for a template that has code, or a value that escaping does not cover. Each branch of a
// template begins and ends in one place: in text, between two attributes, or in a value.
func (s *Set) check(tree *parse.Tree) error {
	text, err := s.flat("", tree.Root)
	for err == nil && strings.Contains(text, "<") {
		text = text[strings.Index(text, "<"):]
		found := tag.FindStringSubmatch(text)
		if found == nil {
			return fmt.Errorf("a tag is not closed, or has an action or a quote in a wrong place: %.80q", text)
		}
		text = text[len(found[0]):]
		if err = checkTag(found[1], found[2]); err == nil && found[1] == "script" && !strings.HasPrefix(text, "</script>") {
			err = fmt.Errorf("a script element has content; it must be empty")
		}
		if err != nil {
			err = fmt.Errorf("%w: %.80q", err, found[0])
		}
	}
	return err
}

func checkTag(element, attributes string) error {
	if slices.Contains(forbidden, strings.ToLower(element)) {
		return fmt.Errorf("the element %s is not permitted", element)
	}
	if names := quoted.ReplaceAllString(element+attributes, `"`); split.MatchString(names) || !closed(names) {
		return fmt.Errorf("a branch ends in another place than it begins")
	}
	for _, a := range attribute.FindAllStringSubmatch(attributes, -1) {
		switch name := strings.ToLower(a[1]); {
		case strings.HasPrefix(name, "on") || slices.Contains(forbidden, name):
			return fmt.Errorf("the attribute %s is not permitted", name)
		case strings.Contains(a[2], "javascript:"):
			return fmt.Errorf("the attribute %s has code", name)
		case !closed(a[2]):
			return fmt.Errorf("a branch in the attribute %s ends in another place than it begins", name)
		case takesURL.MatchString(" "+name+`="`) && strings.Contains(a[2], value) && a[2] != value:
			return fmt.Errorf("the attribute %s has a part of a URL; write the whole URL as one action", name)
		}
	}
	return nil
}

// closed reports whether every branch of a text begins and ends in it.
func closed(text string) bool {
	open := 0
	for _, r := range text {
		open += strings.Count(begin, string(r)) - strings.Count(end, string(r))
		if open < 0 || open == 0 && string(r) == middle {
			return false
		}
	}
	return open == 0
}

func checkPipe(p *parse.PipeNode) error {
	if p != nil && (len(p.Cmds) != 1 || len(p.Decl) > 0) {
		return at(p, fmt.Errorf("pipes and variables are not supported"))
	}
	return nil
}
