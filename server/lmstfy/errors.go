package lmstfy

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// refusal is an answer other than success, in lmstfy's own words.
type refusal struct {
	status int
	body   any    // of the types in wire.go
	text   string // for the log
	cause  error  // what the contract calls it
}

func refuse(status int, text string) error {
	cause := duly.ErrInvalid
	switch status {
	case http.StatusUnauthorized:
		cause = duly.ErrUnauthorized
	case http.StatusForbidden:
		cause = duly.ErrForbidden
	case http.StatusNotFound:
		cause = duly.ErrNotFound
	case http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong:
		cause = duly.ErrTooLarge
	}
	return &refusal{status, failure{text}, text, cause}
}

func badRequest(text string) error { return refuse(http.StatusBadRequest, text) }

// Error implements error.
func (r *refusal) Error() string { return r.text }

// Unwrap is what the contract calls it.
func (r *refusal) Unwrap() error { return r.cause }

// fail is the answer to an error. What went wrong in the store stays in the
// log, but for a bound that was reached: somebody has set it.
func fail(_ *route.Call, err error) (status int, body []byte) {
	var r *refusal
	if !errors.As(err, &r) {
		r = translated(err)
	}
	return r.status, toJSON(r.body)
}

// translated is an error of the contract that lmstfy has no word for, or one
// for them all.
func translated(err error) *refusal {
	code := duly.CodeOf(err)
	text := "internal error"
	status := http.StatusInternalServerError
	switch code {
	case duly.CodeFull:
		status, text = code.HTTPStatus(), "no room for more jobs"
	case duly.CodeTooLarge:
		status, text = code.HTTPStatus(), "body too large"
	case duly.CodeUnauthorized: // a token that was revoked while its request waited
		status, text = code.HTTPStatus(), "invalid token"
	case duly.CodeInvalid, duly.CodeLimited:
		status, text = code.HTTPStatus(), messageOf(err)
	case duly.CodeUnavailable:
		if comeAgain(err) { // a failure of the store is 500, as in lmstfy
			status, text = code.HTTPStatus(), messageOf(err)
		}
	}
	return &refusal{status: status, body: failure{text}}
}

// comeAgain reports whether the error asks for a later retry: the server has no
// memory for the call.
func comeAgain(err error) bool {
	var e *duly.Error
	return errors.As(err, &e) && e.RetryAfter > 0
}

// messageOf is what an error says to its caller.
func messageOf(err error) string {
	var e *duly.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return ""
}

// uncounted is the answer to a call over its token's limit, or that could not
// be counted. It names the token as logs do, and not by its text.
func (a *API) uncounted(action string) func(*route.Call, error) error {
	return func(c *route.Call, err error) error {
		if !errors.Is(err, duly.ErrLimited) {
			return &refusal{http.StatusInternalServerError, brokenLimit{"internal error"}, "the call was not counted", err}
		}
		a.metrics.overLimit(c, action)
		text := fmt.Sprintf("token(%s) %s reach the limit rate, please retry later", c.Caller(), action)
		return &refusal{http.StatusTooManyRequests, message{text}, text, err}
	}
}

// counted is a handler whose call counts under its token's limit only if it
// succeeds. It is given back before it is answered, so that the next one finds
// its place.
func counted(handle route.Handler) route.Handler {
	return func(c *route.Call) error {
		success := false
		defer func() {
			if !success {
				c.Refund()
			}
		}()
		err := handle(c)
		success = err == nil
		return err
	}
}
