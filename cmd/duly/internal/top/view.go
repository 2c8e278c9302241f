package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// Format formats numbers and texts.
type Format struct {
	Count    func(int64) string         // formats a number, like 1 234 567
	Duration func(time.Duration) string // formats a duration, like 3m12s
	// Safe escapes the control characters of a text.
	Safe func(string) string
	// Colour enables styles and colours.
	Colour bool
}

// column is a column of the table. Numbers are aligned to the right.
type column struct {
	title string
	key   string // key that selects the column for sorting
	drop  int    // columns with a higher value are left out first
	// number returns the value to sort by. It is nil for the name.
	number func(r *row) float64
	text   func(f *Format, r *row) string
	alarm  bool // whether values other than 0 are red
}

var columns = []column{
	{title: "QUEUE", key: "n", text: func(f *Format, r *row) string { return f.Safe(r.Name) + r.mark() }},
	sizeColumn("READY", "y", 0, duly.StateReady),
	sizeColumn("DELAYED", "d", 2, duly.StateDelayed),
	sizeColumn("BLOCKED", "b", 9, duly.StateBlocked),
	sizeColumn("LEASED", "l", 1, duly.StateLeased),
	withAlarm(sizeColumn("DEAD", "x", 3, duly.StateDead)),
	sizeColumn("DONE", "t", 10, duly.StateDone),
	rateColumn("PUSH/s", "u", 5, func(r *row) int64 { return r.delta.Pushed }),
	rateColumn("DELIV/s", "e", 8, func(r *row) int64 { return r.delta.Delivered }),
	rateColumn("ACK/s", "a", 4, func(r *row) int64 { return r.delta.Acked }),
	withAlarm(rateColumn("FAIL/s", "f", 6, func(r *row) int64 { return r.delta.Failed })),
	withAlarm(rateColumn("STALL/s", "i", 7, func(r *row) int64 { return r.delta.Stalled })),
	{
		title: "LATE", key: "o", drop: 1, number: func(r *row) float64 { return r.Stats.OldestReady.Seconds() },
		text: func(f *Format, r *row) string {
			if r.Stats.Sizes.Ready == 0 {
				return "-"
			}
			return f.Duration(r.Stats.OldestReady)
		},
	},
}

func sizeColumn(title, key string, drop int, state duly.State) column {
	n := func(r *row) int64 { return *r.Stats.Sizes.Of(state) }
	return column{
		title: title, key: key, drop: drop, number: func(r *row) float64 { return float64(n(r)) },
		text: func(f *Format, r *row) string { return f.Count(n(r)) },
	}
}

func rateColumn(title, key string, drop int, grown func(r *row) int64) column {
	return column{
		title: title, key: key, drop: drop, number: func(r *row) float64 { return float64(grown(r)) },
		text: func(f *Format, r *row) string {
			// A rate needs two samples.
			if r.elapsed == 0 {
				return "-"
			}
			return perSecond(f, r.rate(grown(r)))
		},
	}
}

func withAlarm(c column) column {
	c.alarm = true
	return c
}

