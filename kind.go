package duly

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
)

// KindHeader is the header with the kind of a job.
const KindHeader = "duly-kind"

// maxKind is the maximum length of a kind, in bytes.
const maxKind = 100

// Kinder is a body type with a kind, by which a worker chooses the handler of a job.
type Kinder interface {
	// Kind returns the kind. It must return the same text for every value, even for the zero value.
	// [ValidateKind] checks its characters.
	Kind() string
}

// PushKind pushes one job whose body is value as JSON, with the kind of its type. A
// worker handles it with worker.HandleKind. PushKind returns [ErrInvalid] for a bad
// kind, and for an option that sets the header [KindHeader].
func PushKind[T Kinder](
	ctx context.Context, c *Client, queue string, value T, opts ...Option,
) (PushResult, error) {
	kind := value.Kind()
	if err := ValidateKind(kind); err != nil {
		return PushResult{}, err
	}
	body, err := json.Marshal(value)
	if err != nil {
		return PushResult{}, invalid("body", "can't be written as JSON: %v", err)
	}

	j := newJob(queue, body, opts)
	for name := range j.Headers {
		if strings.EqualFold(name, KindHeader) {
			return PushResult{}, invalid("headers", "have %s, which PushKind sets; remove it", name)
		}
	}
	// The map may belong to the caller, because an option can set the same map for many jobs.
	j.Headers = maps.Clone(j.Headers)
	Header(KindHeader, kind)(&j)
	return c.pushOne(ctx, j)
}

// ValidateKind returns [ErrInvalid] unless the kind has 1 to 100 characters of
// A-Z a-z 0-9 . _ - and begins with a letter or a digit.
func ValidateKind(kind string) error {
	if len(kind) <= maxKind && isKind(kind) {
		return nil
	}
	const rule = "must be 1 to %d of A-Z a-z 0-9 . _ - and begin with a letter or a digit"
	if len(kind) > maxKind {
		return invalid("kind", "has %d characters, "+rule, len(kind), maxKind)
	}
	return invalid("kind", "is %q, "+rule, kind, maxKind)
}

// isKind reports whether a string of any length has the characters of a kind.
func isKind(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return text != ""
}
