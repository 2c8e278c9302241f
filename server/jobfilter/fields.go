package jobfilter

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/failures"
)

// texts are the fields with a text. The operators are : for equal texts and ~ for a part of the text.
var texts = map[string]func(j *duly.JobInfo) string{
	"id":     func(j *duly.JobInfo) string { return j.ID },
	"key":    func(j *duly.JobInfo) string { return j.OrderKey },
	"merge":  func(j *duly.JobInfo) string { return j.Merge.Key },
	"error":  func(j *duly.JobInfo) string { return j.LastError },
	"body":   func(j *duly.JobInfo) string { return string(j.Body) },
	"result": func(j *duly.JobInfo) string { return string(j.Result) },
}

// numbers are the fields with a number.
var numbers = map[string]func(j *duly.JobInfo) int64{
	"priority": func(j *duly.JobInfo) int64 { return int64(j.Priority) },
	"attempt":  func(j *duly.JobInfo) int64 { return int64(j.Attempt) },
	"failures": func(j *duly.JobInfo) int64 { return int64(j.Failures) },
	"stalls":   func(j *duly.JobInfo) int64 { return int64(j.Stalls) },
	"tries":    func(j *duly.JobInfo) int64 { return int64(j.Tries) },
	"size":     func(j *duly.JobInfo) int64 { return int64(j.Size) },
}

// times are the fields with a time. A job without the time matches no condition on it.
var times = map[string]func(j *duly.JobInfo) time.Time{
	"pushed":   func(j *duly.JobInfo) time.Time { return j.PushedAt },
	"due":      func(j *duly.JobInfo) time.Time { return j.Due },
	"expires":  func(j *duly.JobInfo) time.Time { return j.ExpiresAt },
	"finished": func(j *duly.JobInfo) time.Time { return j.FinishedAt },
	"lease":    func(j *duly.JobInfo) time.Time { return j.LeaseEnd },
}

// Fields returns the names of all fields, sorted. A header is header.NAME.
func Fields() []string {
	names := slices.Concat(slices.Collect(maps.Keys(texts)), slices.Collect(maps.Keys(numbers)),
		slices.Collect(maps.Keys(times)), []string{"age", "fp", "header.NAME"})
	slices.Sort(names)
	return names
}

// parse returns the condition of a word.
func (f *Filter) parse(w word, now time.Time) (c condition, err error) {
	w.field, c.not = strings.CutPrefix(w.field, "-")
	header, isHeader := strings.CutPrefix(w.field, "header.")
	header = strings.ToLower(header) // jobs have them in lower case
	switch {
	case isHeader && header == "":
		err = contract.Invalid("where", "has %.60q without the name of a header; write header.NAME", w.text)
	case isHeader:
		f.headers = true
		c.holds, err = w.ofText(func(j *duly.JobInfo) string { return j.Headers[header] })
	case texts[w.field] != nil:
		f.bodies = f.bodies || w.field == "body" || w.field == "result"
		c.holds, err = w.ofText(texts[w.field])
	case numbers[w.field] != nil:
		c.holds, err = w.ofNumber(numbers[w.field])
	case times[w.field] != nil:
		c.holds, err = w.ofTime(times[w.field])
	case w.field == "age":
		c.holds, err = w.ofAge(now)
	case w.field == "fp":
		c.holds, err = w.ofGroup()
	default:
		err = contract.Invalid("where", "has the unknown field %.60q; the fields are %s", w.field,
			strings.Join(Fields(), ", "))
	}
	return c, err
}

// wrongOperator returns the error for an operator that a field does not have.
func (w *word) wrongOperator(known string) error {
	return contract.Invalid("where", "has %.60q; the operators of %.60q are %s", w.text, w.field, known)
}

func (w *word) ofText(of func(j *duly.JobInfo) string) (func(j *duly.JobInfo) bool, error) {
	switch w.op {
	case ":", "=":
		return func(j *duly.JobInfo) bool { return of(j) == w.value }, nil
	case "~":
		part := strings.ToLower(w.value)
		return func(j *duly.JobInfo) bool { return strings.Contains(strings.ToLower(of(j)), part) }, nil
	}
	return nil, w.wrongOperator("~ and :")
}

func (w *word) ofNumber(of func(j *duly.JobInfo) int64) (func(j *duly.JobInfo) bool, error) {
	n, err := strconv.ParseInt(w.value, 10, 64)
	if w.field == "size" && err != nil {
		n, err = parseSize(w.value)
	}
	switch {
	case err != nil && w.field == "size":
		return nil, contract.Invalid("where", "has %.60q; write a number of bytes, or one with a unit: 64KiB or 2MiB", w.text)
	case err != nil:
		return nil, contract.Invalid("where", "has %.60q; write a whole number of at most 18 digits", w.text)
	}
	return w.compare(func(j *duly.JobInfo) (int, bool) { return cmp.Compare(of(j), n), true })
}

// parseSize reads a number of bytes with a unit.
func parseSize(text string) (int64, error) {
	for at, unit := range []string{"KiB", "MiB"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseInt(number, 10, 32)
			return n << (10 * (at + 1)), err
		}
	}
	return 0, strconv.ErrSyntax
}

func (w *word) ofTime(of func(j *duly.JobInfo) time.Time) (func(j *duly.JobInfo) bool, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		at, err := time.Parse(layout, w.value)
		if err != nil {
			continue
		}
		return w.compare(func(j *duly.JobInfo) (int, bool) { return of(j).Compare(at), !of(j).IsZero() })
	}
	return nil, contract.Invalid("where",
		"has %.60q; write a time in UTC like 2030-12-31T18:00 or a day like 2030-12-31", w.text)
}

func (w *word) ofAge(now time.Time) (func(j *duly.JobInfo) bool, error) {
	age, err := duly.ParseDuration(w.value)
	if err != nil {
		return nil, contract.Invalid("where", "has %.60q; write a duration like 10m or 2h30m", w.text)
	}
	return w.compare(func(j *duly.JobInfo) (int, bool) {
		return cmp.Compare(now.Sub(j.PushedAt), age), !j.PushedAt.IsZero()
	})
}

// compare returns the condition of an operator on a result of a comparison. The second result of by is false for a job
// without a value.
func (w *word) compare(by func(j *duly.JobInfo) (int, bool)) (func(j *duly.JobInfo) bool, error) {
	accepts := map[string][]int{">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, ":": {0}, "=": {0}}[w.op]
	if accepts == nil {
		return nil, w.wrongOperator(">=, <=, >, < and :")
	}
	return func(j *duly.JobInfo) bool {
		order, ok := by(j)
		return ok && slices.Contains(accepts, order)
	}, nil
}

// ofGroup returns the condition that a job belongs to a group of failures.
func (w *word) ofGroup() (func(j *duly.JobInfo) bool, error) {
	if w.op != ":" && w.op != "=" {
		return nil, w.wrongOperator(":")
	}
	if !failures.IsFingerprint(w.value) {
		return nil, contract.Invalid("where", "has %.60q, must have 12 hexadecimal digits; take them from the list of groups",
			w.text)
	}
	return func(j *duly.JobInfo) bool {
		return j.State == duly.StateDead && failures.Fingerprint(j.LastError) == w.value
	}, nil
}
