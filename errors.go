package duly

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is an error's stable name, the same through every engine and on every
// wire.
type Code string

// The codes. docs/troubleshooting.md says what to do about each.
const (
	// The caller's mistake.
	CodeInvalid      Code = "invalid"
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeTooLarge     Code = "too_large"

	// The job is not as the caller believes.
	CodeConflict  Code = "conflict"
	CodeLeaseLost Code = "lease_lost"

	// A bound was reached.
	CodeLimited Code = "limited"
	CodeFull    Code = "full"

	// The store.
	CodeNotDurable  Code = "not_durable"
	CodeUnavailable Code = "unavailable"
	CodeClosed      Code = "closed"
	CodeUnsupported Code = "unsupported"
	CodeCorrupt     Code = "corrupt"
	CodeInternal    Code = "internal"
)

// catalogue is every code with its HTTP status and what it says of itself.
var catalogue = []struct {
	code    Code
	status  int
	message string
}{
	{CodeInvalid, 400, "bad input"},
	{CodeUnauthorized, 401, "no token, or one that is not known"},
	{CodeForbidden, 403, "the token does not have the right to do this"},
	{CodeNotFound, 404, "not found"},
	{CodeConflict, 409, "the job's state does not allow this"},
	{CodeLeaseLost, 409, "the receipt is not current: its delivery has ended"},
	{CodeTooLarge, 413, "too large"},
	{CodeLimited, 429, "too many calls, or too many attempts that failed; come again later"},
	{CodeFull, 507, "no room for more jobs"},
	{CodeNotDurable, 503, "stored, but not confirmed as durable"},
	{CodeUnavailable, 503, "the store was not reached or did not answer: it may have happened"},
	{CodeClosed, 503, "the engine is closed"},
	{CodeUnsupported, 501, "not supported by this engine or version"},
	{CodeCorrupt, 500, "the store is damaged or not duly's"},
	{CodeInternal, 500, "internal error"},
}

// Codes lists every code in the catalogue's order.
func Codes() []Code {
	codes := make([]Code, len(catalogue))
	for i, c := range catalogue {
		codes[i] = c.code
	}
	return codes
}

// HTTPStatus is the status that the code travels with; 500 for an unknown one.
func (c Code) HTTPStatus() int {
	for _, e := range catalogue {
		if e.code == c {
			return e.status
		}
	}
	return 500
}

// The sentinels, one per code, for errors.Is. An error of the same code is
// each of them, wherever it was made.
var (
	ErrInvalid      error = sentinel(CodeInvalid)
	ErrUnauthorized error = sentinel(CodeUnauthorized)
	ErrForbidden    error = sentinel(CodeForbidden)
	ErrNotFound     error = sentinel(CodeNotFound)
	ErrConflict     error = sentinel(CodeConflict)
	ErrLeaseLost    error = sentinel(CodeLeaseLost)
	ErrTooLarge     error = sentinel(CodeTooLarge)
	ErrLimited      error = sentinel(CodeLimited)
	ErrFull         error = sentinel(CodeFull)
	ErrNotDurable   error = sentinel(CodeNotDurable)
	ErrUnavailable  error = sentinel(CodeUnavailable)
	ErrClosed       error = sentinel(CodeClosed)
	ErrUnsupported  error = sentinel(CodeUnsupported)
	ErrCorrupt      error = sentinel(CodeCorrupt)
	ErrInternal     error = sentinel(CodeInternal)
)

func sentinel(code Code) *Error {
	for _, e := range catalogue {
		if e.code == code {
			return &Error{Code: code, Message: e.message}
		}
	}
	panic("duly: code without an entry in the catalogue: " + string(code))
}

// Error is an error of the contract.
type Error struct {
	// Code is its stable name.
	Code Code
	// Message says what is wrong and, where it helps, what to do, in one line
	// without secrets and without bodies. With Fields it says what they say.
	Message string
	// Fields names every bad field, for invalid and too_large.
	Fields []FieldError
	// State is the state that was in the way, for conflict.
	State State
	// RetryAfter is when to try again, for limited; 0 if it is not known.
	RetryAfter time.Duration
	// Cause is the error behind this one. It is for logs and never travels.
	Cause error
}

// FieldError names one bad field of an input and the bound that it breaks.
type FieldError struct {
	Field   string // as it is spelled on the wire, e.g. "priority"
	Problem string // e.g. "is 1001, must be between -1000 and 1000"
}

