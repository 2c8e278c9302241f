package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Model is what is seen, and how. Its methods are for one goroutine.
type Model struct {
	// Title stands above: what is looked at, without a secret.
	Title string
	// Interval is the time between two samples.
	Interval time.Duration

	last, before *Sample
	err          error // of the last try to take a sample
	said         string
	frozen       bool   // no more samples are taken
	typing       bool   // the filter is being typed
	filter       string // part of a name
	sort         int    // into columns
	reverse      bool
	offset       int // of the first row that is shown
}

// NewModel returns a Model that has seen nothing yet.
func NewModel(title string, interval time.Duration) *Model {
	return &Model{Title: title, Interval: interval}
}

// See takes a sample, or the error with which there is none.
func (m *Model) See(s *Sample, err error) {
	if m.err = err; err == nil {
		m.before, m.last = m.last, s
	}
}

// Say shows a line until the next key.
func (m *Model) Say(line string) { m.said = line }

// row is one queue as it is shown.
type row struct {
	Queue
	passed time.Duration // since the sample before; 0: there is none to compare with
	grown  duly.Counters // by so much
}

// rate is per second.
func (r *row) rate(grown int64) float64 { return float64(grown) / r.passed.Seconds() }

// limited reports whether a limit holds ready jobs back: as many are leased as
// may be, or deliveries come about as fast as the rate allows.
func (r *row) limited() bool {
	const nearly = 0.9

	t := &r.Throttle
	if r.Stats.Sizes.Ready == 0 {
		return false
	}
	full := t.MaxLeased > 0 && r.Stats.Sizes.Leased >= int64(t.MaxLeased)
	fast := t.Rate.Limited() && r.passed > 0 && r.rate(r.grown.Delivered) >= nearly*t.Rate.PerSecond
	return full || fast
}

// mark is shown behind the name of a queue whose ready jobs are held back.
func (r *row) mark() string {
	switch {
	case r.Throttle.Paused:
		return " [paused]"
	case r.limited():
		return " [limited]"
	}
	return ""
}

// rows are those that are shown, in their order.
func (m *Model) rows() []row {
	if m.last == nil {
		return nil
	}
	old := map[string]*duly.Stats{}
	if m.before != nil {
		for i := range m.before.Queues {
			old[m.before.Queues[i].Name] = &m.before.Queues[i].Stats
		}
	}
	var rows []row
	for _, q := range m.last.Queues {
		if !strings.Contains(strings.ToLower(q.Name), strings.ToLower(m.filter)) {
			continue
		}
		r := row{Queue: q}
		if before := old[q.Name]; before != nil && q.Stats.Counters.Pushed >= before.Counters.Pushed {
			r.compare(&before.Counters, m.last.At-m.before.At)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, m.order)
	return rows
}

// compare tells what has happened since. Counters that have become smaller are
// those of another queue of the same name.
func (r *row) compare(before *duly.Counters, passed time.Duration) {
	now := &r.Stats.Counters
	g := duly.Counters{
		Pushed: now.Pushed - before.Pushed, Delivered: now.Delivered - before.Delivered, Acked: now.Acked - before.Acked,
		Failed: now.Failed - before.Failed, Stalled: now.Stalled - before.Stalled, Dead: now.Dead - before.Dead,
	}
	if passed > 0 && min(g.Pushed, g.Delivered, g.Acked, g.Failed, g.Stalled, g.Dead) >= 0 {
		r.passed, r.grown = passed, g
	}
}

// order is by the column that was chosen, numbers from the largest; then by
// name.
func (m *Model) order(a, b row) int {
	c := &columns[m.sort]
	way := 0
	if c.number != nil {
		way = cmp.Compare(c.number(&b), c.number(&a))
	} else {
		way = strings.Compare(a.Name, b.Name)
	}
	if m.reverse {
		way = -way
	}
	return cmp.Or(way, strings.Compare(a.Name, b.Name))
}

// total sums the rows.
func total(rows []row) row {
	t := row{Queue: Queue{Name: "all"}}
	for i := range rows {
		r := &rows[i]
		for _, state := range duly.States {
			*t.Stats.Sizes.Of(state) += *r.Stats.Sizes.Of(state)
		}
		t.Stats.OldestReady = max(t.Stats.OldestReady, r.Stats.OldestReady)
		t.passed = max(t.passed, r.passed)
		t.grown.Pushed += r.grown.Pushed
		t.grown.Delivered += r.grown.Delivered
		t.grown.Acked += r.grown.Acked
		t.grown.Failed += r.grown.Failed
		t.grown.Stalled += r.grown.Stalled
		t.grown.Dead += r.grown.Dead
	}
	return t
}

// Command is what a key asks of whoever runs the view.
type Command int

// The commands.
const (
	Nothing Command = iota // but draw
	Quit
	Refresh // take a sample now
)

// The keys that are no characters.
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

// Key heeds a key.
func (m *Model) Key(key string) Command {
	if key == keyCtrlC {
		return Quit
	}
	m.said = ""
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
		m.offset += page
	case keyPageUp:
		m.offset -= page
	default:
		for i := range columns {
			if columns[i].key == key {
				m.sort, m.reverse = i, m.sort == i && !m.reverse
			}
		}
	}
	return Nothing
}

// page is how far a page key goes.
const page = 10

// typeFilter heeds a key while the filter is typed.
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
	case len(key) == 1 && key[0] > ' ' && key[0] < 0x7f && len(m.filter) < duly.MaxName:
		m.filter += key
	}
	m.offset = 0
}

// Frozen reports whether the view stays as it is: no more samples are taken.
func (m *Model) Frozen() bool { return m.frozen }
