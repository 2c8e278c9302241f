package httpengine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// brokenAnswer is the error of an answer that breaks off.
type brokenAnswer struct{ error }

func (b *brokenAnswer) Unwrap() error { return b.error }

// noAnswer returns the error of a request without a whole answer. timed is the caller's context
// with the timeout.
func (l *link) noAnswer(caller, timed context.Context, err error) error {
	// The request ends with its caller's context, so its own error has no further information.
	if caller.Err() != nil {
		return unanswered(caller)
	}
	// The cause says more than the error of the request that it ended.
	if cause := context.Cause(timed); cause != nil {
		err = cause
	}
	// The text of a url.Error repeats the URL.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}

	// scrub may replace the error, so its type is checked first.
	notSent := NotSent(err)
	err = l.scrub(err)
	e := &duly.Error{Code: duly.CodeUnavailable, Cause: err}
	if notSent {
		e.Message = "the server at " + l.address.String() + " was not reached: " + err.Error()
	} else {
		e.Message = "no answer from " + l.address.String() + ": " + err.Error() + "; the call may have happened"
	}
	return e
}

// NotSent reports whether certainly no server has read the request of a call with this error:
// because there was no connection, or one of the two sides did not trust the other. In that case
// nothing has happened.
func NotSent(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && (dial.Op == "dial" || refusesCertificate(dial)) {
		return true
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record)
}

// certificateAlerts are the alerts of a server that refuses the client's certificate.
var certificateAlerts = []string{
	"certificate required", "bad certificate", "unknown certificate",
	"unsupported certificate", "expired certificate", "revoked certificate",
}

// refusesCertificate reports whether the server has ended the handshake because of the client's
// certificate. In TLS 1.3 the client has already sent its request at that time, but the server has
// not read it.
func refusesCertificate(e *net.OpError) bool {
	return e.Op == "remote error" && slices.ContainsFunc(certificateAlerts, func(alert string) bool {
		return strings.Contains(e.Err.Error(), alert)
	})
}

// minSecret is the length of the shortest token that scrub removes. A shorter token may occur in
// any text by chance.
const minSecret = 8

// scrub removes the token from an error of the user's transport.
func (l *link) scrub(err error) error {
	if len(l.token) < minSecret || !strings.Contains(err.Error(), l.token) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), l.token, hidden))
}

// unanswered returns the error of a caller that did not wait for the answer.
func unanswered(ctx context.Context) error { return contract.Unanswered(ctx.Err()) }

// refusal converts an answer that is not a success to an error.
func (l *link) refusal(resp *http.Response, body io.Reader) error {
	if !isType(resp, "application/problem+json") {
		return l.unexpected(resp)
	}
	text, err := l.readAll(resp, body, maxProblem)
	if err != nil {
		return err
	}

	e, ok := wire.ReadProblem(text)
	if !ok {
		return l.unexpected(resp) // the problem document comes from another API
	}
	if e.Code != duly.CodeClosed {
		return e
	}

	// The server's engine is closed, but this engine is not. Another server, or the restarted one,
	// may answer the next request.
	return &duly.Error{
		Code: duly.CodeUnavailable, Cause: e,
		Message: "the server at " + l.address.String() + " is shutting down",
	}
}

// unexpected returns the error of an answer that no duly server gives.
func (l *link) unexpected(resp *http.Response) error {
	e := &duly.Error{Code: codeOf(resp.StatusCode), RetryAfter: retryAfter(resp)}
	answered := fmt.Sprintf("%s answered %d %s", l.address, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch {
	case l.scheme == "http" && speaksTLS(resp):
		e.Message = l.address.String() + " speaks TLS; write https:// instead of http://"
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		e.Message = answered + redirectsTo(resp) +
			", and redirects are not followed; give the URL of the duly server itself"
	case e.Code != duly.CodeUnavailable:
		e.Message = answered + " without a reason, which no duly server does; is it a proxy?"
	default:
		e.Message = answered + " in another form than this API's; is it a duly server?"
	}
	return e
}

// speaksTLS reports whether the answer is the one that net/http sends for a request without TLS on
// a port with TLS.
func speaksTLS(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != "" {
		return false
	}
	// The beginning is enough, so the rest of the body is not read.
	begin := make([]byte, 64)
	n, _ := io.ReadFull(resp.Body, begin)
	return strings.HasPrefix(string(begin[:n]), "Client sent an HTTP request to an HTTPS server")
}

// codeOf returns the code for the status of an unexpected answer. A 404 does not mean that a job
// does not exist, because that server has no jobs.
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

// redirectsTo returns the host of a redirect. The rest of the URL may have secrets.
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
	// Parameters of the content type, such as a charset, do not matter.
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), name)
}

// malformed returns the error of an answer that does not fit its request. problem says what the
// answer has.
func (l *link) malformed(problem string) error {
	return contract.Errorf(duly.CodeInternal, "the answer of %s %s; is it a duly server of this version?",
		l.address, problem)
}
