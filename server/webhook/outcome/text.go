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

// MaxExcerpt is how much of an answer's body the error text holds, in bytes.
const MaxExcerpt = 1 << 10

// removed replaces a private text. minPrivate is the shortest text that is
// worth removing: "/" is the path of many URLs and stands in every body.
const (
	removed    = "[removed]"
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
	fmt.Fprintf(&b, " from %s after %s", t.Host, took(t.Took))

	if t.Answer != nil {
		if excerpt := clean(string(t.Answer.Body), MaxExcerpt, t.Private); excerpt != "" {
			b.WriteString(": " + excerpt)
		}
	}
	return b.String()
}

// took returns a duration as people read it, without digits that mean nothing.
func took(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// clean returns at most size bytes of a text, as UTF-8 without control
// characters and without private texts. It removes those before it cuts: a cut
// inside a secret would leave the beginning of the secret.
func clean(text string, size int, private []string) string {
	// The longest first: a query may contain the path.
	private = slices.SortedFunc(slices.Values(private), func(a, b string) int { return len(b) - len(a) })
	for _, p := range private {
		if len(p) >= minPrivate {
			text = strings.ReplaceAll(text, p, removed)
		}
	}

	var b strings.Builder
	for _, r := range text { // an invalid byte is U+FFFD here
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
