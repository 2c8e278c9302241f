package lmstfy

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// refusal is an error with lmstfy's own text.
type refusal struct {
	status int
	body   any    // a type in wire.go, which is sent as JSON
	text   string // text for the log
	cause  error  // error of the contract that caused the answer
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

// Unwrap returns the error of the contract.
func (r *refusal) Unwrap() error { return r.cause }

// fail returns the answer to an error. Faults of the store are not shown to callers, except a limit
// that was reached, because an operator has set that limit.
func fail(_ *route.Call, err error) (status int, body []byte) {
	var r *refusal
	if !errors.As(err, &r) {
		r = translate(err)
	}
	return r.status, toJSON(r.body)
}

// translate converts an error of the contract without a text of lmstfy's own.
func translate(err error) *refusal {
	code := duly.CodeOf(err)
	// The error of a store may name its address, so callers do not get it.
	status, text := http.StatusInternalServerError, "internal error"

	switch code {
	case duly.CodeFull:
		status, text = code.HTTPStatus(), "no room for more jobs"
	case duly.CodeTooLarge:
		status, text = code.HTTPStatus(), "body too large"
	case duly.CodeUnauthorized: // the token was revoked while its request waited
		status, text = code.HTTPStatus(), "invalid token"
	case duly.CodeInvalid, duly.CodeLimited:
		status, text = code.HTTPStatus(), messageOf(err)
	case duly.CodeUnavailable:
		if asksForRetry(err) { // a failure of the store gets status 500, as in lmstfy
			status, text = code.HTTPStatus(), messageOf(err)
		}
	}
	return &refusal{status: status, body: failure{text}}
}

// asksForRetry reports whether the error asks for a later retry, because the server has no memory
// for the call.
func asksForRetry(err error) bool {
	var e *duly.Error
	return errors.As(err, &e) && e.RetryAfter > 0
}

// messageOf returns the message of an error of the contract.
func messageOf(err error) string {
	var e *duly.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return ""
}

// rateLimitError converts the error of a call over its token's limit, or of a call that could
// not be counted. It names the token as logs do, and not by its text.
func (a *API) rateLimitError(action string) func(*route.Call, error) error {
	return func(c *route.Call, err error) error {
		if !errors.Is(err, duly.ErrLimited) {
			// Without a count the limit cannot be checked, so the call fails.
			body := brokenLimit{"internal error"}
			return &refusal{http.StatusInternalServerError, body, "the call was not counted", err}
		}
		a.metrics.overLimit(c, action)
		text := fmt.Sprintf("token(%s) %s reach the limit rate, please retry later", c.Caller(), action)
		return &refusal{http.StatusTooManyRequests, message{text}, text, err}
	}
}

// refundFailures returns a handler whose calls count under their token's limit only if they
// succeed. The refund comes before the answer, so that the next call can use it.
func refundFailures(handle route.Handler) route.Handler {
	return func(c *route.Call) error {
		// The deferred refund also covers a handler that panics.
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
