package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Model is the state of the view. Its methods are not safe for concurrent use.
type Model struct {
	// Title is the first line: the engine and the namespace, without secrets.
	Title string
	// Interval is the time between two samples.
	Interval time.Duration

	current, previous *Sample
	err               error  // error of the last attempt to take a sample
	message           string // message that is shown until the next key
	frozen            bool   // whether no samples are taken
	typing            bool   // whether the user is typing the filter
	filter            string // part of a name; only matching queues are shown
	sort              int    // index of the column to sort by
	reverse           bool
	offset            int // index of the first visible row
}

// NewModel returns a Model without a sample.
func NewModel(title string, interval time.Duration) *Model {
	return &Model{Title: title, Interval: interval}
}

// Add adds a sample, or the error of an attempt to take one.
func (m *Model) Add(s *Sample, err error) {
	// An error keeps the last sample, so that the table stays visible.
	if m.err = err; err == nil {
		m.previous, m.current = m.current, s
	}
}

// Show shows a line until the next key.
func (m *Model) Show(line string) { m.message = line }

// row is one row of the table: a queue with its changes since the previous sample.
type row struct {
	Queue
	elapsed time.Duration // time since the previous sample; 0 if the queue is not in it
	delta   duly.Counters // growth of the counters since the previous sample
	closed  time.Duration // time until the queue opens; 0 if it is open
	empty   bool          // whether the rate allowed no delivery at the time of the sample
	wait    time.Duration // time until the rate allows the next delivery; 0 unless empty
}

// rate returns the growth per second.
func (r *row) rate(grown int64) float64 { return float64(grown) / r.elapsed.Seconds() }

// limited reports whether a limit holds ready jobs back: the queue has the maximum number of leased
// jobs, or its rate allows no delivery now, or it delivers at almost the maximum rate.
func (r *row) limited() bool {
	const nearly = 0.9

	t := &r.Throttle
	if r.Stats.Sizes.Ready == 0 {
		return false
	}

	// An adaptive limit enforces a share of the limits.
	factor := r.Stats.Factor
	if factor == 0 {
		factor = 1
	}
	full := t.MaxLeased > 0 && r.Stats.Sizes.Leased >= max(int64(factor*float64(t.MaxLeased)), 1)
	// A rate is never quite reached, because tokens come one by one.
	fast := t.Rate.Limited() && r.elapsed > 0 && r.rate(r.delta.Delivered) >= nearly*factor*t.Rate.PerSecond
	return full || fast || r.empty
}

// mark returns the mark after the name of a queue that holds ready jobs back.
func (r *row) mark() string {
	probing := r.Stats.Probing > 0
	switch {
	case r.Throttle.Paused:
		return " [paused]"
	case r.closed > 0:
		// A part of a second would change the width with every sample.
		text := " [closed " + duly.FormatDuration(max(r.closed.Round(time.Second), time.Second))
		if probing {
			text += ", probing"
		}
		return text + "]"
	case probing:
		return " [probing]"
	case r.Stats.Factor > 0 && r.Stats.Factor < 1:
		return " [" + LimitText(&r.Stats, r.Throttle) + "]"
	// Tokens that come faster would change the text with every sample.
	case r.limited() && r.wait >= time.Second:
		return " [limited, next in " + duly.FormatDuration(r.wait.Round(time.Second)) + "]"
	case r.limited():
		return " [limited]"
	}
	return ""
}