// Error implements error: the code, then the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes every error of one code the sentinel of that code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf makes an error of the code. The message may wrap a cause by %w, which
// then is its text too; to keep a cause out of the text, set Cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Invalid makes an [ErrInvalid] for one field.
func Invalid(field, format string, args ...any) *Error {
	return fieldsError(CodeInvalid, []FieldError{{field, fmt.Sprintf(format, args...)}})
}

// TooLarge makes an [ErrTooLarge] for one field.
func TooLarge(field, format string, args ...any) *Error {
	return fieldsError(CodeTooLarge, []FieldError{{field, fmt.Sprintf(format, args...)}})
}

// Conflict makes an [ErrConflict] that names the state in the way.
func Conflict(state State, format string, args ...any) *Error {
	return &Error{Code: CodeConflict, State: state, Message: fmt.Sprintf(format, args...)}
}

// NotFound makes an [ErrNotFound] for the job.
func NotFound(q QueueRef, id string) *Error {
	return Errorf(CodeNotFound, "no job %s in queue %s", quoted(id, MaxID), withoutSecret(q.String()))
}

// NoTopic makes an [ErrNotFound] for a topic.
func NoTopic(topic QueueRef) *Error {
	return Errorf(CodeNotFound, "no topic %s; create it, or publish to it", withoutSecret(topic.String()))
}

// NoGroup makes an [ErrNotFound] for a group of a topic.
func NoGroup(group QueueRef) *Error {
	topic, name, _ := group.Group()
	return Errorf(CodeNotFound, "no group %s of topic %s; create it", quoted(name, MaxName), withoutSecret(topic.String()))
}

// NoMessage makes an [ErrNotFound] for a message that a group does not hold, or for a
// delayed message of a topic.
func NoMessage(q QueueRef, id string) *Error {
	return Errorf(CodeNotFound, "no message %s in %s", quoted(id, MaxID), withoutSecret(q.String()))
}

// IsTopic makes an [ErrConflict] for an operation on a queue, or for a push, that names
// a topic.
func IsTopic(q QueueRef) *Error {
	return Errorf(CodeConflict, "%s is a topic; name a group, TOPIC@GROUP, or publish to the topic", withoutSecret(q.String()))
}

// TargetIsTopic makes an [ErrInvalid] for a group whose target is the name of a topic.
func TargetIsTopic(target string) *Error {
	return Invalid("target", "is %s, a topic, but a bridge pushes jobs into a queue; name a queue, or give that topic a group",
		Quoted(target))
}

// IsQueue makes an [ErrConflict] for an operation on a topic that names a queue.
func IsQueue(topic QueueRef) *Error {
	return Errorf(CodeConflict, "%s is a queue, and a topic cannot have its name; choose another name, or destroy the queue",
		withoutSecret(topic.String()))
}

// NotForGroup makes an [ErrInvalid] for an operation that a group does not have.
func NotForGroup(group QueueRef, operation string) *Error {
	return Invalid("queue", "is %s, a group, which has no %s; list what it holds, or read its topic", Quoted(group.Name), operation)
}

// NotBeyondCursor makes an [ErrConflict] for a message beyond the cursor: the operation
// needs a message that the group has handed out.
func NotBeyondCursor(group QueueRef, id string) *Error {
	return Errorf(CodeConflict, "message %s is beyond the cursor of group %s, which does not hold it yet",
		quoted(id, MaxID), withoutSecret(group.String()))
}

// ForeignPosition makes an [ErrInvalid] for an ID that is not a position of the group's
// topic.
func ForeignPosition(group QueueRef, id string) *Error {
	topic, _, _ := group.Group()
	return Invalid("id", "is %s, must be a position of topic %s", quoted(id, MaxID), withoutSecret(topic.String()))
}

// TopicFull makes an [ErrFull] for a Publish that would break a bound of a topic: its
// setting max_count or max_bytes.
func TopicFull(topic QueueRef, setting string, bound int64) *Error {
	return Errorf(CodeFull, "topic %s is full: %s is %d; wait until its groups have handled more, raise %s, or set overflow to drop",
		topic, setting, bound, setting)
}

