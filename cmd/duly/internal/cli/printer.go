package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"time"
)

// printer writes a command's results to standard output.
type printer struct {
	out    *bufio.Writer
	json   bool
	escape bool // escape the characters of JSON that a terminal acts on
	colour bool
	now    func() time.Time
}

func (a *app) newPrinter() *printer {
	terminal := a.env.Terminal(a.env.Stdout)
	return &printer{
		out: bufio.NewWriter(a.env.Stdout), json: a.json, now: a.env.Clock.Now, escape: terminal,
		colour: terminal && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb",
	}
}

// flush shows what was printed; a stream does so after each of its values.
func (p *printer) flush() error { return p.out.Flush() }

// printf writes text for people. Errors stay in the writer until flush.
func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// value writes one JSON value on a line of its own.
func (p *printer) value(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.line(line)
	return nil
}

// line writes one JSON text that is made already.
func (p *printer) line(text []byte) {
	if p.escape {
		text = escapeJSON(text)
	}
	p.out.Write(text)
	p.out.WriteByte('\n')
}

// style is an SGR sequence's number, "" for plain text.
type style string

// The styles that are used: few, and none of them carries meaning alone.
const (
	plain   style = ""
	bold    style = "1"
	dim     style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	blue    style = "34"
	magenta style = "35"
)

// paint dresses text that is safe to print.
func (p *printer) paint(s style, text string) string {
	if !p.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