// perSecond returns a rate, with one decimal if it is small.
func perSecond(f *Format, rate float64) string {
	// A larger rate would round to two digits before the point.
	if rate > 0 && rate < 9.95 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return f.Count(int64(rate + 0.5))
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

// span is a part of a line with one style.
type span struct{ style, text string }

// line joins spans to a line of at most width characters.
func (f *Format) line(width int, spans ...span) string {
	var b strings.Builder
	for _, s := range spans {
		text := truncate(s.text, width)
		width -= utf8.RuneCountInString(text)
		// Escapes have no width, so the text is cut before.
		if f.Colour && s.style != plain && text != "" {
			text = "\x1b[" + s.style + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// truncate returns the beginning of a string that fits.
func truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	if width < 1 {
		return ""
	}
	return string(runes[:width-1]) + "…"
}

// Table returns only the tables, for output without a terminal.
func (m *Model) Table(f *Format) []string {
	const unlimited = 1 << 20
	lines := m.table(f, m.rows(), unlimited)
	if hosts := m.hostTable(f, unlimited, unlimited); len(hosts) > 0 {
		lines = append(append(lines, ""), hosts...)
	}
	return lines
}

// View returns the lines of the view that fit, at most height lines.
func (m *Model) View(f *Format, width, height int) []string {
	rows := m.rows()
	lines := []string{m.headLine(f, width, len(rows)), m.totalLine(f, width, rows), m.statusLine(f, width)}

	// Hosts get a third at most, because queues matter more.
	room := max(height-len(lines)-2, 0) // without the lines of the titles and the help
	hosts := m.hostTable(f, width, room/3)
	if len(hosts) > 0 {
		room -= len(hosts) + 1
	}
	// The list may have become shorter since the last key.
	m.offset = min(max(m.offset, 0), max(len(rows)-room, 0))

	table := m.table(f, rows, width)
	visible := table[:1]
	if room > 0 {
		// The capacity is cut, so that append copies the rows instead of overwriting the table.
		visible = append(visible[:1:1], table[1+m.offset:min(1+m.offset+room, len(table))]...)
	}
	lines = append(lines, visible...)
	// Hosts and help keep their place at the bottom.
	for len(lines) < height-1-len(hosts) {
		lines = append(lines, "")
	}

	lines = append(lines, hosts...)
	lines = append(lines, f.line(width, span{dim, m.helpLine(len(rows), room)}))

	// A terminal with a few rows has no room for all lines.
	return lines[:min(len(lines), max(height, 0))]
}

// headLine returns the line with the engine, the interval and the number of queues.
func (m *Model) headLine(f *Format, width, shown int) string {
	counts := fmt.Sprintf("every %s, %s of %s queues",
		f.Duration(m.Interval), f.Count(int64(shown)), f.Count(int64(m.queueCount())))
	return f.line(width, span{bold, "duly top"}, span{plain, "  " + f.Safe(m.Title) + "  "}, span{dim, counts})
}

func (m *Model) queueCount() int {
	if m.current == nil {
		return 0
	}
	return len(m.current.Queues)
}

// totalLine returns the line with the sums of all rows.
func (m *Model) totalLine(f *Format, width int, rows []row) string {
	t := sumRows(rows)
	var spans []span
	for i := range columns {
		if c := &columns[i]; c.number != nil {
			style := plain
			if c.alarm && c.number(&t) > 0 {
				style = red
			}
			spans = append(spans, span{dim, strings.ToLower(c.title) + " "}, span{style, c.text(f, &t)}, span{plain, "  "})
		}
	}
	return f.line(width, spans...)
}

// statusLine returns the line with the filter, an error or a message.
func (m *Model) statusLine(f *Format, width int) string {
	// What the user types now is more important than an error, and an error more than a message.
	switch {
	case m.typing:
		return f.line(width, span{bold, "filter: "}, span{plain, m.filter + "_"})
	case m.err != nil:
		return f.line(width, span{red, "not read: " + f.Safe(m.err.Error())})
	case m.message != "":
		return f.line(width, span{yellow, f.Safe(m.message)})
	}

	var spans []span
	if m.frozen {
		spans = append(spans, span{yellow, "frozen  "})
	}
	if m.filter != "" {
		spans = append(spans, span{bold, "filter: "}, span{plain, m.filter + "  "})
	}
	if m.current != nil && m.current.Failed != nil {
		text := fmt.Sprintf("%s not read: %s", queues(f, m.current.Missing), f.Safe(firstLine(m.current.Failed)))
		spans = append(spans, span{red, text})
	}
	return f.line(width, spans...)
}

func queues(f *Format, n int) string {
	if n == 1 {
		return "1 queue"
	}
	return f.Count(int64(n)) + " queues"
}

// firstLine returns the first line of an error's text: the first of several errors.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func (m *Model) helpLine(rows, room int) string {
	more := ""
	if rows > room {
		more = fmt.Sprintf("%d-%d of %d  ", min(m.offset+1, rows), min(m.offset+room, rows), rows)
	}
	return more + "q quit  space freeze  / filter  s S sort  r reverse  j k scroll  enter now"
}

// table returns the titles and the rows, in as many columns as fit.
func (m *Model) table(f *Format, rows []row, width int) []string {
	cells := make([][]string, len(rows)+1)
	widths := make([]int, len(columns))
	for i := range cells {
		cells[i] = make([]string, len(columns))
		for k := range columns {
			text := columns[k].title
			if i > 0 {
				text = columns[k].text(f, &rows[i-1])
			}
			cells[i][k] = text
			widths[k] = max(widths[k], utf8.RuneCountInString(text))
		}
	}

	// The widths of the rows that are not visible count too, so that columns do not move while scrolling.
	visible := fitColumns(widths, width)
	lines := make([]string, len(cells))
	for i := range cells {
		var spans []span
		for _, k := range visible {
			spans = append(spans, m.cell(k, i, rows, cells[i][k], widths[k])...)
		}
		lines[i] = f.line(width, spans...)
	}
	return lines
}

// cell returns the text of column k, padded to the width of the column. Line 0 has the
// titles.
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
	// The mark must stay visible, however long the name is.
	if line > 0 && k == 0 && rows[line-1].mark() != "" {
		text, style = markedName(text, rows[line-1].mark(), width), yellow
	}

	text = truncate(text, width)
	gap := strings.Repeat(" ", width-utf8.RuneCountInString(text))
	if columns[k].number == nil {
		return []span{{style, text}, {plain, gap}}
	}
	return []span{{plain, "  " + gap}, {style, text}}
}

// markedName truncates a name, but not its mark.
func markedName(text, mark string, width int) string {
	name := strings.TrimSuffix(text, mark)
	return truncate(name, max(width-len(mark), 1)) + mark
}

// minNameWidth is the width to which names are truncated before a column is left out.
const minNameWidth = 12

// fitColumns returns the columns that fit. It truncates the names first.
func fitColumns(widths []int, width int) []int {
	dropped := map[int]bool{}
	for {
		need, next := 0, 0 // the width of the numbers, and the next column to drop

		// The name is column 0, which is never left out.
		for k := 1; k < len(columns); k++ {
			if dropped[k] {
				continue
			}
			need += 2 + widths[k]
			if next == 0 || columns[k].drop > columns[next].drop {
				next = k
			}
		}
		// Names keep a minimum width, and columns are dropped before it.
		if need+min(widths[0], minNameWidth) <= width || next == 0 {
			widths[0] = max(min(widths[0], width-need), 1)
			break
		}
		dropped[next] = true
	}

	var visible []int
	for k := range columns {
		if !dropped[k] {
			visible = append(visible, k)
		}
	}
	return visible
}
