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

// link is the way to one server. It is safe for concurrent use.
type link struct {
	address
	transport http.RoundTripper
	own       *http.Transport // the one to close; nil if it is the user's
	timeout   time.Duration
}

// Bounds on an answer, in bytes.
const (
	// mostSmall is for answers that carry no bodies: at most 1000 results.
	mostSmall = 16 << 20
	// mostJobs is for those that do: 8 MiB or one body of 64 MiB, headers and
	// results beside it, and all of that with escapes.
	mostJobs = 512 << 20
	// mostProblem is for errors.
	mostProblem = 1 << 20
)

// request is one request to make.
type request struct {
	method, path string
	query        url.Values
	body         []byte        // JSON; nil for none
	most         int64         // bytes of the answer; 0 is mostSmall
	hold         time.Duration // for how long the server may hold it on purpose
	// open lets the answer take as long as it takes once it has begun.
	open bool
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
	if l.own != nil {
		l.own.CloseIdleConnections()
	}
}

var errSilence = errors.New("nothing was heard in time")

// patience ends a request of which nothing was heard for too long. It goes by
// the machine's own clock: a connection knows no other.
type patience struct {
	length time.Duration

	mu    sync.Mutex
	timer duly.Timer // nil once it does not matter any more
}

func newPatience(length time.Duration, end func()) *patience {
	return &patience{timer: clock.System().AfterFunc(length, end), length: length}
}

func (p *patience) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.length)
	}
}

// stop may be repeated. The transport may still read the request after it.
func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// watched is a request's or an answer's body; every piece of it renews the
// patience.
type watched struct {
	io.Reader
	*patience
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if n > 0 {
		w.heard()
	}
	return n, err
}

// call makes one request and returns its answer's JSON.
func (l *link) call(ctx context.Context, q request) (text string, err error) {
	err = l.exchange(ctx, q, func(resp *http.Response, body io.Reader) error {
		text, err = l.readJSON(resp, body, q.most)
		return err
	})
	return text, err
}

// exchange makes one request and hands a good answer to take. Every error is
// one of the contract, or the context's own where nothing was sent.
func (l *link) exchange(ctx context.Context, q request, take func(*http.Response, io.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPatience(l.timeout+q.hold, func() { cancel(errSilence) })
	defer p.stop()
	resp, err := l.transport.RoundTrip(l.build(within, q, p))
	if err != nil {
		return l.lost(ctx, within, err)
	}
	defer resp.Body.Close()
	if q.open {
		p.stop()
		err = l.accept(resp, resp.Body, take)
	} else {
		p.heard()
		err = l.accept(resp, watched{resp.Body, p}, take)
	}
	var broken *brokenAnswer
	if errors.As(err, &broken) {
		return l.lost(ctx, within, broken.error)
	}
	return err
}

func (l *link) accept(resp *http.Response, body io.Reader, take func(*http.Response, io.Reader) error) error {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return l.refusal(resp, body)
	}
	return take(resp, body)
}

var (
	jsonType  = []string{"application/json"}
	agentName = []string{"duly-go"}
)

// build makes the request. Its body can be had anew, which net/http makes use
// of only where certainly nothing of it was sent: no method but GET is one
// that it takes for safe to repeat.
func (l *link) build(ctx context.Context, q request, p *patience) *http.Request {
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
			return io.NopCloser(watched{bytes.NewReader(q.body), p}), nil
		}
		r.Body, _ = r.GetBody()
	}
	return r.WithContext(ctx)
}

// readJSON reads an answer whole.
func (l *link) readJSON(resp *http.Response, body io.Reader, most int64) (string, error) {
	if resp.StatusCode == http.StatusNoContent {
		return "", nil
	}
	if !isType(resp, "application/json") {
		return "", l.stranger(resp)
	}
	if most == 0 {
		most = mostSmall
	}
	return l.readAll(resp, body, most)
}

func (l *link) readAll(resp *http.Response, body io.Reader, most int64) (string, error) {
	if resp.ContentLength > most {
		return "", l.tooLong(most)
	}
	var b bytes.Buffer
	if resp.ContentLength > 0 {
		b.Grow(int(resp.ContentLength) + bytes.MinRead) // with room to see the end
	}
	_, err := b.ReadFrom(io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return "", &brokenAnswer{err}
	case int64(b.Len()) > most:
		return "", l.tooLong(most)
	}
	return b.String(), nil
}

func (l *link) tooLong(most int64) error {
	return contract.Errorf(duly.CodeUnavailable, "the answer of %s is longer than %d bytes, as no duly server's is; it may have happened", l.address, most)
}
