package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// Words is how numbers and texts are written.
type Words struct {
	Count func(int64) string         // 1 234 567
	Span  func(time.Duration) string // 3m12s
	// Safe makes a text from outside harmless for a terminal.
	Safe func(string) string
	// Colour lets the view use more than plain text.
	Colour bool
}

// column is one of the table. Numbers stand at its right.
type column struct {
	title string
	key   string // that sorts by it
	drop  int    // the higher, the sooner it goes where there is no room
	// number is what is shown and sorted by; nil: the name.
	number func(r *row) float64
	text   func(w *Words, r *row) string
	alarm  bool // anything but 0 is no good
}

var columns = []column{
	{title: "QUEUE", key: "n", text: func(w *Words, r *row) string { return w.Safe(r.Name) + r.mark() }},
	size("READY", "y", 0, duly.StateReady),
	size("DELAYED", "d", 2, duly.StateDelayed),
	size("BLOCKED", "b", 9, duly.StateBlocked),
	size("LEASED", "l", 1, duly.StateLeased),
	alarming(size("DEAD", "x", 3, duly.StateDead)),
	size("DONE", "t", 10, duly.StateDone),
	speed("PUSH/s", "u", 5, func(r *row) int64 { return r.grown.Pushed }),
	speed("DELIV/s", "e", 8, func(r *row) int64 { return r.grown.Delivered }),
	speed("ACK/s", "a", 4, func(r *row) int64 { return r.grown.Acked }),
	alarming(speed("FAIL/s", "f", 6, func(r *row) int64 { return r.grown.Failed })),
	alarming(speed("STALL/s", "i", 7, func(r *row) int64 { return r.grown.Stalled })),
	{
		title: "LATE", key: "o", drop: 1, number: func(r *row) float64 { return r.Stats.OldestReady.Seconds() },
		text: func(w *Words, r *row) string {
			if r.Stats.Sizes.Ready == 0 {
				return "-"
			}
			return w.Span(r.Stats.OldestReady)
		},
	},
}

func size(title, key string, drop int, state duly.State) column {
	n := func(r *row) int64 { return *r.Stats.Sizes.Of(state) }
	return column{
		title: title, key: key, drop: drop, number: func(r *row) float64 { return float64(n(r)) },
		text: func(w *Words, r *row) string { return w.Count(n(r)) },
	}
}

func speed(title, key string, drop int, grown func(r *row) int64) column {
	return column{
		title: title, key: key, drop: drop, number: func(r *row) float64 { return float64(grown(r)) },
		text: func(w *Words, r *row) string {
			if r.passed == 0 {
				return "-"
			}
			return perSecond(w, r.rate(grown(r)))
		},
	}
}

func alarming(c column) column {
	c.alarm = true
	return c
}

// perSecond keeps a decimal for small rates.
func perSecond(w *Words, rate float64) string {
	if rate > 0 && rate < 9.95 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return w.Count(int64(rate + 0.5))
}

// The styles, as SGR numbers.
const (
	plain   = ""
	bold    = "1"
	dim     = "2"
	red     = "31"
	yellow  = "33"
	inverse = "7"
)

// span is a piece of a line.
type span struct{ style, text string }

