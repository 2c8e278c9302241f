package wire

import (
	"errors"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// duration reads a duration, and reports whether one was given.
func (r *reader) duration(field string) (d time.Duration, given bool) {
	if r.null() {
		return 0, false
	}
	text := r.string(field)
	if r.err != nil {
		return 0, false
	}
	d, err := duly.ParseDuration(text)
	if err != nil {
		r.bad(field, "%s", problem(err))
		return 0, false
	}
	return d, true
}

// problem is what an error of one field says of it.
func problem(err error) string {
	var e *duly.Error
	if errors.As(err, &e) && len(e.Fields) == 1 {
		return e.Fields[0].Problem
	}
	return err.Error()
}

// span reads a duration above 0, or "none" where that is allowed. What is
// given as 0 or below must not pass for "absent" or "none".
func (r *reader) span(field string, none bool) time.Duration {
	if none && r.isNone() {
		return duly.None
	}
	d, given := r.duration(field)
	if given && d <= 0 {
		r.bad(field, "is %s, must be at least 1ms%s", duly.FormatDuration(d), orNone(none))
		return 0
	}
	return d
}

// lease reads a lease.
func (r *reader) lease(field string) time.Duration {
	return r.within(field, duly.MinLease, duly.MaxLease)
}

// within reads a duration whose bounds are judged elsewhere; but that 0 was
// given is seen only here.
func (r *reader) within(field string, least, most time.Duration) time.Duration {
	d, given := r.duration(field)
	if given && d == 0 {
		r.bad(field, "is 0s, must be between %s and %s", duly.FormatDuration(least), duly.FormatDuration(most))
	}
	return d
}

// count reads a number of at least 1, or "none" where that is allowed.
func (r *reader) count(field string, none bool) int {
	if r.null() {
		return 0
	}
	if none && r.isNone() {
		return duly.None
	}
	faults := r.faults.Len()
	n := r.int(field)
	if n < 1 && r.faults.Len() == faults {
		r.bad(field, "is %d, must be at least 1%s", n, orNone(none))
	}
	return int(n)
}

func orNone(none bool) string {
	if none {
		return ", or none"
	}
	return ""
}

// isNone steps over "none".
func (r *reader) isNone() bool {
	if r.peek() == '"' && strings.HasPrefix(r.text[r.at:], `"none"`) {
		r.at += len(`"none"`)
		return true
	}
	return false
}

// time reads a moment; null is none.
func (r *reader) time(field string) time.Time {
	if r.null() {
		return time.Time{}
	}
	text := r.string(field)
	if r.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		r.bad(field, "is no time; write it like 2030-12-31T23:59:59.000Z")
		return time.Time{}
	}
	return t.UTC()
}
