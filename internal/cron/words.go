package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxClocks is the number of times of a day that Words lists.
const maxClocks = 4

// Words describes the ticks of an expression, such as "at 03:00 on Monday to Friday".
func (e *Expr) Words() string {
	if e.every > 0 {
		text := e.every.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return "every " + text
	}
	clock, daily := e.clockWords()
	parts := []string{clock}

	// Two day fields that are both set are alternatives.
	dow, dom := e.dow.words("", func(v int) string { return time.Weekday(v).String() }), e.dom.words("day", strconv.Itoa)
	switch {
	case !e.anyDom && !e.anyDow:
		parts = append(parts, "on "+dom+" of the month, or on "+dow)
	case !e.anyDom:
		parts = append(parts, "on "+dom+" of the month")
	case !e.anyDow:
		parts = append(parts, "on "+dow)
	case daily && e.month.size() == 12:
		parts = append(parts, "every day")
	}
	if e.month.size() < 12 {
		parts = append(parts, "in "+e.month.words("", func(v int) string { return time.Month(v).String() }))
	}
	return strings.Join(parts, " ")
}

// clockWords describes the time of the day. daily reports whether it names whole times.
func (e *Expr) clockWords() (words string, daily bool) {
	seconds, minutes, hours := e.second.size(), e.minute.size(), e.hour.size()
	if n := minutes * hours; seconds == 1 && n <= maxClocks {
		var clocks []string
		for h, ok := e.hour.next(0); ok; h, ok = e.hour.next(h + 1) {
			for m, ok := e.minute.next(0); ok; m, ok = e.minute.next(m + 1) {
				text := fmt.Sprintf("%02d:%02d", h, m)
				if s := e.second.first(); s != 0 {
					text += fmt.Sprintf(":%02d", s)
				}
				clocks = append(clocks, text)
			}
		}
		return "at " + list(clocks), true
	}

	var parts []string
	switch {
	case seconds > 1:
		parts = append(parts, e.second.steps("second", 60))
	case e.second.first() != 0:
		parts = append(parts, "at second "+strconv.Itoa(e.second.first()))
	}
	if seconds == 1 || minutes < 60 {
		parts = append(parts, e.minute.steps("minute", 60))
	}
	if hours < 24 || !strings.HasPrefix(parts[len(parts)-1], "every") {
		parts = append(parts, e.hour.steps("hour", 24))
	}
	return strings.Join(parts, " of "), false
}

// steps describes a set of numbers below a size: "every 15 minutes" for even steps from 0.
func (b bitset) steps(name string, size int) string {
	n := b.size()
	if n == size {
		return "every " + name
	}
	step := size / n
	even := size%n == 0 && step > 1 && n > 1
	for v := 0; v < size; v++ {
		even = even && b.has(v) == (v%step == 0)
	}
	if even {
		return fmt.Sprintf("every %d %ss", step, name)
	}
	return b.words(name, strconv.Itoa)
}

// words lists a set with ranges of at least three numbers: "day 1, 3 and 5 to 9".
func (b bitset) words(name string, text func(int) string) string {
	var parts []string
	for v, ok := b.next(0); ok; v, ok = b.next(v + 1) {
		last := v
		for b.has(last + 1) {
			last++
		}
		if last-v < 2 {
			parts = append(parts, text(v))
			continue
		}
		parts = append(parts, text(v)+" to "+text(last))
		v = last
	}
	return strings.TrimSpace(name + " " + list(parts))
}

func list(parts []string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return strings.Join(parts, "")
}

func (b bitset) size() (n int) {
	for v, ok := b.next(0); ok; v, ok = b.next(v + 1) {
		n++
	}
	return n
}
