package httpengine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// link makes requests to one server. It is safe for concurrent use.
type link struct {
	address
	transport http.RoundTripper
	own       *http.Transport // transport of the engine; nil if the transport is the user's
	timeout   time.Duration
}

// The largest answers, in bytes.
const (
	// maxAnswer is for answers without bodies: at most 1000 results.
	maxAnswer = 16 << 20
	// maxJobs is the limit for answers with bodies: 8 MiB of bodies or one body of 64 MiB, with
	// headers and results. JSON escapes make all of them longer.
	maxJobs = 512 << 20
	// maxProblem is for errors.
	maxProblem = 1 << 20
)

// request is one request to the server.
type request struct {
	method, path string
	query        url.Values
	body         []byte        // JSON, or nil for a request without a body
	max          int64         // maximum bytes of the answer; 0 means maxAnswer
	wait         time.Duration // time that the server may wait before it answers
	// stream means that the timeout ends when the answer begins.
	stream bool
}

func newLink(a address, secure *tls.Config, client *http.Client, timeout time.Duration) *link {
	l := &link{address: a, timeout: timeout}
	switch {
	case client == nil:
		l.own = newTransport(secure)
		l.transport = l.own
	case client.Transport == nil:
		l.transport = http.DefaultTransport
	default:
		l.transport = client.Transport
	}
	return l
}

func (l *link) close() {
	// A transport of the user may serve other clients, so its connections stay open.
	if l.own != nil {
		l.own.CloseIdleConnections()
	}
}

var errSilence = errors.New("no byte was sent or received within the timeout")

// idleTimer ends a request without traffic. It uses the system's clock, because connections do.
type idleTimer struct {
	timeout time.Duration

	mu    sync.Mutex
	timer duly.Timer // nil after stop was called
}

func newIdleTimer(timeout time.Duration, end func()) *idleTimer {
	return &idleTimer{timer: clock.System().AfterFunc(timeout, end), timeout: timeout}
}

// reset starts the timeout again.
func (t *idleTimer) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()

	// The transport may still read after stop, and must not start the timer again.
	if t.timer != nil {
		t.timer.Reset(t.timeout)
	}
}

// stop may be called repeatedly. The transport may still read the request after stop.
func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// timedReader reads the body of a request or an answer. Every read resets the timer.
type timedReader struct {
	io.Reader
	timer *idleTimer
}

func (r timedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.timer.reset()
	}
	return n, err
}

// call makes one request and returns the JSON of its answer.
func (l *link) call(ctx context.Context, q request) (text string, err error) {
	err = l.exchange(ctx, q, func(resp *http.Response, body io.Reader) error {
		text, err = l.readJSON(resp, body, q.max)
		return err
	})
	return text, err
}

// exchange makes one request and calls read with a successful answer. Every error is an error of
// the contract, or the context's error if nothing was sent.
func (l *link) exchange(ctx context.Context, q request, read func(*http.Response, io.Reader) error) error {
	// Nothing was sent yet, so the context's error is correct.
	if err := ctx.Err(); err != nil {
		return err
	}
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The server may use the whole wait before it sends the first byte.
	timer := newIdleTimer(l.timeout+q.wait, func() { cancel(errSilence) })
	defer timer.stop()

	resp, err := l.transport.RoundTrip(l.build(timed, q, timer))
	if err != nil {
		return l.noAnswer(ctx, timed, err)
	}
	defer resp.Body.Close()

	body := io.Reader(timedReader{resp.Body, timer})
	// A stream may pause between its lines, so only its beginning has a timeout.
	if q.stream {
		timer.stop()
		body = resp.Body
	} else {
		timer.reset()
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err = l.refusal(resp, body)
	} else {
		err = read(resp, body)
	}

	// Half an answer doesn't say whether the operation happened.
	var broken *brokenAnswer
	if errors.As(err, &broken) {
		return l.noAnswer(ctx, timed, broken.error)
	}
	return err
}

var (
	jsonType  = []string{"application/json"}
	agentName = []string{"duly-go"}
)

// build builds the request. net/http uses GetBody only if nothing of the request was sent,
// because it considers no method except GET safe to repeat.
func (l *link) build(ctx context.Context, q request, timer *idleTimer) *http.Request {
	// The parts of the URL are valid already, so the URL is not parsed again.
	r := &http.Request{
		Method: q.method, URL: &url.URL{Scheme: l.scheme, Host: l.host, Path: q.path}, Host: l.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": agentName, "Accept": jsonType},
	}

	if len(q.query) > 0 {
		r.URL.RawQuery = q.query.Encode()
	}
	if l.token != "" {
		r.Header["Authorization"] = []string{"Bearer " + l.token}
	}
	if q.body != nil {
		r.Header["Content-Type"] = jsonType
		r.ContentLength = int64(len(q.body))
		r.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(timedReader{bytes.NewReader(q.body), timer}), nil
		}
		r.Body, _ = r.GetBody()
	}
	return r.WithContext(ctx)
}

// readJSON reads a whole answer of at most max bytes.
func (l *link) readJSON(resp *http.Response, body io.Reader, max int64) (string, error) {
	// An answer without content has no type.
	if resp.StatusCode == http.StatusNoContent {
		return "", nil
	}
	if !isType(resp, "application/json") {
		return "", l.unexpected(resp)
	}
	if max == 0 {
		max = maxAnswer
	}
	return l.readAll(resp, body, max)
}

func (l *link) readAll(resp *http.Response, body io.Reader, max int64) (string, error) {
	// The declared length decides how much memory is reserved below.
	if resp.ContentLength > max {
		return "", l.tooLong(max)
	}
	var b bytes.Buffer
	if resp.ContentLength > 0 {
		b.Grow(int(resp.ContentLength) + bytes.MinRead) // has room to read the end without growing
	}

	// If one byte more than max can be read, the answer is too long.
	_, err := b.ReadFrom(io.LimitReader(body, max+1))
	switch {
	case err != nil:
		return "", &brokenAnswer{err}
	case int64(b.Len()) > max:
		return "", l.tooLong(max)
	}
	return b.String(), nil
}

func (l *link) tooLong(max int64) error {
	return contract.Errorf(duly.CodeUnavailable,
		"the answer of %s has more than %d bytes; check that it is a duly server; the call may have happened", l.address, max)
}
