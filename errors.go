package duly

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable name of an error. It is the same with every engine and on every
// wire.
type Code string

// The codes of errors. docs/troubleshooting.md has a remedy for each code.
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

// catalogue has every code with its HTTP status and its default message.
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
	{CodeUnavailable, 503, "the store was not reached or did not answer; the call may have happened"},
	{CodeClosed, 503, "the engine is closed"},
	{CodeUnsupported, 501, "not supported by this engine or version"},
	{CodeCorrupt, 500, "the store is damaged or not duly's"},
	{CodeInternal, 500, "internal error"},
}

// Codes returns every code, in the order of the catalogue.
func Codes() []Code {
	codes := make([]Code, len(catalogue))
	for i, c := range catalogue {
		codes[i] = c.code
	}
	return codes
}

// HTTPStatus returns the HTTP status of the code, and 500 for an unknown code.
func (c Code) HTTPStatus() int {
	for _, e := range catalogue {
		if e.code == c {
			return e.status
		}
	}
	return 500
}

// The sentinels, one per code, for errors.Is. For every error with a code, errors.Is reports that
// it is the sentinel of the code.
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
	// The sentinels are made when the program starts, so a missing entry shows at once.
	panic("duly: code without an entry in the catalogue: " + string(code))
}

// Error is an error of the contract.
type Error struct {
	// Code is its stable name.
	Code Code
	// Message is one line that says what is wrong and what to do. It contains no secrets and no
	// bodies. If Fields is set, it has their texts.
	Message string
	// Fields names every bad field, for invalid and too_large.
	Fields []FieldError
	// State is the state of the job that caused a conflict.
	State State
	// RetryAfter is the time after which to try again, for limited calls. It is 0 if that is
	// unknown.
	RetryAfter time.Duration
	// Cause is the underlying error, for logs. It is not sent over the wire.
	Cause error
}

// FieldError is a bad field of an input, with the bound that it breaks.
type FieldError struct {
	Field   string // name of the field in the API, like "priority"
	Problem string // like "is 1001, must be between -1000 and 1000"
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target has the same code, as its sentinel has.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// invalid returns an [ErrInvalid] for one field.
func invalid(field, format string, args ...any) *Error {
	problem := fmt.Sprintf(format, args...)
	return &Error{
		Code: CodeInvalid, Message: field + " " + problem,
		Fields: []FieldError{{Field: field, Problem: problem}},
	}
}

// CodeOf returns the code of an error. It returns "" for nil, and internal for an error without a
// code.
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

// ErrCanceled is the cause of a handler's context (context.Cause) after its job
// was removed by Delete, Purge or Destroy. The job is not delivered again.
var ErrCanceled = errors.New("duly: the job was canceled")
