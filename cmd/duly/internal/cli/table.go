package cli

import (
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	title string
	right bool // whether to align to the right, for numbers
}

// cell is a text with a style.
type cell struct {
	text  string
	style style
}

func txt(text string) cell { return cell{text: text} }

// table prints rows in aligned columns. It holds rows until flush, to know the widths of
// the columns. A long list flushes each page, and its columns never become narrower.
type table struct {
	p       *printer
	columns []column
	widths  []int
	rows    [][]cell
	started bool
}

// newTable returns a table with these titles. A title that begins with ">" belongs to a
// column that is aligned to the right.
func (p *printer) newTable(titles ...string) *table {
	t := &table{p: p, columns: make([]column, len(titles)), widths: make([]int, len(titles))}
	for i, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		t.columns[i] = column{name, right}
		t.widths[i] = utf8.RuneCountInString(name)
	}
	return t
}

// add adds a row. It makes every text safe to print.
func (t *table) add(cells ...cell) {
	for i := range cells {
		// Escaping comes before the width is measured, because it changes the length.
		cells[i].text = oneLine(cells[i].text)
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cells[i].text))
	}
	t.rows = append(t.rows, cells)
}

// flush prints the rows since the last flush, and before the first row the titles. A
// table without rows prints nothing.
func (t *table) flush() {
	if len(t.rows) == 0 {
		return
	}
	if !t.started {
		t.started = true
		titles := make([]cell, len(t.columns))
		for i, c := range t.columns {
			titles[i] = cell{c.title, bold}
		}
		t.write(titles)
	}
	for _, row := range t.rows {
		t.write(row)
	}

	// The widths stay, so that the columns of the next page align with this one.
	t.rows = t.rows[:0]
}

// write prints a row, with two spaces between columns and none after the last text.
func (t *table) write(row []cell) {
	// Trailing empty cells need no padding.
	last := len(row) - 1
	for last > 0 && row[last].text == "" {
		last--
	}

	var b strings.Builder
	for i, c := range row[:last+1] {
		// The padding is computed without the style, whose escape sequences have no width.
		gap := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.text))
		if i > 0 {
			b.WriteString("  ")
		}
		if t.columns[i].right {
			b.WriteString(gap)
		}
		b.WriteString(t.p.paint(c.style, c.text))
		if !t.columns[i].right && i < last {
			b.WriteString(gap)
		}
	}
	t.p.printf("%s\n", b.String())
}

// pairs prints names and texts, a pair per line. It leaves out pairs without a text.
func (p *printer) pairs(cells ...cell) {
	width := 0
	for i := 0; i < len(cells); i += 2 {
		// A pair without a text is not printed, so its name must not widen the column.
		if cells[i+1].text != "" {
			width = max(width, len(cells[i].text))
		}
	}
	for i := 0; i < len(cells); i += 2 {
		if name, c := cells[i].text, cells[i+1]; c.text != "" {
			gap := strings.Repeat(" ", width-len(name))
			p.printf("%s%s  %s\n", p.paint(dim, name), gap, p.paint(c.style, oneLine(c.text)))
		}
	}
}
