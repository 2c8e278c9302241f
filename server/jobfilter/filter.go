package jobfilter

import (
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// MaxLength is the maximum length of the conditions, in bytes.
	MaxLength = 256
	// MaxConditions is the maximum number of conditions.
	MaxConditions = 10
)

// Filter selects jobs. The zero Filter selects every job.
type Filter struct {
	conditions      []condition
	bodies, headers bool
}

// condition is one condition on a job.
type condition struct {
	holds func(j *duly.JobInfo) bool
	not   bool
}

// Parse reads conditions. now is the time from which ages count. The error is [duly.ErrInvalid] and names the condition.
func Parse(text string, now time.Time) (*Filter, error) {
	if len(text) > MaxLength {
		return nil, contract.Invalid("where", "has %d bytes, may have at most %d", len(text), MaxLength)
	}

	f := &Filter{}
	for rest := strings.TrimLeft(text, spaces); rest != ""; rest = strings.TrimLeft(rest, spaces) {
		word, after, err := cutWord(rest)
		if err != nil {
			return nil, err
		}
		if rest = after; len(f.conditions) == MaxConditions {
			return nil, contract.Invalid("where", "has more than %d conditions", MaxConditions)
		}
		c, err := f.parse(word, now)
		if err != nil {
			return nil, err
		}
		f.conditions = append(f.conditions, c)
	}
	return f, nil
}

// Empty reports whether every job matches.
func (f *Filter) Empty() bool { return len(f.conditions) == 0 }

// Bodies reports whether Match needs the bodies of jobs.
func (f *Filter) Bodies() bool { return f.bodies }

// Content reports whether Match reads what the caller of a job has passed: its body, its headers or its result.
func (f *Filter) Content() bool { return f.bodies || f.headers }

// Match reports whether all conditions hold for a job.
func (f *Filter) Match(j *duly.JobInfo) bool {
	return !slices.ContainsFunc(f.conditions, func(c condition) bool { return c.holds(j) == c.not })
}

// word is a condition as it is written: a field, an operator and a value.
type word struct {
	text, field, op, value string
}

// spaces separate conditions. A text of several lines comes from a script.
const spaces = " \t\r\n"

// operators are those of conditions. A longer one is before its beginning.
var operators = []string{">=", "<=", ":", "~", ">", "<", "="}

// cutWord cuts the first condition from a text. Quotes in a value may have spaces between them, and \" and \\ inside.
func cutWord(text string) (w word, rest string, err error) {
	at := strings.IndexAny(text, ":~<>=\""+spaces)
	if at < 0 || strings.ContainsRune("\""+spaces, rune(text[at])) {
		bare, _ := cutSpace(text)
		return w, "", contract.Invalid("where", "has %.60q without an operator; write a condition such as error~timeout",
			bare)
	}

	w.field, rest = text[:at], text[at:]
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			w.op, rest = op, rest[len(op):]
			break
		}
	}
	if !strings.HasPrefix(rest, `"`) {
		w.value, rest = cutSpace(rest)
	} else if w.value, rest, err = cutQuoted(rest[1:]); err != nil {
		return w, "", err
	}
	w.text = strings.TrimSpace(text[:len(text)-len(rest)])

	if w.value == "" {
		return w, "", contract.Invalid("where", "has %.60q without a value", w.text)
	}
	return w, rest, nil
}

// cutSpace cuts a text before its first space.
func cutSpace(text string) (before, rest string) {
	if at := strings.IndexAny(text, spaces); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// cutQuoted cuts a value up to its closing quote.
func cutQuoted(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if i+1 < len(text) && !strings.Contains(spaces, text[i+1:i+2]) {
				return "", "", contract.Invalid("where", "has %.20q after a closing quote; write a space", text[i+1:])
			}
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", contract.Invalid("where", "has %.60q without a closing quote", `"`+text)
}