// GroupsFull makes an [ErrFull] for a topic that has the maximum number of groups.
func GroupsFull(topic QueueRef) *Error {
	return Errorf(CodeFull, "topic %s has %d groups, the maximum; destroy an unused group", topic, MaxGroups)
}

// LogEnds makes an [ErrConflict] for a Read from beyond the end of a shard's log. end is
// the position of the last message, empty if the log never had one.
func LogEnds(from From, end string) *Error {
	if end == "" {
		end = "its start"
	}
	return Errorf(CodeConflict, "from is %s, but the log ends at %s: the store has lost its last writes",
		quoted(string(from), MaxID), end)
}

// AheadOfLog makes an [ErrInvalid] for a place that a group cannot have: beyond the end
// of the log, or a time ahead of the engine's clock.
func AheadOfLog(from From) *Error {
	return Invalid("from", "is %s, which is ahead of the log; give a position in it, a time that has passed, start or end",
		quoted(string(from), MaxID))
}

// OrderNeedsEmpty makes an [ErrConflict] for a change of a group's order to key while
// the group holds messages.
func OrderNeedsEmpty(group QueueRef, held int64) *Error {
	return Errorf(CodeConflict, "group %s holds %d messages; its order can change to key only while it holds none; "+
		"settle or purge them first", withoutSecret(group.String()), held)
}

// QueueFull makes an [ErrFull] for a push into a queue that holds as many jobs
// as it may.
func QueueFull(q QueueRef, maxJobs int) *Error {
	return Errorf(CodeFull, "queue %s is full: max_jobs is %d; wait until some are done, or raise max_jobs", q, maxJobs)
}

// NamespaceFull makes an [ErrFull] for one queue more than a namespace may have.
func NamespaceFull(namespace string, maxQueues int) *Error {
	return Errorf(CodeFull, "namespace %s has %d queues, its bound; destroy one that is not used", namespace, maxQueues)
}

// EndsTooSoon makes an [ErrInvalid] for a job whose TTL ends before it is due.
func EndsTooSoon(ttl time.Duration, byDefault bool) *Error {
	if byDefault {
		return Invalid("ttl", "is %s by the queue's default and ends before the job is due; give one of at least the delay", FormatDuration(ttl))
	}
	return Invalid("ttl", "is %s and ends before the job is due; it must be at least the delay", FormatDuration(ttl))
}

// NoToken makes an [ErrNotFound] for a token.
func NoToken() *Error { return Errorf(CodeNotFound, "no such token") }

// Unanswered makes an [ErrUnavailable] for a caller whose context has ended,
// with that error, while its call was under way. The context's own error is
// answered only where nothing was done.
func Unanswered(cause error) *Error {
	return &Error{Code: CodeUnavailable, Cause: cause, Message: "the caller did not wait for the answer (" + cause.Error() + "); it may have happened"}
}

func fieldsError(code Code, fields []FieldError) *Error {
	e := &Error{Code: code, Fields: fields}
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Field + " " + f.Problem
	}
	e.Message = strings.Join(parts, "; ")
	return e
}

// CodeOf is the code of an error: "" for nil, internal for an error that is
// not the contract's.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// BadFields gathers everything that is wrong with one input, so that one error
// names it all. The zero BadFields is empty.
type BadFields struct {
	fields []FieldError
	sizes  int // how many of them are sizes
}

// Add notes a bad field and its problem, which names the bound.
func (f *BadFields) Add(field, format string, args ...any) {
	f.fields = append(f.fields, FieldError{field, fmt.Sprintf(format, args...)})
}

// Take notes the bad fields of an error that was found elsewhere; nil has none.
func (f *BadFields) Take(err error) {
	var e *Error
	if errors.As(err, &e) {
		f.fields = append(f.fields, e.Fields...)
	}
}

// Len is the number of bad fields so far.
func (f *BadFields) Len() int { return len(f.fields) }

// size adds a fault that is too_large when it stands alone.
func (f *BadFields) size(field, format string, args ...any) {
	f.Add(field, format, args...)
	f.sizes++
}

// Err is nil if nothing was wrong, else [ErrInvalid], or [ErrTooLarge] where
// only sizes are.
func (f *BadFields) Err() error {
	switch len(f.fields) {
	case 0:
		return nil
	case f.sizes:
		return fieldsError(CodeTooLarge, f.fields)
	}
	return fieldsError(CodeInvalid, f.fields)
}
