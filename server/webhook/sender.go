package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
)

// The timeout of a try.
const (
	MinTimeout     = time.Second
	MaxTimeout     = 10 * time.Minute
	DefaultTimeout = 10 * time.Second
)

// Destination is where a job goes, with the settings of its target as they are
// now.
type Destination struct {
	// Target is the name of a registered target; empty for a plain URL.
	Target string
	URL    *url.URL
	// Method is POST, PUT or PATCH. Default POST.
	Method string
	// Headers are secrets.
	Headers map[string]string
	// Timeout is 1 s to 10 min. Default 10 s.
	Timeout time.Duration
	// Success and Permanent are statuses with a meaning of their own.
	Success, Permanent []int
	Bounds             gate.Bounds
	Signer             *sign.Signer
	Transport          Transport
}

// Transport sends requests, as [guard.Transport] does.
type Transport interface {
	// RoundTrip may use a kept connection.
	RoundTrip(*http.Request) (*http.Response, error)
	// Fresh uses a new connection.
	Fresh(*http.Request) (*http.Response, error)
}

// Job is a delivery of a push queue.
type Job struct {
	Namespace string
	// WebhookID is what [sign.ID] or [sign.NoticeID] makes.
	WebhookID string
	Delivery  *duly.Delivery
	// Trace returns the headers traceparent and tracestate of the try. It is called
	// after the gate has admitted the job. Default: the headers of the job.
	Trace func() map[string]string
}

// releases returns how many earlier deliveries of the job ended in release.
func (j Job) releases() int {
	p, ok := contract.ParseReceipt(j.Delivery.Receipt)
	if !ok {
		return 0
	}
	return max(int(p.Delivery)-1-j.Delivery.Failures-j.Delivery.Stalls, 0)
}

// Sender sends jobs. It is safe for concurrent use.
type Sender struct {
	Version string
	Clock   duly.Clock
	Gates   *gate.Gates
}

// errTimeout ends the context of a try whose time is over.
var errTimeout = errors.New("the time of the try is over")

// notSent is the decision about a job that was not sent.
const notSent = "C16.71"

// Send makes one try and returns what it means for the job.
func (s *Sender) Send(ctx context.Context, j Job, to *Destination) outcome.Decision {
	releases := j.releases()
	host := HostOf(to.URL)
	pass, wait := s.Gates.Enter(host, to.Bounds, releases > 0)
	if pass == nil {
		return outcome.Decision{Rule: notSent, As: duly.Release, Delay: &wait}
	}
	var result gate.Result
	// Also after a panic: the gate would count the try for ever.
	defer func() { pass.Done(result) }()

	header, err := s.signed(j, to)
	if err != nil {
		wait := gate.FirstClosure
		return outcome.Decision{Rule: notSent, As: duly.Release, Delay: &wait}
	}
	t := s.try(ctx, j, to, header)
	if t == nil { // aborted
		return outcome.Decision{Rule: notSent, As: duly.Release}
	}
	t.Host, t.Releases = to.URL.Host, releases
	t.Named, t.Success, t.Permanent = to.Target != "", to.Success, to.Permanent
	t.Retain = j.Delivery.Retain > 0
	if t.Answer == nil || t.Answer.Status/100 != 2 { // only a failure has a text
		t.Private = private(to)
	}

	d := outcome.Decide(*t)
	result = gate.Result{Health: d.Health, Closes: d.Closes, CloseFor: d.CloseFor}
	if d.Rule == "C16.65" && d.Delay == nil {
		// The gate must be closed before the job joins its line.
		pass.Done(result)
		wait := s.Gates.Hold(host, to.Bounds)
		d.Delay = &wait
	}
	return d
}

// HostOf returns the host that a URL's gate belongs to: scheme, name and port.
func HostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return u.Scheme + "://" + net.JoinHostPort(name, port)
}

// HostOfURL is HostOf of the text of a URL; "" if that can't be read.
func HostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return HostOf(u)
}

// private returns the texts that an error must not show.
func private(to *Destination) []string {
	list := []string{to.URL.RequestURI(), to.URL.Path, to.URL.EscapedPath(), to.URL.RawQuery}
	for _, segment := range strings.Split(to.URL.Path, "/") {
		if len(segment) >= leastSegment {
			list = append(list, segment)
		}
	}
	for _, values := range to.URL.Query() {
		list = append(list, values...)
	}
	for _, value := range to.Headers {
		_, credential, _ := strings.Cut(value, " ") // behind Bearer or Basic
		list = append(list, value, credential)
	}
	return list
}

// leastSegment is the length, in bytes, from which a segment of a path may be a secret.
// Shorter ones are words such as hook, which other words of an answer contain.
const leastSegment = 12

// signed returns all headers of the request.
func (s *Sender) signed(j Job, to *Destination) (http.Header, error) {
	if to.Signer == nil {
		return nil, sign.ErrNoSecret
	}
	now := s.Clock.Now()
	signature, err := to.Signer.Sign(j.WebhookID, now, j.Delivery.Body)
	if err != nil {
		return nil, err
	}
	return s.headers(j, to, signature, now), nil
}

// try sends the request and returns how it ended, or nil if the caller's context
// ended before.
func (s *Sender) try(ctx context.Context, j Job, to *Destination, header http.Header) *outcome.Try {
	began := s.Clock.Mono()
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := to.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	timer := s.Clock.AfterFunc(timeout, func() { cancel(errTimeout) })
	defer timer.Stop()

	resp, err := exchange(timed, to, header, j.Delivery.Body)
	var answer *outcome.Answer
	if err == nil {
		answer = &outcome.Answer{Status: resp.StatusCode, Header: resp.Header, Body: guard.ReadBody(resp)}
	}
	t := &outcome.Try{Answer: answer, Took: s.Clock.Mono() - began, Now: s.Clock.Now()}
	if err == nil {
		return t
	}

	var refused *guard.Refused
	switch {
	case errors.As(err, &refused):
		t.Failure, t.Reason = outcome.Forbidden, refused.Reason
	case context.Cause(timed) == errTimeout:
		t.Failure = outcome.Timeout
	case ctx.Err() != nil:
		return nil
	default:
		t.Failure = outcome.FailureOf(err)
	}
	return t
}

// exchange sends a request, and once more on a new connection if a kept one broke
// before the first byte of the answer.
func exchange(ctx context.Context, to *Destination, header http.Header, body []byte) (*http.Response, error) {
	var reused, answered atomic.Bool // net/http calls these on goroutines of its own
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	resp, err := to.Transport.RoundTrip(request(traced, to, header, body))
	broke := reused.Load() && !answered.Load() && outcome.FailureOf(err) == outcome.Reset
	if err == nil || !broke || ctx.Err() != nil {
		return resp, err
	}
	return to.Transport.Fresh(request(ctx, to, header, body))
}

// request builds one request that net/http sends once at most: the body has no
// GetBody. [http.NewRequest] would read the URL again.
func request(ctx context.Context, to *Destination, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method: cmp.Or(to.Method, http.MethodPost), URL: to.URL, Host: strings.TrimSuffix(to.URL.Host, ":"), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(body) > 0 { // else net/http would send chunks
		// net/http knows this pair of types, and sends headers and body in one write.
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	}
	return req.WithContext(ctx)
}
