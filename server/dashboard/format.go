package dashboard

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly/server/dashboard/view"
)

// moment returns a time in UTC, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// since returns a time with its distance from now.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t) + ", " + distance(t, now)
}

// distance returns how far a time is from now, "" for none.
func distance(t, now time.Time) string {
	switch age := now.Sub(t); {
	case t.IsZero():
		return ""
	case age >= 0:
		return view.Duration(age) + " ago"
	default:
		return "in " + view.Duration(-age)
	}
}

// maxShown is how much of a body or a result a page has, in bytes.
const maxShown = 16 << 10

// text returns the beginning of a body, as text or in hex.
func text(body []byte) view.Text {
	if len(body) == 0 {
		return view.Text{Note: "Empty."}
	}
	shown, note := body, strconv.Itoa(len(body))+" bytes"
	if len(body) > maxShown {
		shown, note = body[:maxShown], fmt.Sprintf("%s, the first %d of them", note, maxShown)
	}
	if utf8.Valid(body) {
		return view.Text{Content: strings.ToValidUTF8(string(shown), ""), Note: note + "."}
	}
	return view.Text{Content: hex.Dump(shown), Note: note + ", in hexadecimal."}
}

// maxLine is how much of an error a list has, in bytes.
const maxLine = 200

// firstLine returns the beginning of an error for a list.
func firstLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if len(line) > maxLine {
		line, more = strings.ToValidUTF8(line[:maxLine], ""), true
	}
	if more {
		line += " …"
	}
	return line
}

// rate returns a number per second.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// spark draws numbers as blocks of eight heights, "" without a number.
func spark(list []float64) string {
	most := 0.0
	for _, v := range list {
		most = max(most, v)
	}
	if most == 0 {
		return ""
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	text := make([]rune, len(list))
	for i, v := range list {
		text[i] = blocks[min(7, int(8*v/most))]
	}
	return string(text)
}
