package config

import (
	"fmt"
	"strings"
	"time"
)

// Markdown is the table as docs/configuration.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key | flag | value | default | meaning | reload |\n| --- | --- | --- | --- | --- | :---: |\n")
	for _, s := range Table {
		reload := ""
		if s.Live {
			reload = "✓"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s | %s |\n", s.Key, s.Flag, s.values(), s.unset(), strings.ReplaceAll(s.Meaning, "`", ""), reload)
	}
	return b.String()
}

// values says what the setting may be.
func (s *Setting) values() string {
	switch {
	case s.oneOf != nil:
		return "`" + strings.Join(s.oneOf, "`, `") + "`"
	case s.most > 0 && s.kind.name == size.name:
		return "size, " + s.bounds()
	case s.kind.name == count.name:
		return fmt.Sprintf("number, %d to %d", s.least, s.most)
	case s.step > 0:
		return "duration, whole seconds"
	case s.most > 0:
		return fmt.Sprintf("duration, %s to %s", span.show(time.Duration(s.least)), span.show(time.Duration(s.most)))
	}
	if _, rest, found := strings.Cut(s.Meaning, "`"); found && s.kind.name == text.name {
		argument, _, _ := strings.Cut(rest, "`")
		return argument
	}
	return s.kind.name
}

func (s *Setting) unset() string {
	if s.Default == "" {
		return s.Unset
	}
	return "`" + s.Default + "`"
}
