package cli

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

func printerFor(out *strings.Builder, colour bool) *printer {
	return &printer{out: bufio.NewWriter(out), colour: colour, now: func() time.Time { return time.Time{} }}
}

func TestTableAlignsColumns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printerFor(&out, false)
	tab := p.newTable("NAME", ">JOBS", "NOTE")
	tab.add(txt("emails"), txt("7"), txt("paused"))
	tab.add(txt("größe"), txt("1 234"), txt(""))
	tab.flush()
	tab.add(txt("a-name-that-is-longer"), txt("1"), txt("x\ny"))
	tab.flush()
	tab.add(txt("short"), txt("1"), txt("still as wide"))
	tab.flush()
	p.flush()
	want := `NAME     JOBS  NOTE
emails      7  paused
größe   1 234
a-name-that-is-longer      1  x\ny
short                      1  still as wide
`
	if out.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestTableWithoutRows(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printerFor(&out, true)
	p.newTable("NAME").flush()
	p.flush()
	if out.String() != "" {
		t.Errorf("printed %q", out.String())
	}
}

// Escape sequences have no width.
func TestTableColoursKeepAlignment(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printerFor(&out, true)
	tab := p.newTable("STATE", "X")
	tab.add(cell{"dead", red}, txt("1"))
	tab.flush()
	p.flush()
	want := "\x1b[1mSTATE\x1b[0m  \x1b[1mX\x1b[0m\n\x1b[31mdead\x1b[0m   1\n"
	if out.String() != want {
		t.Errorf("table %q, want %q", out.String(), want)
	}
}
