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
	escape bool // escape control characters in JSON, for a terminal
	colour bool
	now    func() time.Time
}

func (a *app) newPrinter() *printer {
	terminal := a.env.Terminal(a.env.Stdout)
	return &printer{
		out: bufio.NewWriter(a.env.Stdout), json: a.json, now: a.env.Clock.Now,
		escape: terminal,
		// NO_COLOR and TERM=dumb are the two conventions by which users turn colours off.
		colour: terminal && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb",
	}
}

// flush writes the buffered output. A command that streams values calls it after each.
func (p *printer) flush() error { return p.out.Flush() }

// printf prints text. Its errors are returned by flush.
func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// value prints a JSON value on a line.
func (p *printer) value(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.line(line)
	return nil
}

// line prints an encoded JSON value.
func (p *printer) line(text []byte) {
	if p.escape {
		text = escapeJSON(text)
	}
	p.out.Write(text)
	p.out.WriteByte('\n')
}

// style is the number of an SGR escape sequence, "" for plain text.
type style string

// The styles of texts. Without styles, the text has the same meaning.
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

// paint adds a style to text that is safe to print.
func (p *printer) paint(s style, text string) string {
	if !p.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