// write puts spans into one line of at most width characters.
func (w *Words) write(width int, spans ...span) string {
	var b strings.Builder
	for _, s := range spans {
		text := cut(s.text, width)
		width -= utf8.RuneCountInString(text)
		if w.Colour && s.style != plain && text != "" {
			text = "\x1b[" + s.style + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// cut is the beginning of a text that fits.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	if width < 1 {
		return ""
	}
	return string(runes[:width-1]) + "…"
}

// Table is the rows alone, as they are printed where there is no terminal.
func (m *Model) Table(w *Words) []string {
	const wide = 1 << 20
	lines := m.table(w, m.rows(), wide)
	if hosts := m.hostTable(w, wide, wide); len(hosts) > 0 {
		lines = append(append(lines, ""), hosts...)
	}
	return lines
}

// View draws as much as fits, a line each and at most height of them.
func (m *Model) View(w *Words, width, height int) []string {
	rows := m.rows()
	lines := []string{m.head(w, width, len(rows)), m.sum(w, width, rows), m.state(w, width)}
	room := max(height-len(lines)-2, 0) // the titles, and the help below
	hosts := m.hostTable(w, width, room/3)
	if len(hosts) > 0 {
		room -= len(hosts) + 1
	}
	m.offset = min(max(m.offset, 0), max(len(rows)-room, 0))
	table := m.table(w, rows, width)
	shown := table[:1]
	if room > 0 {
		shown = append(shown[:1:1], table[1+m.offset:min(1+m.offset+room, len(table))]...)
	}
	lines = append(lines, shown...)
	for len(lines) < height-1-len(hosts) {
		lines = append(lines, "")
	}
	lines = append(lines, hosts...)
	lines = append(lines, w.write(width, span{dim, m.help(len(rows), room)}))
	return lines[:min(len(lines), max(height, 0))]
}

func (m *Model) head(w *Words, width, shown int) string {
	return w.write(width, span{bold, "duly top"}, span{plain, "  " + w.Safe(m.Title) + "  "},
		span{dim, fmt.Sprintf("every %s, %s of %s queues", w.Span(m.Interval), w.Count(int64(shown)), w.Count(int64(m.seen())))})
}

func (m *Model) seen() int {
	if m.last == nil {
		return 0
	}
	return len(m.last.Queues)
}

// sum is the line of everything together.
func (m *Model) sum(w *Words, width int, rows []row) string {
	t := total(rows)
	var spans []span
	for i := range columns {
		if c := &columns[i]; c.number != nil {
			style := plain
			if c.alarm && c.number(&t) > 0 {
				style = red
			}
			spans = append(spans, span{dim, strings.ToLower(c.title) + " "}, span{style, c.text(w, &t)}, span{plain, "  "})
		}
	}
	return w.write(width, spans...)
}

// state is what else is to be said.
func (m *Model) state(w *Words, width int) string {
	switch {
	case m.typing:
		return w.write(width, span{bold, "filter: "}, span{plain, m.filter + "_"})
	case m.err != nil:
		return w.write(width, span{red, "not read: " + w.Safe(m.err.Error())})
	case m.said != "":
		return w.write(width, span{yellow, w.Safe(m.said)})
	}
	var spans []span
	if m.frozen {
		spans = append(spans, span{yellow, "frozen  "})
	}
	if m.filter != "" {
		spans = append(spans, span{bold, "filter: "}, span{plain, m.filter + "  "})
	}
	if m.last != nil && m.last.Untold != nil {
		spans = append(spans, span{red, fmt.Sprintf("%s not read: %s", queues(w, m.last.Lacking), w.Safe(firstLineOf(m.last.Untold)))})
	}
	return w.write(width, spans...)
}

func queues(w *Words, n int) string {
	if n == 1 {
		return "1 queue"
	}
	return w.Count(int64(n)) + " queues"
}

// firstLineOf is what is wrong with the first of several.
func firstLineOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func (m *Model) help(rows, room int) string {
	more := ""
	if rows > room {
		more = fmt.Sprintf("%d-%d of %d  ", min(m.offset+1, rows), min(m.offset+room, rows), rows)
	}
	return more + "q quit  space freeze  / filter  s S sort  r reverse  j k scroll  enter now"
}

// table is the titles and the rows, in as many columns as have room.
func (m *Model) table(w *Words, rows []row, width int) []string {
	cells := make([][]string, len(rows)+1)
	widths := make([]int, len(columns))
	for i := range cells {
		cells[i] = make([]string, len(columns))
		for k := range columns {
			text := columns[k].title
			if i > 0 {
				text = columns[k].text(w, &rows[i-1])
			}
			cells[i][k] = text
			widths[k] = max(widths[k], utf8.RuneCountInString(text))
		}
	}
	chosen := choose(widths, width)
	lines := make([]string, len(cells))
	for i := range cells {
		var spans []span
		for _, k := range chosen {
			spans = append(spans, m.cell(k, i, rows, cells[i][k], widths[k])...)
		}
		lines[i] = w.write(width, spans...)
	}
	return lines
}

// cell is a cell's text with what keeps it in its column.
func (m *Model) cell(k, line int, rows []row, text string, width int) []span {
	style := plain
	switch c := &columns[k]; {
	case line == 0 && k == m.sort:
		style = inverse
	case line == 0:
		style = bold
	case c.alarm && c.number(&rows[line-1]) > 0:
		style = red
	case text == "0" || text == "-":
		style = dim
	}
	if line > 0 && k == 0 && rows[line-1].mark() != "" {
		text, style = markedName(text, rows[line-1].mark(), width), yellow
	}
	text = cut(text, width)
	gap := strings.Repeat(" ", width-utf8.RuneCountInString(text))
	if columns[k].number == nil {
		return []span{{style, text}, {plain, gap}}
	}
	return []span{{plain, "  " + gap}, {style, text}}
}

// markedName cuts the name and keeps the mark behind it.
func markedName(text, mark string, width int) string {
	name := strings.TrimSuffix(text, mark)
	return cut(name, max(width-len(mark), 1)) + mark
}

// leastName is how short a name is cut before a column goes.
const leastName = 12

// choose are the columns that have room together. The name gives way first.
func choose(widths []int, width int) []int {
	gone := map[int]bool{}
	for {
		need, worst := 0, 0
		for k := 1; k < len(columns); k++ {
			if gone[k] {
				continue
			}
			need += 2 + widths[k]
			if worst == 0 || columns[k].drop > columns[worst].drop {
				worst = k
			}
		}
		if need+min(widths[0], leastName) <= width || worst == 0 {
			widths[0] = max(min(widths[0], width-need), 1)
			break
		}
		gone[worst] = true
	}
	var chosen []int
	for k := range columns {
		if !gone[k] {
			chosen = append(chosen, k)
		}
	}
	return chosen
}
