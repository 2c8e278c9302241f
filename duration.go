package duly

import (
	"strconv"
	"strings"
	"time"
)

// ParseDuration parses a duration in the form of every wire, flag and configuration. It
// has Go's syntax (time.ParseDuration), with days of 24 hours in front: "90d", "1d12h",
// "1h30m" or "250ms". For any other text it returns [ErrInvalid].
func ParseDuration(text string) (time.Duration, error) {
	bad := func() (time.Duration, error) { return 0, invalid("duration", "%s", notADuration(text)) }
	days, rest, found := strings.Cut(text, "d")
	if !found {
		d, err := time.ParseDuration(text)
		if err != nil {
			return bad()
		}
		return d, nil
	}

	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > 106_751 || n < -106_751 { // more days than that overflow a Duration
		return bad()
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}

	r, err := time.ParseDuration(rest)
	// A second sign is not part of the form, even before a zero.
	if err != nil || r < 0 || strings.ContainsAny(rest[:1], "+-") {
		return bad()
	}
	// The sign in front applies to the whole text.
	if n < 0 {
		r = -r
	}

	// The sum has overflowed if it moved against the sign of r.
	if sum := d + r; (sum < d) == (r < 0) {
		return sum, nil
	}
	return bad()
}

// notADuration returns why a string is not a duration, and how to write one.
func notADuration(text string) string {
	const form = "write it like 250ms, 90s, 1h30m or 7d"
	digits := strings.TrimLeft(text, "+-")
	switch {
	case digits != "" && strings.Trim(digits, "0123456789.") == "":
		return "has no unit; " + form
	case tooLong(text):
		return "is longer than any duration can be (106751d)"
	}
	return "is not a duration; " + form
}

// tooLong reports whether a string would be a duration if its numbers were smaller.
func tooLong(text string) bool {
	// With every digit replaced by zero, the text keeps its form and is never too long.
	zero := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return '0'
		}
		return c
	}, text)

	if days, rest, found := strings.Cut(zero, "d"); found {
		days = strings.TrimLeft(days, "+-")
		signed := strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+")
		if days == "" || strings.Trim(days, "0") != "" || signed {
			return false
		}
		if zero = rest; rest == "" {
			return true
		}
	}
	_, err := time.ParseDuration(zero)
	return err == nil
}

// FormatDuration returns the shortest text of d for [ParseDuration]: "1h30m" and not
// "1h30m0s", "90d" and not "2160h0m0s".
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
