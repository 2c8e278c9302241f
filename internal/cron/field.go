package cron

import (
	"math/bits"
	"strconv"
	"strings"
)

// bitset is a set of the values of a field.
type bitset uint64

func (b bitset) has(v int) bool { return b>>v&1 != 0 }

// next returns the smallest value that is at least v, or false if there is none.
func (b bitset) next(v int) (int, bool) {
	rest := b >> v << v
	return bits.TrailingZeros64(uint64(rest)), rest != 0
}

// prev returns the largest value that is at most v, or false if there is none.
func (b bitset) prev(v int) (int, bool) {
	rest := b << (63 - v) >> (63 - v)
	return bits.Len64(uint64(rest)) - 1, rest != 0
}

// kind has the rules of one of the six fields of an expression.
type kind struct {
	name     string
	min, max int
	names    []string // names of the values, starting with min
	day      bool     // whether this is a day field, where "?" means "*"
}

var kinds = [6]kind{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31, day: true},
	{name: "month", min: 1, max: 12, names: []string{
		"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
	}},
	{name: "day of week", max: 7, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, day: true},
}

// parse returns the values of a field.
func (k kind) parse(text string) (bitset, error) {
	var set bitset
	for item := range strings.SplitSeq(text, ",") {
		values, err := k.parseItem(item)
		if err != nil {
			return 0, err
		}
		set |= values
	}
	return set, nil
}

// parseItem returns the values of one item of a list: a range with a step or without.
func (k kind) parseItem(item string) (bitset, error) {
	part, stepText, stepped := strings.Cut(item, "/")
	from, to, err := k.parseRange(part, stepped)
	if err != nil {
		return 0, err
	}

	step := 1
	if stepped {
		n, ok := parseDigits(stepText)
		if !ok || n < 1 {
			return 0, bad("%s has the step %.40q, must be a number of at least 1, such as */5", k.name, stepText)
		}
		step = min(n, 64) // no field has more than 64 values, and the limit keeps the loop from overflowing
	}

	var set bitset
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

// parseRange returns the bounds of "*", "?", a value or "a-b". With a step, a value "a"
// means "a" to the highest value.
func (k kind) parseRange(part string, stepped bool) (from, to int, err error) {
	if part == "*" || k.day && part == "?" {
		return k.min, k.max, nil
	}

	low, high, ranged := strings.Cut(part, "-")
	if from, err = k.parseValue(low); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if to, err = k.parseValue(high); err != nil {
			return 0, 0, err
		}
	case stepped:
		to = k.max
	default:
		to = from
	}

	if from > to {
		return 0, 0, bad("%s has the range %.40q, whose start is after its end; %s", k.name, part, k.wrapped(from, to))
	}
	return from, to, nil
}

// wrapped says how to write a range that passes the highest value.
func (k kind) wrapped(from, to int) string {
	if k.max == 7 && to == 0 {
		return "Sunday is also 7: write " + strconv.Itoa(from) + "-7"
	}
	highest := k.max
	if k.max == 7 {
		highest = 6
	}
	return "write " + span(from, highest) + "," + span(k.min, to)
}

func span(from, to int) string {
	if from == to {
		return strconv.Itoa(from)
	}
	return strconv.Itoa(from) + "-" + strconv.Itoa(to)
}

func (k kind) parseValue(text string) (int, error) {
	for i, name := range k.names {
		if strings.EqualFold(text, name) {
			return k.min + i, nil
		}
	}

	v, ok := parseDigits(text)
	if !ok {
		return 0, bad("%s is %.40q, must be %s", k.name, text, k.form(text))
	}
	if v < k.min || v > k.max {
		return 0, bad("%s is %.40q, must be %s", k.name, text, k.bounds())
	}
	return v, nil
}

// bounds says which values the field has.
func (k kind) bounds() string {
	b := strconv.Itoa(k.min) + " to " + strconv.Itoa(k.max)
	if k.names != nil {
		b += " or " + k.names[0] + " to " + k.names[len(k.names)-1]
	}
	return b
}

// form says what to write instead of an invalid text.
func (k kind) form(text string) string {
	form := k.bounds() + ", a range such as 1-5, a list such as 1,3,5, or a step such as */2"

	// For texts of other cron programs, the error names the replacement.
	switch upper := strings.ToUpper(text); {
	case text == "?":
		return form + "; only the two day fields may be \"?\""
	case strings.HasPrefix(upper, "H"):
		return form + "; instead of \"H\", choose a value or set jitter"
	case k.day && strings.ContainsAny(upper, "LW#"):
		return form + "; instead of \"L\", \"W\" and \"#\", let the handler return early on the wrong day"
	}
	return form
}

// parseDigits reads a number of 1 to 9 digits.
func parseDigits(text string) (n int, ok bool) {
	// Nine digits fit into every int.
	if len(text) == 0 || len(text) > 9 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, true
}
