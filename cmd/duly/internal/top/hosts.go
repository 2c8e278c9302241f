package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly/contract"
)

// hosts returns the hosts of the last sample: first those that are not open, then those with the
// most jobs held back.
func (m *Model) hosts() []contract.PushHost {
	if m.current == nil {
		return nil
	}

	// The sample belongs to the model, and drawing must not change it.
	hosts := slices.Clone(m.current.Hosts)
	slices.SortStableFunc(hosts, func(a, b contract.PushHost) int {
		// A host that is not open is the reason to look at this table.
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

func hostState(h *contract.PushHost) string {
	switch {
	case h.Open:
		return "open"
	case h.Closed > 0:
		return "closed"
	}
	return "probing"
}

// hostTable returns the hosts as a table of at most maxLines lines, or nil if there are none.
func (m *Model) hostTable(f *Format, width, maxLines int) []string {
	hosts := m.hosts()

	// A table of one line would have only the titles.
	if len(hosts) == 0 || maxLines < 2 {
		return nil
	}
	rows := [][]string{{"HOST", "STATE", "LIMIT", "IN FLIGHT", "HELD BACK", "USUAL"}}
	omitted := 0
	if len(hosts) > maxLines-1 { // the last line has the number of further hosts
		omitted = len(hosts) - (maxLines - 2)
		hosts = hosts[:maxLines-2]
	}
	for i := range hosts {
		h := &hosts[i]
		state, usual := hostState(h), ""

		// Only a closed host has a remaining time.
		if h.Closed > 0 {
			state += " " + f.Duration(h.Closed)
		}
		if h.Usual > 0 {
			usual = f.Duration(h.Usual)
		}
		rows = append(rows, []string{
			f.Safe(h.Host), state, strconv.Itoa(h.Limit), strconv.Itoa(h.InFlight), f.Count(int64(h.HeldBack)), usual,
		})
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
		lines = append(lines, f.line(width, span{style, padRow(row, widths)}))
	}
	if omitted > 0 {
		lines = append(lines, f.line(width, span{dim, fmt.Sprintf("… %s more hosts", f.Count(int64(omitted)))}))
	}
	return lines
}

// padRow joins the cells of a row. It aligns texts to the left and numbers to the right.
func padRow(row []string, widths []int) string {
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
