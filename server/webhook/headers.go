package webhook

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/hook"
	"github.com/dulymq/duly/server/webhook/sign"
)

// The limits of a target's headers.
const (
	MaxTargetHeaders     = 32
	MaxTargetHeaderBytes = 8 << 10
)

// The headers that duly sets, in the canonical form of [http.Header].
const (
	headerNamespace = "Duly-Namespace"
	headerQueue     = "Duly-Queue"
	headerID        = "Duly-Id"
	headerAttempt   = "Duly-Attempt"
	headerTries     = "Duly-Tries"
	headerDue       = "Duly-Due"
	headerAgent     = "User-Agent"
	headerType      = "Content-Type"
)

const (
	defaultType = "application/octet-stream"
	dueForm     = "2006-01-02T15:04:05.000Z07:00"
)

// idempotency has the headers that make a POST repeatable for net/http.
var idempotency = []string{"idempotency-key", "x-idempotency-key"}

// ownHeaders is the number of headers that duly sets.
const ownHeaders = 11

// CheckTargetHeaders returns [duly.ErrInvalid] for headers that a target must not
// have. The error has no value, because the headers of a target are secrets.
func CheckTargetHeaders(headers map[string]string) error {
	var f contract.BadFields
	size, seen := 0, map[string]bool{}
	for _, name := range names(headers) {
		value, lower := headers[name], strings.ToLower(name)
		size += len(name) + len(value)

		if !isToken(name) {
			f.Add("headers", "name %s is not an RFC 9110 token", contract.Quoted(name))
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.Add("headers", "value of %s has a control character, such as CR, LF or NUL", contract.Quoted(name))
		}
		// HTTP does not distinguish names by case, so one header would replace the other.
		if seen[lower] {
			f.Add("headers", "must not name %s twice; names that differ only in upper and lower case are the same", lower)
		}
		seen[lower] = true
		checkName(&f, lower)
	}

	if len(headers) > MaxTargetHeaders {
		f.Add("headers", "are %d, may be at most %d", len(headers), MaxTargetHeaders)
	}
	if size > MaxTargetHeaderBytes {
		f.Add("headers", "have %d bytes together, may have at most %d", size, MaxTargetHeaderBytes)
	}
	return f.Err()
}

// names returns the sorted names of headers.
func names(headers map[string]string) []string {
	return slices.Sorted(maps.Keys(headers))
}

// checkName adds an error for a name that a target must not have. A target's header may contain
// credentials.
func checkName(f *contract.BadFields, lower string) {
	if kind := hook.KindOf(lower); kind == hook.Own || kind == hook.Connection {
		f.Add("headers", "must not name %s, %s", lower, kind.Reason())
	}
}

// isToken reports whether a string is a token of RFC 9110.
func isToken(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && strings.Trim(text, letters+"!#$%&'*+-.^_`|~") == ""
}

// headers returns the headers of a request that was signed at the time at.
func (s *Sender) headers(j Job, to *Destination, signature string, at time.Time) http.Header {
	h := make(http.Header, len(j.Delivery.Headers)+len(to.Headers)+ownHeaders)
	for name, value := range j.Delivery.Headers {
		// A job that was pushed before its queue was a push queue has unchecked headers.
		if kind := hook.KindOf(strings.ToLower(name)); kind != hook.Connection && kind != hook.Credential {
			h.Set(name, value)
		}
	}
	// Only the producer knows the form of the body, so a target must not change its content type.
	contentType := cmp.Or(h.Get(headerType), defaultType)

	// The target's headers replace those of the job, because they may be credentials.
	for name, value := range to.Headers {
		h.Set(name, value)
	}
	if j.Trace != nil {
		for name, value := range j.Trace() {
			h.Set(name, value)
		}
	}

	// net/http repeats a request without a body if it finds one of these headers. It recognizes
	// only canonical names, so a name in lower case prevents the repetition.
	for _, name := range idempotency {
		if values := h.Values(name); len(values) > 0 {
			h.Del(name)
			h[name] = values
		}
	}

	// The values share one array, and the names are canonical already. Set would allocate both for
	// each header.
	own := [...]struct{ name, value string }{
		{headerType, contentType},
		{headerAgent, "duly/" + s.Version},
		{headerNamespace, j.Namespace},
		{headerQueue, j.Delivery.Queue},
		{headerID, j.Delivery.ID},
		{headerAttempt, strconv.Itoa(j.Delivery.Attempt)},
		{headerTries, strconv.Itoa(j.Delivery.Tries)},
		{headerDue, j.Delivery.Due.UTC().Truncate(time.Millisecond).Format(dueForm)},
		{sign.HeaderID, j.WebhookID},
		{sign.HeaderTimestamp, sign.Timestamp(at)},
		{sign.HeaderSignature, signature},
	}
	values := make([]string, len(own))
	for i, header := range own {
		values[i] = header.value
		h[header.name] = values[i : i+1 : i+1]
	}
	return h
}
