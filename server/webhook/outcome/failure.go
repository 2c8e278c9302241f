package outcome

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Failure is the kind of failure of a try without an answer.
type Failure uint8

// The kinds of failures of a try.
const (
	// NoFailure means that the try got an answer.
	NoFailure Failure = iota
	// Unresolved: the name of the host has no address.
	Unresolved
	// Refused: the host accepts no connection.
	Refused
	// Reset: the connection ended before the answer.
	Reset
	// TLS: the handshake failed, or the certificate is not trusted.
	TLS
	// Timeout: the answer took too long.
	Timeout
	// Headers: the headers of the answer are too large.
	Headers
	// Broken means that the answer is not HTTP. It is also the kind of all other failures.
	Broken
	// Forbidden: the guard refused every address of the host.
	Forbidden
)

var failureTexts = [...]string{
	Unresolved: "name not resolved",
	Refused:    "connection refused",
	Reset:      "connection ended before the answer",
	TLS:        "TLS failed",
	Timeout:    "timeout",
	Headers:    "answer headers too large",
	Broken:     "no valid answer",
	Forbidden:  "destination not allowed",
}

// String returns the kind as text.
func (f Failure) String() string {
	if int(f) < len(failureTexts) && f != NoFailure {
		return failureTexts[f]
	}
	return "none"
}

// FailureOf returns the kind of an error of net/http's transport. The caller checks
// for the guard's own error first.
func FailureOf(err error) Failure {
	var dns *net.DNSError
	var timeout net.Error

	switch {
	case err == nil:
		return NoFailure
	// A timeout comes first, because a name server can time out too.
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.As(err, &dns):
		return Unresolved
	// TLS is tested first, because a TLS error may wrap an error of the connection.
	case isTLS(err):
		return TLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset

	// net/http has no types for the next three.
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return TLS
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return Headers
	case strings.Contains(err.Error(), "server closed idle connection"):
		return Reset
	}
	return Broken
}

// isTLS reports whether an error comes from TLS.
func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		bad       x509.CertificateInvalidError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &bad) ||
		strings.Contains(err.Error(), "tls: ")
}