// rows returns the rows that match the filter, in the order of the view.
func (m *Model) rows() []row {
	if m.current == nil {
		return nil
	}
	previous := map[string]*duly.Stats{}
	if m.previous != nil {
		for i := range m.previous.Queues {
			previous[m.previous.Queues[i].Name] = &m.previous.Queues[i].Stats
		}
	}

	var rows []row
	for _, q := range m.current.Queues {
		if !strings.Contains(strings.ToLower(q.Name), strings.ToLower(m.filter)) {
			continue
		}
		r := row{Queue: q}
		if until := q.Stats.Closing.Until; !until.IsZero() {
			r.closed = max(0, until.Sub(m.current.Wall))
		}
		if next := q.Stats.NextToken; q.Throttle.Rate.Limited() && !next.IsZero() {
			r.empty, r.wait = true, max(0, next.Sub(m.current.Wall))
		}
		// A queue with fewer pushed jobs was destroyed and created again.
		if before := previous[q.Name]; before != nil && q.Stats.Counters.Pushed >= before.Counters.Pushed {
			r.compare(&before.Counters, m.current.At-m.previous.At)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, m.order)
	return rows
}

// compare sets the growth since the previous sample. If a counter has become smaller, the
// queue was created again, so compare sets nothing.
func (r *row) compare(before *duly.Counters, elapsed time.Duration) {
	now := &r.Stats.Counters
	g := duly.Counters{
		Pushed: now.Pushed - before.Pushed, Delivered: now.Delivered - before.Delivered, Acked: now.Acked - before.Acked,
		Failed: now.Failed - before.Failed, Stalled: now.Stalled - before.Stalled, Dead: now.Dead - before.Dead,
	}
	if elapsed > 0 && min(g.Pushed, g.Delivered, g.Acked, g.Failed, g.Stalled, g.Dead) >= 0 {
		r.elapsed, r.delta = elapsed, g
	}
}

// order compares two rows by the selected column, large numbers first, and then by name.
func (m *Model) order(a, b row) int {
	c := &columns[m.sort]
	result := 0
	if c.number != nil {
		result = cmp.Compare(c.number(&b), c.number(&a))
	} else {
		result = strings.Compare(a.Name, b.Name)
	}
	if m.reverse {
		result = -result
	}

	// Equal values are ordered by name, or rows would jump with each sample.
	return cmp.Or(result, strings.Compare(a.Name, b.Name))
}

// sumRows returns the sum of all rows.
func sumRows(rows []row) row {
	t := row{Queue: Queue{Name: "all"}}
	for i := range rows {
		r := &rows[i]
		for _, state := range duly.States {
			*t.Stats.Sizes.Of(state) += *r.Stats.Sizes.Of(state)
		}
		t.Stats.OldestReady = max(t.Stats.OldestReady, r.Stats.OldestReady)

		// New rows have no time yet. The other rows have the same time.
		t.elapsed = max(t.elapsed, r.elapsed)
		t.delta.Pushed += r.delta.Pushed
		t.delta.Delivered += r.delta.Delivered
		t.delta.Acked += r.delta.Acked
		t.delta.Failed += r.delta.Failed
		t.delta.Stalled += r.delta.Stalled
		t.delta.Dead += r.delta.Dead
	}
	return t
}

// Command is what the caller of HandleKey has to do after a key.
type Command int

// The commands.
const (
	Nothing Command = iota // only draws the view
	Quit
	Refresh // takes a sample now
)

// The keys that are not characters.
const (
	keyCtrlC     = "\x03"
	keyEscape    = "\x1b"
	keyBackspace = "\x7f"
	keyUp        = "\x1b[A"
	keyDown      = "\x1b[B"
	keyPageUp    = "\x1b[5~"
	keyPageDown  = "\x1b[6~"
	keyRight     = "\x1b[C"
	keyLeft      = "\x1b[D"
)

// HandleKey handles a key.
func (m *Model) HandleKey(key string) Command {
	// Ctrl-C quits always, even while the user types. Raw mode sends it as a key.
	if key == keyCtrlC {
		return Quit
	}
	m.message = ""
	// While the user types a name, no letter is a command.
	if m.typing {
		m.typeFilter(key)
		return Nothing
	}

	switch key {
	case "q", "Q":
		return Quit
	case "\r", "\n":
		return Refresh
	case " ":
		m.frozen = !m.frozen
	case "/":
		m.typing = true
	case keyEscape:
		m.filter, m.offset = "", 0
	case "r":
		m.reverse = !m.reverse
	case "s", keyRight:
		m.sort, m.reverse = (m.sort+1)%len(columns), false
	case "S", keyLeft:
		m.sort, m.reverse = (m.sort+len(columns)-1)%len(columns), false
	case "j", keyDown:
		m.offset++
	case "k", keyUp:
		m.offset--
	case keyPageDown:
		m.offset += pageSize
	case keyPageUp:
		m.offset -= pageSize
	default:
		for i := range columns {
			if columns[i].key == key {
				// The same key again reverses the order.
				m.sort, m.reverse = i, m.sort == i && !m.reverse
			}
		}
	}
	return Nothing
}

// pageSize is the number of rows that a page key scrolls.
const pageSize = 10

// typeFilter handles a key while the user types the filter.
func (m *Model) typeFilter(key string) {
	switch {
	case key == "\r" || key == "\n":
		m.typing = false
	case key == keyEscape:
		m.typing, m.filter = false, ""
	case key == keyBackspace || key == "\b":
		if m.filter != "" {
			m.filter = m.filter[:len(m.filter)-1]
		}
	// Names have no other characters than these.
	case len(key) == 1 && key[0] > ' ' && key[0] < 0x7f && len(m.filter) < duly.MaxName:
		m.filter += key
	}

	// The filter changes the rows, so the view begins at the top again.
	m.offset = 0
}

// Frozen reports whether the view is frozen, so that no samples are taken.
func (m *Model) Frozen() bool { return m.frozen }
