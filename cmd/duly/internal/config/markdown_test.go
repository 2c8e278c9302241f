package config

import (
	"fmt"
	"strings"
	"time"
)

// markdown returns the table for docs/configuration.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("| key | flag | value | default | meaning | reload |\n| --- | --- | --- | --- | --- | :---: |\n")
	for _, s := range Table {
		reload := ""
		if s.Reloadable {
			reload = "✓"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s | %s |\n",
			s.Key, s.Flag, s.valueText(), s.defaultText(), strings.ReplaceAll(s.Meaning, "`", ""), reload)
	}
	return b.String()
}

// valueText returns the type of the value and its bounds.
func (s *Setting) valueText() string {
	switch {
	case s.oneOf != nil:
		return "`" + strings.Join(s.oneOf, "`, `") + "`"
	case s.max > 0 && s.kind.name == size.name:
		return "size, " + s.sizeBounds()
	case s.kind.name == count.name:
		return fmt.Sprintf("number, %d to %d", s.min, s.max)
	case s.step > 0:
		return "duration, whole seconds"
	case s.max > 0:
		return fmt.Sprintf("duration, %s to %s", duration.format(time.Duration(s.min)), duration.format(time.Duration(s.max)))
	}

	// The argument in backquotes says more than "text".
	if _, rest, found := strings.Cut(s.Meaning, "`"); found && s.kind.name == text.name {
		argument, _, _ := strings.Cut(rest, "`")
		return argument
	}
	return s.kind.name
}

// defaultText returns the default.
func (s *Setting) defaultText() string {
	if s.Default == "" {
		return s.Unset
	}
	return "`" + s.Default + "`"
}
