package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/webhook/sign"
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

var (
	// ours are the names that every request has a value of duly's for.
	ours = []string{sign.HeaderID, sign.HeaderTimestamp, sign.HeaderSignature,
		headerNamespace, headerQueue, headerID, headerAttempt, headerTries, headerDue, headerAgent}
	// connections are the names that mean something for the connection, not for
	// the receiver.
	connections = []string{"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect"}
	// idempotency are the names by which net/http takes a POST for repeatable.
	idempotency = []string{"idempotency-key", "x-idempotency-key"}
	// credentials belong into a target, which keeps them sealed.
	credentials = []string{"authorization", "cookie"}
)

// CheckJobHeaders returns [duly.ErrInvalid] for headers that a job of a push queue
// must not have.
func CheckJobHeaders(headers map[string]string) error {
	var f duly.BadFields
	for _, name := range names(headers) {
		switch lower := strings.ToLower(name); {
		case slices.Contains(credentials, lower):
			f.Add("headers", "have %s, which a job can't carry to a receiver; set it in a target", lower)
		default:
			checkName(&f, lower)
		}
	}
	return f.Err()
}

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

func checkName(f *duly.BadFields, lower string) {
	switch {
	case slices.Contains(ours, lower):
		f.Add("headers", "have %s, which duly sets itself; remove it", lower)
	case slices.Contains(connections, lower):
		f.Add("headers", "have %s, which belongs to the connection; remove it", lower)
	}
}

// isToken reports whether a text is a token of RFC 9110.
func isToken(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~") == ""
}

// headers returns the headers of a request, but for those of the signature.
func (s *Sender) headers(j Job, to *Destination) http.Header {
	h := make(http.Header, len(j.Delivery.Headers)+len(to.Headers)+len(ours)+2)
	for name, value := range j.Delivery.Headers {
		// The job may be older than the check of its queue.
		if lower := strings.ToLower(name); !slices.Contains(connections, lower) && !slices.Contains(credentials, lower) {
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
