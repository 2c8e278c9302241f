package render

import (
	"fmt"
	"slices"
	"strings"
)

// context is a place in a template: where in the HTML the next byte is.
type context struct {
	state state
	// element is the name of the open tag, or of the raw element whose text follows.
	element string
	// attribute is the name of the attribute whose value follows.
	attribute string
	// glued is set after a branch that ended with an attribute's name: the name must end here.
	glued bool
	// empty is set at the beginning of an attribute's value.
	empty bool
}

type state uint8

const (
	inText state = iota
	inComment
	inTagName
	inTag           // between attributes
	inAttributeName // the name grows with each byte
	beforeValue     // after the equals sign
	inValue         // in double quotes
	inScript        // in a script element, which must be empty
)

// urlAttributes take a URL.
var urlAttributes = []string{"href", "src", "action", "formaction", "poster"}

// forbiddenAttributes hold code or styles, or take a URL that nobody needs.
var forbiddenAttributes = []string{"style", "srcdoc", "srcset", "ping", "data"}

func (c context) takesURL() bool {
	return slices.Contains(urlAttributes, c.attribute)
}

// checkAttribute refuses attributes that hold code.
func (c context) checkAttribute() error {
	if strings.HasPrefix(c.attribute, "on") || slices.Contains(forbiddenAttributes, c.attribute) {
		return fmt.Errorf("the attribute %s is not permitted", c.attribute)
	}
	return nil
}

// checkValue refuses literal values that the browser would execute.
func (c context) checkValue(text string) error {
	if strings.Contains(text, "javascript:") {
		return fmt.Errorf("the attribute %s has code", c.attribute)
	}
	return nil
}

// endName returns the context at the end of a branch, where an attribute's name ends too.
func (c context) endName() (context, error) {
	if c.state != inAttributeName {
		return c, nil
	}
	err := c.checkAttribute()
	c.state, c.attribute, c.glued = inTag, "", true
	return c, err
}

// advance returns the context after a literal text.
func (c context) advance(text string) (context, error) {
	for text != "" && c.state != inComment {
		var err error
		if c, text, err = c.step(text); err != nil {
			return c, err
		}
	}
	if c.state == inComment && text != "" {
		_, rest, ended := strings.Cut(text, "-->")
		if ended {
			return context{}.advance(rest)
		}
	}
	return c, nil
}

// step reads the next token of a string.
func (c context) step(text string) (context, string, error) {
	switch c.state {
	case inText:
		return c.stepText(text)
	case inTagName, inTag, inAttributeName:
		return c.stepTag(text)
	case beforeValue:
		if text[0] != '"' {
			return c, text, fmt.Errorf("the value of the attribute %s is not in double quotes", c.attribute)
		}
		c.state, c.empty = inValue, true
		return c, text[1:], nil
	case inValue:
		value, rest, ended := strings.Cut(text, `"`)
		err := c.checkValue(value)
		c.empty = c.empty && value == ""
		if ended {
			c.state, c.attribute, c.empty = inTag, "", false
		}
		return c, rest, err
	default: // inScript
		if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "</script>"); ok {
			return context{}, rest, nil
		}
		return c, text, fmt.Errorf("a script element has content; it must be empty")
	}
}

func (c context) stepText(text string) (context, string, error) {
	_, rest, found := strings.Cut(text, "<")
	switch {
	case !found:
		return c, "", nil
	case strings.HasPrefix(rest, "!--"):
		return context{state: inComment}, rest[3:], nil
	default:
		return context{state: inTagName}, rest, nil
	}
}

// stepTag reads one byte of a tag.
func (c context) stepTag(text string) (context, string, error) {
	b, rest := text[0], text[1:]
	space := strings.IndexByte(" \t\n", b) >= 0

	// A name ends here, so it can be judged.
	if c.state == inAttributeName && (space || b == '=' || b == '>' || b == '/') {
		if err := c.checkAttribute(); err != nil {
			return c, text, err
		}
	}
	if c.glued && !space && b != '>' && b != '/' {
		return c, text, fmt.Errorf("an attribute's name continues after a branch; end it inside the branch")
	}
	c.glued = false
	switch {
	case b == '>':
		switch c.element {
		case "style", "iframe", "object", "embed", "base":
			return c, text, fmt.Errorf("the element %s is not permitted", c.element)
		case "script":
			return context{state: inScript}, rest, nil
		}
		return context{}, rest, nil
	case b == '"' || b == '\'' || b == '<':
		return c, text, fmt.Errorf("a tag has the byte %q outside a value", b)
	case b == '=' && c.state == inAttributeName:
		c.state = beforeValue
	case space:
		c.state, c.attribute = inTag, ""
	case c.state == inTagName:
		c.element += string(b)
	case c.state == inTag && b != '/':
		c.state, c.attribute = inAttributeName, string(b)
	case c.state == inAttributeName:
		c.attribute += string(b)
	}
	return c, rest, nil
}
