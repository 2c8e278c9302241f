package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// oneLine escapes the characters of a text that are not printable, such as control
// characters and those that change the direction of text. Otherwise a job's body could
// move the cursor of a terminal or forge a line.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, isUnsafe) && utf8.ValidString(text) {
		return text
	}

	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		// range yields U+FFFD for an invalid byte too. Only the bytes of the text show the difference.
		case r == utf8.RuneError && strings.HasPrefix(text[i:], "\ufffd"):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isUnsafe(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isUnsafe(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// preview returns the beginning of a body for a table.
func preview(body []byte, runes int) string {
	// A rune has at most four bytes, so this prefix contains enough of them without escaping a large body.
	text := oneLine(string(body[:min(len(body), 4*runes)]))
	if n := utf8.RuneCountInString(text); n <= runes && len(body) <= 4*runes {
		return text
	}
	short := []rune(text)
	return string(short[:min(runes, len(short))]) + "…"
}

// bytesText returns a size in bytes: 17 B, 3.4 KiB, 12 MiB.
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0

	// 1023.5 is the first value that rounds to 1024, which belongs to the next unit.
	for f >= 1023.5 && unit < 5 {
		f, unit = f/1024, unit+1
	}
	return threeDigits(f) + " " + string("BKMGTP"[unit]) + "iB"
}

// threeDigits rounds a number to an integer, or to one decimal if it is below 10.
func threeDigits(f float64) string {
	// 9.95 rounds to 10.0, which would have three digits.
	if f < 9.95 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(f), 'f', 0, 64)
}

// countText returns a number with grouped digits: 1 234 567.
func countText(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}

	// The groups are cut from the end, so the positions before it stay valid.
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return sign + digits
}

// countOrNone returns a number that may be none.
func countOrNone(n int) string {
	if n == duly.None {
		return "none"
	}
	return countText(int64(n))
}

// durationText returns a duration that may be none.
func durationText(d time.Duration) string {
	if d == duly.None {
		return "none"
	}
	return duly.FormatDuration(d)
}

// shortDuration returns a duration in at most two units: 250ms, 4.2s, 3m12s, 2h5m, 3d4h.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour

	// Each step rounds to a unit that a person would still say.
	switch {
	case d == math.MaxInt64, d == math.MinInt64: // the difference of two times is at most that
		return "more than 292y"
	case d < 0:
		return "-" + shortDuration(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return duly.FormatDuration(d.Round(100 * time.Millisecond))
	case d < time.Hour:
		return duly.FormatDuration(d.Round(time.Second))
	case d < day:
		return duly.FormatDuration(d.Round(time.Minute))
	case d < 100*day:
		d = d.Round(time.Hour)
		if d%day == 0 {
			return duly.FormatDuration(d)
		}
		return duly.FormatDuration(d/day*day) + duly.FormatDuration(d%day)
	}
	return duly.FormatDuration(d.Round(day))
}

// relative returns a time relative to now: "in 3s", "2m ago" or "now". It returns "" for
// the zero time.
func relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return ""
	case d > 0:
		return "in " + shortDuration(d)
	case d == 0:
		return "now"
	default:
		return shortDuration(-d) + " ago"
	}
}

// stamp returns a time in the format of the wire, "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// momentText returns a time both absolute and relative, "" for the zero time.
func momentText(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t) + " (" + relative(t, now) + ")"
}

// plural returns "1 job" or "2 jobs".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return countText(n) + " " + noun + "s"
}
