package cron

import (
	"strings"
	"time"
)

// MaxSpec is the maximum length of an expression, in bytes.
const MaxSpec = 255

// Expr is a parsed expression. [Parse] returns it. It is never modified, so it is safe for
// concurrent use. The zero Expr has no tick.
type Expr struct {
	second, minute, hour, dom, month, dow bitset

	// anyDom and anyDow report whether a day field is unrestricted. If neither is unrestricted, a
	// day matches when one of the two fields matches.
	anyDom, anyDow bool

	// wildcard reports whether the hour field has "*" or "/".
	wildcard bool

	// every is the period of an @every expression, 0 for a cron expression.
	every time.Duration
}

// macros are the names of common expressions, with the expressions.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

const macroForms = "use @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every 5m"

// Parse reads an expression. An error is an [Error] for the field "spec".
func Parse(spec string) (*Expr, error) {
	if len(spec) == 0 || len(spec) > MaxSpec {
		return nil, bad("has %d bytes, must have 1 to %d", len(spec), MaxSpec)
	}

	fields := strings.FieldsFunc(spec, func(r rune) bool { return r == ' ' || r == '\t' })
	switch {
	case len(fields) == 0:
		return nil, bad("is blank; write five fields, such as \"0 3 * * *\"")
	// @every is tested before the macros, because only @every has an argument.
	case fields[0] == "@every":
		return parseEvery(fields[1:])
	case strings.HasPrefix(fields[0], "TZ=") || strings.HasPrefix(fields[0], "CRON_TZ="):
		return nil, bad("begins with %.40q; leave that out and set the field zone", fields[0])
	case fields[0][0] == '@':
		return parseMacro(fields)
	}

	return parseFields(fields)
}

func parseMacro(fields []string) (*Expr, error) {
	expansion, ok := macros[fields[0]]
	switch {
	case fields[0] == "@reboot":
		return nil, bad("is \"@reboot\", which has no fixed time; %s", macroForms)
	case !ok:
		return nil, bad("is %.40q, which is not a macro; %s", fields[0], macroForms)
	case len(fields) > 1:
		return nil, bad("has %.40q after %s; write a macro alone", fields[1], fields[0])
	}

	return parseFields(strings.Fields(expansion))
}

func parseFields(fields []string) (*Expr, error) {
	const form = "must have 5 fields (minute, hour, day of month, month, day of week) or 6 (second first)"
	switch {
	case len(fields) == 5:
		fields = append([]string{"0"}, fields...)
	case len(fields) == 1:
		return nil, bad("is %.40q, %s, such as \"0 3 * * *\"", fields[0], form)
	case len(fields) == 7:
		return nil, bad("has 7 fields, %s; leave out the year and set end", form)
	case len(fields) != 6:
		return nil, bad("has %d fields, %s, such as \"0 3 * * *\"", len(fields), form)
	}

	var e Expr
	sets := [6]*bitset{&e.second, &e.minute, &e.hour, &e.dom, &e.month, &e.dow}
	for i, text := range fields {
		set, err := kinds[i].parse(text)
		if err != nil {
			return nil, err
		}
		*sets[i] = set
	}

	if e.dow.has(7) { // 7 means Sunday as well, so it becomes 0
		e.dow = e.dow&^(1<<7) | 1
	}

	// With a wildcard, a repeated hour has ticks both times. A fixed hour has ticks once.
	e.wildcard = strings.ContainsAny(fields[2], "*/")
	e.anyDom = fields[3] == "*" || fields[3] == "?"
	e.anyDow = fields[5] == "*" || fields[5] == "?"
	return &e, nil
}
