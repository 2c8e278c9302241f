package outcome

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxExcerpt is the maximum of an answer's body in the error text, in bytes.
const MaxExcerpt = 1 << 10

// redacted replaces a private text. Texts shorter than minPrivate stay, because the
// path "/" of many URLs is in every body.
const (
	redacted   = "[removed]"
	minPrivate = 4
)

// text returns the error text of a failed try.
func (t *Try) text() string {
	var b strings.Builder
	switch {
	case t.Answer == nil:
		b.WriteString(t.Failure.String())
		if t.Reason != "" {
			b.WriteString(" (" + clean(t.Reason, MaxExcerpt, t.Private) + ")")
		}
	case http.StatusText(t.Answer.Status) != "":
		fmt.Fprintf(&b, "%d %s", t.Answer.Status, http.StatusText(t.Answer.Status))
	default:
		b.WriteString("status " + strconv.Itoa(t.Answer.Status))
	}
	fmt.Fprintf(&b, " from %s after %s", t.Host, roundDuration(t.Took))

	if t.Answer != nil {
		// The excerpt often says more than the status.
		if excerpt := clean(string(t.Answer.Body), MaxExcerpt, t.Private); excerpt != "" {
			b.WriteString(": " + excerpt)
		}
	}
	return b.String()
}

// roundDuration returns a duration as text, without insignificant digits.
func roundDuration(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// clean returns at most size bytes of a string, as UTF-8 without control characters and
// private texts. It cuts last, because a cut in a secret would leave the secret's
// beginning.
func clean(text string, size int, private []string) string {
	// The longest text is first, because a query may contain the path.
	private = slices.SortedFunc(slices.Values(private), func(a, b string) int { return len(b) - len(a) })
	for _, p := range private {
		if len(p) >= minPrivate {
			text = strings.ReplaceAll(text, p, redacted)
		}
	}

	var b strings.Builder
	for _, r := range text { // range yields U+FFFD for an invalid byte
		if unicode.IsControl(r) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > size {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
