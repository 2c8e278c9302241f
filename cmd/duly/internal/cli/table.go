package cli

import (
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	title string
	right bool // numbers end at the same place
}

// cell is one text of a row.
type cell struct {
	text  string
	style style
}

func txt(text string) cell { return cell{text: text} }

// table writes rows under aligned columns. Rows are kept until flush, so that
// the columns fit; a long list flushes page by page, and its columns never
// become narrower.
type table struct {
	p       *printer
	columns []column
	widths  []int
	rows    [][]cell
	begun   bool
}

// newTable takes the titles; one that begins with ">" is that of a column that
// is aligned to the right.
func (p *printer) newTable(titles ...string) *table {
	t := &table{p: p, columns: make([]column, len(titles)), widths: make([]int, len(titles))}
	for i, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		t.columns[i] = column{name, right}
		t.widths[i] = utf8.RuneCountInString(name)
	}
	return t
}

// add takes a row; every text is made safe to print.
func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = oneLine(cells[i].text)
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cells[i].text))
	}
	t.rows = append(t.rows, cells)
}

// flush writes the rows that were added since the last one, and before the
// first of them the titles. A table without rows writes nothing.
func (t *table) flush() {
	if len(t.rows) == 0 {
		return
	}
	if !t.begun {
		t.begun = true
		titles := make([]cell, len(t.columns))
		for i, c := range t.columns {
			titles[i] = cell{c.title, bold}
		}
		t.write(titles)
	}
	for _, row := range t.rows {
		t.write(row)
	}
	t.rows = t.rows[:0]
}

// write puts two blanks between columns and none behind the last text.
func (t *table) write(row []cell) {
	last := len(row) - 1
	for last > 0 && row[last].text == "" {
		last--
	}
	var b strings.Builder
	for i, c := range row[:last+1] {
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

// pairs writes a card of names and texts below each other; pairs without a
// text are left out.
func (p *printer) pairs(of ...cell) {
	width := 0
	for i := 0; i < len(of); i += 2 {
		if of[i+1].text != "" {
			width = max(width, len(of[i].text))
		}
	}
	for i := 0; i < len(of); i += 2 {
		if name, c := of[i].text, of[i+1]; c.text != "" {
			p.printf("%s%s  %s\n", p.paint(dim, name), strings.Repeat(" ", width-len(name)), p.paint(c.style, oneLine(c.text)))
		}
	}
}
