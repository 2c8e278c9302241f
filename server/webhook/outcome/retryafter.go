package outcome

import (
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that a receiver can ask for.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns the wait of an answer's header Retry-After, between 0 and [MaxRetryAfter]. ok
// is false if the header is absent, repeated, or neither a number of seconds nor an HTTP date.
//
// The wait until a date begins at the Date header of the same answer, so it is right even if the
// receiver's clock is wrong. Without a valid Date header, the wait begins now.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	text, ok := single(h, "Retry-After")
	if !ok {
		return 0, false
	}
	if wait, ok = seconds(text); ok {
		return wait, true
	}

	at, ok := httpDate(text, now)
	if !ok {
		return 0, false
	}
	// The date is of the receiver's clock, so the header Date is the better reference.
	if sent, ok := single(h, "Date"); ok {
		if date, ok := httpDate(sent, now); ok {
			now = date
		}
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}

// single returns the value of a header that an answer has exactly once. If the answer has several
// values, single returns none, because it is unknown which one is right.
func single(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) != 1 {
		return "", false
	}
	return strings.Trim(values[0], " \t"), true
}

// seconds parses a whole number of seconds. A negative number means a time in the past, so the wait
// is 0.
func seconds(text string) (time.Duration, bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" {
		return 0, false
	}

	var n time.Duration
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		// The bound prevents an overflow.
		n = min(n*10+time.Duration(c-'0'), MaxRetryAfter/time.Second)
	}
	if negative {
		return 0, true
	}
	return n * time.Second, true
}

// The three date forms of RFC 9110, section 5.6.7. http.ParseTime accepts every zone
// name in the second form, and parses it as UTC.
const (
	fixDate = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
	asctime = "Mon Jan _2 15:04:05 2006"
)

// httpDate parses a date in one of the three forms.
func httpDate(text string, now time.Time) (time.Time, bool) {
	// These two forms have a year with four digits.
	for _, form := range []string{fixDate, asctime} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}

	t, err := time.Parse(rfc850, text)
	if err != nil {
		return time.Time{}, false
	}
	// A year with two digits that would be more than 50 years ahead is in the past.
	latest := now.AddDate(50, 0, 0)
	for t.After(latest) {
		t = t.AddDate(-100, 0, 0)
	}
	for next := t.AddDate(100, 0, 0); !next.After(latest); next = t.AddDate(100, 0, 0) {
		t = next
	}
	return t, true
}
