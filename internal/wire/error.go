package wire

import (
	"errors"
	"net/http"
	"time"

	"github.com/dulymq/duly"
)

// Public returns the part of an error that clients may see. An error that is not from the contract,
// or whose text may contain details of the store, is reduced to its code.
func Public(err error) *duly.Error {
	// The test for Own comes first, because such an error may have a code whose text is removed
	// below.
	var own ownError
	if errors.As(err, &own) {
		return own.e
	}
	var e *duly.Error
	if !errors.As(err, &e) {
		return catalogued(duly.CodeInternal)
	}

	switch e.Code {
	case duly.CodeInternal, duly.CodeCorrupt, duly.CodeUnavailable, duly.CodeClosed:
		return catalogued(e.Code)
	case duly.CodeFull, duly.CodeNotDurable, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnsupported:
		if e.Cause != nil { // the store refused the call, and the text may contain the store's address
			return catalogued(e.Code)
		}
	}
	return e
}

// Own marks an error of the server itself. Clients may see its text, whatever its code.
func Own(e *duly.Error) error { return ownError{e} }

type ownError struct{ e *duly.Error }

func (o ownError) Error() string { return o.e.Error() }
func (o ownError) Unwrap() error { return o.e }

// catalogued returns the error of a code with its standard text.
func catalogued(code duly.Code) *duly.Error {
	// The list has only codes whose text Public removes. An unknown code must not leak, so it
	// becomes internal.
	for _, known := range [...]error{
		duly.ErrInternal, duly.ErrCorrupt, duly.ErrUnavailable, duly.ErrClosed,
		duly.ErrFull, duly.ErrNotDurable, duly.ErrUnauthorized, duly.ErrForbidden, duly.ErrUnsupported,
	} {
		if e := known.(*duly.Error); e.Code == code {
			return e
		}
	}
	return duly.ErrInternal.(*duly.Error)
}

// Problem is the error of a whole request in the form of RFC 9457.
type Problem struct {
	Type, Title string
	Status      int
	Err         duly.Error
}

func (f *fields) problem(p *Problem) {
	f.answer("Problem")
	f.text("type", &p.Type, required, "", "Always about:blank.")
	f.text("title", &p.Title, required, "", "The status as text.")
	f.int("status", &p.Status, required, "", "The HTTP status.")
	f.details(&p.Err)
}

// details declares the fields of an error.
func (f *fields) details(e *duly.Error) {
	f.text("code", (*string)(&e.Code), required, "", "The stable code of the error.")
	f.text("detail", &e.Message, required, "", "What is wrong and what to do.")
	list(f, "fields", &e.Fields, optional, "Every bad field, for invalid and too_large.", (*fields).fieldError)
	enum(f, "state", &e.State, optional, anyState, "For conflict: the state that prevents the operation.")
	f.duration("retry_after", &e.RetryAfter, optional, "When to try again, for limited.")
}

func (f *fields) fieldError(e *duly.FieldError) {
	f.answer("Field")
	f.text("field", &e.Field, required, "", "The field as requests spell it.")
	f.text("problem", &e.Problem, required, "", "What is wrong with it, and its bound.")
}

// error declares the error of one item. It is absent if there is no error.
func (f *fields) error(v *error, doc string) {
	var e *duly.Error
	if f.task == writing && *v != nil {
		e = Public(*v)
	}
	pointer(f, "error", &e, doc, func(f *fields, e *duly.Error) {
		f.answer("Error")
		f.details(e)
	})

	// An error without a code is not an error of this API, and stays unread.
	if e != nil && e.Code != "" && f.task == reading {
		*v = e
	}
}

// AppendProblem writes the error of a whole request and returns its HTTP status: the argument
// status, or the status of the code if the argument is 0.
func AppendProblem(dst []byte, err error, status int) ([]byte, int) {
	e := Public(err)
	if status == 0 {
		status = e.Code.HTTPStatus()
	}
	p := Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Err: *e}
	return ProblemForm.Append(dst, p), status
}

// ReadProblem reads the error of a whole request. ok is false for a string that is not an
// error of this API, such as the page of a proxy.
func ReadProblem(text string) (e *duly.Error, ok bool) {
	p, err := ProblemForm.ReadAnswer(text)

	// A proxy may send JSON of its own, so the text must also have a code.
	return &p.Err, err == nil && p.Err.Code != ""
}

// RetryAfterSeconds returns a duration for the Retry-After header: whole seconds,
// rounded up.
func RetryAfterSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
