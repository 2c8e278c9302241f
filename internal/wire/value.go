package wire

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// duration reads a duration. given is false for null.
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
		r.refused(field, err)
		return 0, false
	}
	return d, true
}

// refused records an error from the root package about a value.
func (r *reader) refused(field string, err error) {
	problem := err.Error()
	var e *duly.Error
	if errors.As(err, &e) && len(e.Fields) == 1 {
		// The field's name is added by bad.
		problem = e.Fields[0].Problem
	}
	r.bad(field, "%s", problem)
}

// period reads a duration of at least 1 ms, or none if that is allowed. It refuses 0,
// because 0 means absent.
func (r *reader) period(field string, none bool) time.Duration {
	if none && r.none() {
		return duly.None
	}
	d, given := r.duration(field)
	if given && d <= 0 {
		r.bad(field, "is %s, must be at least 1ms%s", duly.FormatDuration(d), orNone(none))
		return 0
	}
	return d
}

// within reads a duration whose limits are checked elsewhere. It refuses 0, because 0 means
// absent.
func (r *reader) within(field string, least, most time.Duration) time.Duration {
	d, given := r.duration(field)
	if given && d == 0 {
		r.bad(field, "is 0s, must be between %s and %s", duly.FormatDuration(least), duly.FormatDuration(most))
	}
	return d
}

// count reads an integer of at least 1, or none if that is allowed.
func (r *reader) count(field string, none bool) int {
	if r.null() {
		return 0
	}
	if none && r.none() {
		return duly.None
	}

	// A number that int has refused must not be reported twice.
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

// none skips the string "none", and reports whether there was one.
func (r *reader) none() bool {
	if r.peek() == '"' && strings.HasPrefix(r.text[r.at:], `"none"`) {
		r.at += len(`"none"`)
		return true
	}
	return false
}

// rate reads a number above 0, or none.
func (r *reader) rate(field string) float64 {
	if r.null() {
		return 0
	}
	if r.none() {
		return duly.None
	}
	n := r.float(field)
	if r.err == nil && n <= 0 {
		r.bad(field, "must be above 0, or none")
		return 0
	}
	return n
}

// float reads a number. Null is 0.
func (r *reader) float(field string) float64 {
	if r.null() {
		return 0
	}
	text := r.number(field)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.bad(field, "is too large")
	}
	return n
}

// time reads a time. Null is the zero time.
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
		r.bad(field, "is not a time; write it like 2030-12-31T23:59:59.000Z")
		return time.Time{}
	}
	return t.UTC()
}

// headers reads an object of strings. If there are more headers than a job may have, it keeps one
// more than allowed, so that the validation of the job refuses it.
func (r *reader) headers() map[string]string {
	if r.null() {
		return nil
	}

	headers := map[string]string{}
	for name := range r.members {
		value := r.string("headers")
		if _, twice := headers[name]; twice {
			r.bad("headers", "have the name %s twice", contract.Quoted(name))
		}
		// The remaining headers are read but not kept, so the memory is limited.
		if len(headers) <= duly.MaxHeaders {
			headers[name] = value
		}
	}
	return headers
}

// readTexts reads an array of strings and keeps at most one more than `most`. Null is nil.
func readTexts[T ~string](r *reader, field string, most int) []T {
	if r.null() {
		return nil
	}
	list := []T{}
	for i := range r.array {
		// The remaining strings are read but not kept, so the memory is limited.
		if s := r.string(field); i <= most {
			list = append(list, T(s))
		}
	}
	return list
}

// ints reads an array of integers.
func (r *reader) ints(field string, most int) (numbers []int) {
	for i := range r.array {
		n := r.int(field)
		if i == most {
			r.bad(field, "has more than %d numbers", most)
		}
		if i < most {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
}

// unmarshal reads a value of one of the root package's enumerations.
func unmarshal[T interface{ UnmarshalText([]byte) error }](r *reader, field string, value T) {
	text := r.string(field)
	if r.err != nil {
		return
	}
	err := value.UnmarshalText([]byte(text))
	if _, ok := any(value).(*duly.State); ok && err != nil {
		// The error of the parse function repeats the text, so it is not used.
		_, err = contract.ParseState(text)
	}
	if err != nil {
		r.refused(field, err)
	}
}
