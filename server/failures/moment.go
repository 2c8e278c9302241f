package failures

import "strings"

// moment replaces a date, a time of day, or both. It reports whether one begins here.
func (s *scanner) moment() bool {
	rest := s.text[s.at:]
	if c := rest[0]; !isDigit(c) && (c < 'A' || c > 'W') {
		return false
	}

	n := dateLength(rest)
	if n > 0 {
		// A time may follow the date. Some formats have the year at the end.
		if more := strings.IndexByte("T :,", at(rest, n)); more >= 0 {
			if t := timeLength(rest[n+1:]); t > 0 {
				n += 1 + t
			}
		}
		if year := rest[n:]; len(year) >= 5 && year[0] == ' ' && digits(year, 1) == 4 && isYear(year[1:]) {
			n += 5
		}
	} else if n = timeLength(rest); n == 0 {
		return false
	}

	// A longer word is not a time.
	if n < len(rest) && isWord(rest[n]) {
		return false
	}
	s.put("<time>", n)
	return true
}

// at returns a byte of a text, 0 behind its end.
func at(text string, i int) byte {
	if i < len(text) {
		return text[i]
	}
	return 0
}

func isYear(text string) bool { return strings.HasPrefix(text, "19") || strings.HasPrefix(text, "20") }

// dateLength returns the length of a date at the beginning of a text: 2026-11-22, 22/Nov/2026, Sun, 22 Nov 2026,
// Nov 22, or Sun Nov 22.
func dateLength(text string) int {
	n := 0
	if day := nameLength(text, "Mon Tue Wed Thu Fri Sat Sun"); day > 0 {
		n = day + count(text[day:], func(c byte) bool { return c == ',' || c == ' ' })
		if n == day {
			return 0
		}
	}

	rest := text[n:]
	switch figures := digits(rest, 0); {
	case n == 0 && figures == 4 && isYear(rest):
		sign := at(rest, 4)
		month := digits(rest, 5)
		day := digits(rest, 6+month)
		if strings.IndexByte("-/.", sign) < 0 || month == 0 || month > 2 || at(rest, 5+month) != sign || day == 0 || day > 2 {
			return 0
		}
		return 6 + month + day
	case figures == 1 || figures == 2:
		month := nameLength(rest[min(len(rest), figures+1):], months)
		year := figures + 2 + month
		if month == 0 || strings.IndexByte(" /-", at(rest, figures)) < 0 || digits(rest, year) != 4 {
			return 0
		}
		return n + year + 4
	}

	// The name of the month comes first, as in the format of C and of syslog.
	month := nameLength(rest, months)
	if month == 0 {
		return 0
	}
	spaces := count(rest[month:], func(c byte) bool { return c == ' ' })
	day := digits(rest, month+spaces)
	if spaces == 0 || day == 0 || day > 2 {
		return 0
	}
	return n + month + spaces + day
}

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"

// nameLength returns 3 if a text begins with one of the names, which have three letters each, and no letter follows.
func nameLength(text, names string) int {
	if len(text) < 3 || len(text) > 3 && isLetter(text[3]) || strings.IndexByte(text[:3], ' ') >= 0 ||
		!strings.Contains(names, text[:3]) {
		return 0
	}
	return 3
}

// timeLength returns the length of a time of day with its zone: 10:15, 10:15:30.123Z, 10:15:30 +0100 UTC.
func timeLength(text string) int {
	n := digits(text, 0)
	if n == 0 || n > 2 || at(text, n) != ':' || digits(text, n+1) != 2 {
		return 0
	}
	n += 3

	// Seconds and their fraction are optional.
	if at(text, n) == ':' && digits(text, n+1) == 2 {
		n += 3
		if c := at(text, n); (c == '.' || c == ',') && digits(text, n+1) > 0 {
			n += 1 + digits(text, n+1)
		}
	}

	// Go writes a zone twice: +0100 CET.
	for {
		zone := zoneLength(text[n:])
		if zone == 0 {
			return n
		}
		n += zone
	}
}

// zoneLength returns the length of a zone at the beginning of a text, with the space before it.
func zoneLength(text string) int {
	space := 0
	if at(text, 0) == ' ' {
		space = 1
	}

	rest := text[space:]
	for _, name := range [...]string{"UTC", "GMT", "CET", "CEST", "EST", "PST", "Z", "AM", "PM"} {
		if strings.HasPrefix(rest, name) && !isWord(at(rest, len(name))) {
			return space + len(name)
		}
	}

	if c := at(rest, 0); c != '+' && c != '-' {
		return 0
	}
	switch digits(rest, 1) {
	case 4:
		return space + 5
	case 2:
		if at(rest, 3) == ':' && digits(rest, 4) == 2 {
			return space + 6
		}
	}
	return 0
}
