package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hook"
)

// The bounds of a target's headers.
const (
	MaxTargetHeaders     = 32
	MaxTargetHeaderBytes = 8 << 10
)

// The headers of duly's own.
const (
	headerNamespace = "duly-namespace"
	headerQueue     = "duly-queue"
	headerID        = "duly-id"
	headerAttempt   = "duly-attempt"
	headerTries     = "duly-tries"
	headerDue       = "duly-due"
	headerAgent     = "user-agent"
	headerType      = "content-type"
)

const (
	defaultType = "application/octet-stream"
	dueForm     = "2006-01-02T15:04:05.000Z07:00"
)

// idempotency are the names by which net/http takes a POST for repeatable.
var idempotency = []string{"idempotency-key", "x-idempotency-key"}

// ownHeaders is how many headers of duly's own a request has at most.
const ownHeaders = 12

// CheckTargetHeaders returns [duly.ErrInvalid] for headers that a target must not
// have. It names no value, because the headers of a target are secrets.
func CheckTargetHeaders(headers map[string]string) error {
	var f duly.BadFields
	size, seen := 0, map[string]bool{}
	for _, name := range names(headers) {
		value, lower := headers[name], strings.ToLower(name)
		size += len(name) + len(value)
		if !isToken(name) {
			f.Add("headers", "name %s is not an RFC 9110 token", duly.Quoted(name))
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.Add("headers", "value of %s has a control character, such as CR, LF or NUL", duly.Quoted(name))
		}
		if seen[lower] {
			f.Add("headers", "have %s twice but for its case", lower)
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
func checkName(f *duly.BadFields, lower string) {
	if kind := hook.KindOf(lower); kind == hook.Own || kind == hook.Connection {
		f.Add("headers", "have %s, %s", lower, kind.Reason())
	}
}

// isToken reports whether a text is a token of RFC 9110.
func isToken(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~") == ""
}

// headers returns the headers of a request, but for those of the signature.
func (s *Sender) headers(j Job, to *Destination) http.Header {
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

	h.Set(headerType, kind)
	h.Set(headerAgent, "duly/"+s.Version)
	h.Set(headerNamespace, j.Namespace)
	h.Set(headerQueue, j.Delivery.Queue)
	h.Set(headerID, j.Delivery.ID)
	h.Set(headerAttempt, strconv.Itoa(j.Delivery.Attempt))
	h.Set(headerTries, strconv.Itoa(j.Delivery.Tries))
	h.Set(headerDue, j.Delivery.Due.UTC().Truncate(time.Millisecond).Format(dueForm))
	return h
}
