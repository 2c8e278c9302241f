package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/hook"
	"github.com/dulymq/duly/server/webhook/sign"
)

// The bounds of a target's headers.
const (
	MaxTargetHeaders     = 32
	MaxTargetHeaderBytes = 8 << 10
)

// The headers of duly's own, in the form that [http.Header] keeps.
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

// idempotency are the names by which net/http takes a POST for repeatable.
var idempotency = []string{"idempotency-key", "x-idempotency-key"}

// ownHeaders is how many headers of duly's own a request has at most.
const ownHeaders = 11

// CheckTargetHeaders returns [duly.ErrInvalid] for headers that a target must not
// have. It names no value, because the headers of a target are secrets.
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
		if seen[lower] {
			f.Add("headers", "must not name %s twice, in another case", lower)
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

// names returns the names of headers in a fixed order.
func names(headers map[string]string) []string {
	list := make([]string, 0, len(headers))
	for name := range headers {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// checkName refuses a name that can't come from a target. Credentials can.
func checkName(f *contract.BadFields, lower string) {
	if kind := hook.KindOf(lower); kind == hook.Own || kind == hook.Connection {
		f.Add("headers", "must not name %s, %s", lower, kind.Reason())
	}
}

// isToken reports whether a text is a token of RFC 9110.
func isToken(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~") == ""
}

// headers returns the headers of a request that was signed at that time.
func (s *Sender) headers(j Job, to *Destination, signature string, at time.Time) http.Header {
	h := make(http.Header, len(j.Delivery.Headers)+len(to.Headers)+ownHeaders)
	for name, value := range j.Delivery.Headers {
		// The job may be older than the check of its queue.
		if kind := hook.KindOf(strings.ToLower(name)); kind != hook.Connection && kind != hook.Credential {
			h.Set(name, value)
		}
	}
	kind := h.Get(headerType)
	if kind == "" {
		kind = defaultType
	}
	for name, value := range to.Headers {
		h.Set(name, value)
	}
	if j.Trace != nil {
		for name, value := range j.Trace() {
			h.Set(name, value)
		}
	}

	// net/http repeats a request without a body on its own if it finds one of these.
	// It finds canonical names alone, and sends a name as it is.
	for _, name := range idempotency {
		if values := h.Values(name); len(values) > 0 {
			h.Del(name)
			h[name] = values
		}
	}

	// One array holds all values, and the names need no change of case: Set would make
	// both for each.
	own := [...]struct{ name, value string }{
		{headerType, kind},
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
	for i, one := range own {
		values[i] = one.value
		h[one.name] = values[i : i+1 : i+1]
	}
	return h
}
