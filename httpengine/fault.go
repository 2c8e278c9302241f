package httpengine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// brokenAnswer is an answer that began and did not end.
type brokenAnswer struct{ error }

func (b *brokenAnswer) Unwrap() error { return b.error }

// lost is the error of a request without a whole answer. within is the
// caller's context with the link's patience.
func (l *link) lost(caller, within context.Context, err error) error {
	if caller.Err() != nil {
		return unanswered(caller)
	}
	if cause := context.Cause(within); cause != nil { // says more than how it ended the request
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	notSent := NotSent(err)
	err = l.scrub(err)
	e := &duly.Error{Code: duly.CodeUnavailable, Cause: err}
	if notSent {
		e.Message = "the server at " + l.address.String() + " was not reached: " + err.Error()
	} else {
		e.Message = "no answer from " + l.address.String() + ": " + err.Error() + "; it may have happened"
	}
	return e
}

// NotSent tells of an error of a call whether certainly no server has read it:
// nobody answered, or one of the two sides did not trust the other. Nothing has
// happened then.
func NotSent(err error) bool {
	var dial *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &dial) && (dial.Op == "dial" || turnedAway(dial)) || errors.As(err, &certificate) || errors.As(err, &record)
}

// turnedAway tells whether the server has ended the handshake because of the
// client's certificate. In TLS 1.3 the client has sent its request by then, and
// nobody has read it.
func turnedAway(e *net.OpError) bool {
	if e.Op != "remote error" {
		return false
	}
	for _, alert := range []string{"certificate required", "bad certificate", "unknown certificate", "unsupported certificate", "expired certificate", "revoked certificate"} {
		if strings.Contains(e.Err.Error(), alert) {
			return true
		}
	}
	return false
}

// minSecret is the length of what can be a secret; anything shorter may stand in
// any text.
const minSecret = 8

// scrub keeps the token out of an error that a transport of the user's made.
func (l *link) scrub(err error) error {
	if len(l.token) < minSecret || !strings.Contains(err.Error(), l.token) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), l.token, hidden))
}

// unanswered is the error of a caller that did not stay for the answer.
func unanswered(ctx context.Context) error { return contract.Unanswered(ctx.Err()) }

// refusal is the error of an answer that is no success.
func (l *link) refusal(resp *http.Response, body io.Reader) error {
	if !isType(resp, "application/problem+json") {
		return l.stranger(resp)
	}
	text, err := l.readAll(resp, body, mostProblem)
	if err != nil {
		return err
	}
	e, ok := wire.ReadProblem(text)
	if !ok {
		return l.stranger(resp) // another API's problem
	}
	if e.Code != duly.CodeClosed {
		return e
	}
	// The server's engine is closed, not this one: another server, or the same
	// one again, may answer the next request.
	return &duly.Error{Code: duly.CodeUnavailable, Message: "the server at " + l.address.String() + " is shutting down", Cause: e}
}

// stranger is the error of an answer that no duly server gives.
func (l *link) stranger(resp *http.Response) error {
	e := &duly.Error{Code: codeOf(resp.StatusCode), RetryAfter: retryAfter(resp)}
	answered := l.address.String() + " answered " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	switch {
	case l.scheme == "http" && speaksTLS(resp):
		e.Message = l.address.String() + " speaks TLS; write https:// in place of http://"
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		e.Message = answered + redirectsTo(resp) + ", and redirects are not followed; give the URL of the duly server itself"
	case e.Code != duly.CodeUnavailable:
		e.Message = answered + " without saying why, as a proxy does and no duly server; is it one?"
	default:
		e.Message = answered + " in a form that is not this API's; is it a duly server?"
	}
	return e
}

// speaksTLS knows what net/http answers to a request without TLS where there
// should be some.
func speaksTLS(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != "" {
		return false
	}
	begin := make([]byte, 64)
	n, _ := io.ReadFull(resp.Body, begin)
	return strings.HasPrefix(string(begin[:n]), "Client sent an HTTP request to an HTTPS server")
}

// codeOf judges an answer by its status alone. 404 is not "no such job": who
// answers so has never heard of jobs.
func codeOf(status int) duly.Code {
	switch status {
	case http.StatusUnauthorized:
		return duly.CodeUnauthorized
	case http.StatusForbidden:
		return duly.CodeForbidden
	case http.StatusRequestEntityTooLarge:
		return duly.CodeTooLarge
	case http.StatusTooManyRequests:
		return duly.CodeLimited
	}
	return duly.CodeUnavailable
}

// redirectsTo names the host alone: the rest may hold secrets.
func redirectsTo(resp *http.Response) string {
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" {
		return ""
	}
	return ", to " + strconv.Quote(to.Scheme+"://"+to.Host)
}

// retryAfter reads the header's seconds, up to a day.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*60*60)) * time.Second
}

func isType(resp *http.Response, name string) bool {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), name)
}

// garbled is the error of an answer in the API's form that makes no sense.
func (l *link) garbled(what string) error {
	return contract.Errorf(duly.CodeInternal, "%s answered %s; is it a duly server of this version?", l.address, what)
}
