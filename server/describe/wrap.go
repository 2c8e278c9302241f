package describe

import "strings"

// width is the length of the longest line of docs/http-api.md, except for the rows of tables.
const width = 120

// wrap breaks the paragraphs of a text into lines.
func wrap(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = wrapParagraph(p)
	}
	return strings.Join(paragraphs, "\n\n")
}

func wrapParagraph(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// wrapJSON breaks a JSON text into lines, after the commas between its values.
func wrapJSON(text string) string {
	var b strings.Builder
	column, quoted, from := 0, false, 0
	put := func(part string) {
		// In a command the text is between the quotes of -d, which take a part of the width.
		if column > 0 && column+len(part) > width-len(`  -d ''`) {
			b.WriteByte('\n')
			column = 0
		}
		b.WriteString(part)
		column += len(part)
	}

	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // skips the next character, because it is escaped
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			put(text[from : i+1])
			from = i + 1
		}
	}
	put(text[from:])
	return b.String()
}
