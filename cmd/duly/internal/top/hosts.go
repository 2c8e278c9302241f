package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// HostLine is one host of HTTP push as a machine reads it.
type HostLine struct {
	Host string `json:"host"`
	// State is open, closed or probing.
	State string `json:"state"`
	// Closed is how long the closure still lasts.
	Closed   string `json:"closed,omitempty"`
	Limit    int    `json:"limit"`
	InFlight int    `json:"in_flight"`
	HeldBack int    `json:"held_back"`
	Usual    string `json:"usual,omitempty"`
}

// HostLines returns the hosts in their order.
func (m *Model) HostLines() (lines []HostLine) {
	for _, h := range m.hosts() {
		line := HostLine{Host: h.Host, State: hostState(&h), Limit: h.Limit, InFlight: h.InFlight, HeldBack: h.HeldBack}
		if h.Closed > 0 {
			line.Closed = duly.FormatDuration(h.Closed)
		}
		if h.Usual > 0 {
			line.Usual = duly.FormatDuration(h.Usual)
		}
		lines = append(lines, line)
	}
	return lines
}

// hosts returns the hosts of the last sample: those that are not open first, then
// those with the most jobs held back.
func (m *Model) hosts() []wire.PushHost {
	if m.last == nil {
		return nil
	}
	hosts := slices.Clone(m.last.Hosts)
	slices.SortStableFunc(hosts, func(a, b wire.PushHost) int {
		if a.Open != b.Open {
			if b.Open {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.HeldBack, a.HeldBack), cmp.Compare(b.InFlight, a.InFlight))
	})
	return hosts
}

func hostState(h *wire.PushHost) string {
	switch {
	case h.Open:
		return "open"
	case h.Closed > 0:
		return "closed"
	}
	return "probing"
}

// hostTable returns the hosts as a table of at most so many lines, or nothing.
func (m *Model) hostTable(w *Words, width, most int) []string {
	hosts := m.hosts()
	if len(hosts) == 0 || most < 2 {
		return nil
	}
	rows := [][]string{{"HOST", "STATE", "LIMIT", "IN FLIGHT", "HELD BACK", "USUAL"}}
	left := 0
	if len(hosts) > most-1 {
		left = len(hosts) - (most - 2)
		hosts = hosts[:most-2]
	}
	for i := range hosts {
		h := &hosts[i]
		state, usual := hostState(h), ""
		if h.Closed > 0 {
			state += " " + w.Span(h.Closed)
		}
		if h.Usual > 0 {
			usual = w.Span(h.Usual)
		}
		rows = append(rows, []string{w.Safe(h.Host), state, strconv.Itoa(h.Limit), strconv.Itoa(h.InFlight), w.Count(int64(h.HeldBack)), usual})
	}

	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var lines []string
	for n, row := range rows {
		style := plain
		if n == 0 {
			style = bold
		} else if !hosts[n-1].Open {
			style = red
		}
		lines = append(lines, w.write(width, span{style, padded(row, widths)}))
	}
	if left > 0 {
		lines = append(lines, w.write(width, span{dim, fmt.Sprintf("… %s more hosts", w.Count(int64(left)))}))
	}
	return lines
}

// padded joins the cells of a row: texts to the left, numbers to the right.
func padded(row []string, widths []int) string {
	var b strings.Builder
	for i, text := range row {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		switch {
		case i == 0:
			b.WriteString(text + space)
		case i == 1:
			b.WriteString("  " + text + space)
		default:
			b.WriteString("  " + space + text)
		}
	}
	return b.String()
}
