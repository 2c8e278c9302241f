package wire

import (
	"errors"
	"net/http"
	"time"

	"github.com/dulymq/duly"
)

// Public is what of an error may leave the process: of one that is not the
// contract's, or whose text may tell of the store's inside, the code alone.
func Public(err error) *duly.Error {
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
		if e.Cause != nil { // the store has refused, and the text says where it is
			return catalogued(e.Code)
		}
	}
	return e
}

// Own marks an error that the server itself has written: its text may leave the
// process, whatever its code.
func Own(e *duly.Error) error { return ownError{e} }

type ownError struct{ e *duly.Error }

func (o ownError) Error() string { return o.e.Error() }
func (o ownError) Unwrap() error { return o.e }

// catalogued is the error of a code with the catalogue's own words.
func catalogued(code duly.Code) *duly.Error {
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

// errorMembers writes an error's members.
func (o *object) errorMembers(e *duly.Error) {
	o.string("code", string(e.Code))
	o.string("detail", e.Message)
	if len(e.Fields) > 0 {
		list(o, "fields", e.Fields, func(dst []byte, f *duly.FieldError) []byte {
			o := begin(dst)
			o.string("field", f.Field)
			o.string("problem", f.Problem)
			return o.end()
		})
	}
	if e.State != duly.StateNone {
		o.string("state", e.State.String())
	}
	if e.RetryAfter > 0 {
		o.duration("retry_after", e.RetryAfter)
	}
}

// error writes the error of one item.
func (o *object) error(err error) {
	o.key("error")
	inner := begin(o.dst)
	inner.errorMembers(Public(err))
	o.dst = inner.end()
}

// AppendProblem writes the error of a whole request as RFC 9457 has it, and
// tells its HTTP status. A status other than 0 is taken instead of the code's,
// where HTTP has a finer one.
func AppendProblem(dst []byte, err error, status int) ([]byte, int) {
	e := Public(err)
	if status == 0 {
		status = e.Code.HTTPStatus()
	}
	o := begin(dst)
	o.string("type", "about:blank")
	o.string("title", http.StatusText(status))
	o.int("status", int64(status))
	o.errorMembers(e)
	return o.end(), status
}

// ReadProblem rebuilds the error of a request from its answer, so that it is
// the same error on both sides of the wire. ok is false for what is none of this
// API's, as a proxy sends it.
func ReadProblem(text string) (e *duly.Error, ok bool) {
	e = &duly.Error{}
	err := parse(text, Lenient, func(r *reader) { r.errorInto(e) })
	return e, err == nil && e.Code != ""
}

// errorValue reads the error of an item.
func (r *reader) errorValue() error {
	e := &duly.Error{}
	r.errorInto(e)
	if e.Code == "" {
		return nil
	}
	return e
}

func (r *reader) errorInto(e *duly.Error) {
	for key := range r.object {
		switch key {
		case "code":
			e.Code = duly.Code(r.string(key))
		case "detail":
			e.Message = r.string(key)
		case "fields":
			e.Fields = r.fieldErrors()
		case "state":
			unmarshal(r, key, &e.State)
		case "retry_after":
			e.RetryAfter, _ = r.duration(key)
		default:
			r.unknown(key)
		}
	}
}

func (r *reader) fieldErrors() (fields []duly.FieldError) {
	for range r.array {
		var f duly.FieldError
		for key := range r.object {
			switch key {
			case "field":
				f.Field = r.string(key)
			case "problem":
				f.Problem = r.string(key)
			default:
				r.unknown(key)
			}
		}
		fields = append(fields, f)
	}
	return fields
}

// RetryAfterSeconds is a duration as the Retry-After header carries it: whole
// seconds, rounded up.
func RetryAfterSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
