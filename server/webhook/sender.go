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

// The timeouts of a try.
const (
	MinTimeout     = time.Second
	MaxTimeout     = 10 * time.Minute
	DefaultTimeout = 10 * time.Second
)

// Destination is the receiver of a job, with the current settings of its target.
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
	// Success has further statuses that count as success, Permanent those that bury the job.
	Success, Permanent []int
	Bounds             gate.Bounds
	Signer             *sign.Signer
	Transport          Transport
}

// Transport sends requests. [guard.Transport] implements it.
type Transport interface {
	// RoundTrip may use an idle connection.
	RoundTrip(*http.Request) (*http.Response, error)
	// Fresh uses a new connection.
	Fresh(*http.Request) (*http.Response, error)
}

// Job is a delivery of a push queue.
type Job struct {
	Namespace string
	// WebhookID is a result of [sign.ID] or [sign.NoticeID].
	WebhookID string
	Delivery  *duly.Delivery
	// Trace returns the headers traceparent and tracestate of the try. Trace is called after the
	// gate has admitted the job. By default, the try has the trace headers of the job.
	Trace func() map[string]string
}

// Releases returns the number of earlier deliveries of the job that ended in release.
func (j Job) Releases() int {
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

// errTimeout is the cause that ends the context of a try at its timeout.
var errTimeout = errors.New("the timeout of the try has passed")

// NotSent is the number in docs/contract.md of the rule for a job that was not sent.
const NotSent = "C16.71"

// Send makes one try and returns the decision about the job.
func (s *Sender) Send(ctx context.Context, j Job, to *Destination) outcome.Decision {
	releases := j.Releases()
	host := HostOf(to.URL)
	// The gate comes first: a job that waits costs no signature and no connection.
	permit, wait := s.Gates.Admit(host, to.Bounds, releases > 0)
	if permit == nil {
		return outcome.Decision{Rule: NotSent, As: duly.Release, Delay: &wait}
	}
	var result gate.Result
	// A panic must end the try too, or the gate would count it until a restart.
	defer func() { permit.Done(result) }()

	header, err := s.signed(j, to)
	if err != nil {
		// A secret that cannot be used is a mistake of an operator, so the job waits and uses no
		// try.
		wait := gate.FirstClosure
		return outcome.Decision{Rule: NotSent, As: duly.Release, Delay: &wait}
	}
	t := s.try(ctx, j, to, header)
	if t == nil { // the try was aborted
		return outcome.Decision{Rule: NotSent, As: duly.Release}
	}

	t.Host, t.Releases = to.URL.Host, releases
	// Only a named target may change the meaning of a status.
	t.Named, t.Success, t.Permanent = to.Target != "", to.Success, to.Permanent
	t.Retain = j.Delivery.Retain > 0
	if t.Answer == nil || t.Answer.Status/100 != 2 { // only a failed try has an error text
		t.Private = privateTexts(to)
	}

	d := outcome.Decide(*t)
	result = gate.Result{Health: d.Health, Closes: d.Closes, CloseFor: d.CloseFor}
	if d.Rule == "C16.65" && d.Delay == nil {
		// The gate must close before the job joins its line.
		permit.Done(result)
		wait := s.Gates.HoldBack(host, to.Bounds)
		d.Delay = &wait
	}
	return d
}

// HostOf returns the key of a URL's gate: scheme, name and port.
func HostOf(u *url.URL) string {
	port := u.Port()
	// The default port is written out, so that both forms of a URL share a gate.
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return u.Scheme + "://" + net.JoinHostPort(name, port)
}

// HostOfURL parses a URL and returns its HostOf, or "" for an invalid URL.
func HostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return HostOf(u)
}

// privateTexts returns the texts that an error must not contain.
func privateTexts(to *Destination) []string {
	list := []string{to.URL.RequestURI(), to.URL.Path, to.URL.EscapedPath(), to.URL.RawQuery}
	for _, segment := range strings.Split(to.URL.Path, "/") {
		if len(segment) >= minSecretSegment {
			list = append(list, segment)
		}
	}
	for _, values := range to.URL.Query() {
		list = append(list, values...)
	}
	for _, value := range to.Headers {
		// A receiver may echo the credential without its scheme.
		_, credential, _ := strings.Cut(value, " ") // credential after Bearer or Basic
		list = append(list, value, credential)
	}
	return list
}

// minSecretSegment is the length in bytes from which on a segment of a path counts as a secret.
// Shorter segments are words such as hook, which an answer may contain as well.
const minSecretSegment = 12

// signed returns all headers of the request, with its signature.
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

// try sends the request and returns its end, or nil if the caller's context ended
// earlier.
func (s *Sender) try(ctx context.Context, j Job, to *Destination, header http.Header) *outcome.Try {
	start := s.Clock.Mono()
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := cmp.Or(to.Timeout, DefaultTimeout)
	// The cause distinguishes the timeout from a lost lease.
	timer := s.Clock.AfterFunc(timeout, func() { cancel(errTimeout) })
	defer timer.Stop()

	resp, err := send(timed, to, header, j.Delivery.Body)
	t := &outcome.Try{}
	if err == nil {
		t.Answer = &outcome.Answer{Status: resp.StatusCode, Header: resp.Header, Body: guard.ReadBody(resp)}
	}
	// The time includes the body, because a slow body is a slow host.
	t.Took, t.Now = s.Clock.Mono()-start, s.Clock.Now()
	if err == nil {
		return t
	}

	// The guard's refusal comes first: a request that the guard has refused cannot have timed out.
	var refused *guard.Refused
	switch {
	case errors.As(err, &refused):
		t.Failure, t.Reason = outcome.Forbidden, refused.Reason
	case context.Cause(timed) == errTimeout:
		t.Failure = outcome.Timeout
	// The worker is stopping, or the lease is lost. Neither says anything about the host.
	case ctx.Err() != nil:
		return nil
	default:
		t.Failure = outcome.FailureOf(err)
	}
	return t
}

// send sends a request. If an idle connection breaks before the first byte of the answer, it
// sends the request once more, on a new connection.
func send(ctx context.Context, to *Destination, header http.Header, body []byte) (*http.Response, error) {
	var reused, answered atomic.Bool // atomic, because net/http calls the functions on other goroutines
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})

	resp, err := to.Transport.RoundTrip(request(traced, to, header, body))
	// The receiver may close an idle connection at the moment when a request begins. In that case
	// it has not read the request.
	broke := reused.Load() && !answered.Load() && outcome.FailureOf(err) == outcome.Reset
	if err == nil || !broke || ctx.Err() != nil {
		return resp, err
	}
	return to.Transport.Fresh(request(ctx, to, header, body))
}

// request returns a request that net/http sends at most once, because it has no GetBody.
// [http.NewRequest] would parse the URL again.
func request(ctx context.Context, to *Destination, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method: cmp.Or(to.Method, http.MethodPost), URL: to.URL, Header: header,
		Host:  strings.TrimSuffix(to.URL.Host, ":"),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(body) > 0 { // without a length, net/http would send chunks
		// With this combination of types, net/http sends headers and body in one write.
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	}
	return req.WithContext(ctx)
}
