package webhook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// rig has a sender that may call this machine, and the secret with which it signs.
type rig struct {
	sender *Sender
	guard  *guard.Guard
	secret sign.Pair
	signer *sign.Signer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{guard: g, secret: sign.NewPair()}
	r.signer, _, err = sign.NewSet(ring, "shop", "", r.secret).Signer(ring, sign.Versions{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.sender = &Sender{Version: "1.2.3", Clock: clock.System(), Gates: gate.New(gate.Config{})}
	return r
}

// to returns a destination with the given URL.
func (r *rig) to(t *testing.T, text string) *Destination {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	transport := r.guard.NewTransport(nil)
	t.Cleanup(transport.Close)
	return &Destination{URL: u, Signer: r.signer, Transport: transport, Timeout: 10 * time.Second}
}

// job returns the first delivery of a job.
func job(body string, headers map[string]string) Job {
	d := &duly.Delivery{Attempt: 1}
	d.Queue, d.ID, d.Tries, d.Body, d.Headers = "orders", "o.42", 10, []byte(body), headers
	d.Due = time.Date(2026, 3, 1, 12, 0, 0, 7_654_321, time.UTC)
	d.Receipt = contract.ReceiptParts{Queue: "orders", Number: duly.NewNumber(), Delivery: 1}.Receipt()
	return Job{Namespace: "shop", WebhookID: sign.ID("shop", "orders", "o.42", false), Delivery: d}
}

// serve starts a receiver.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// C16.32, C16.33, C16.34, C16.41, C16.42: a request has the body, the headers and a valid signature.
func TestRequestIsSignedAndHasTheHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	library, err := standardwebhooks.NewWebhook(r.secret.V1.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	type got struct {
		method, path string
		header       http.Header
		body         []byte
		length       int64
	}
	requests := make(chan got, 10)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		requests <- got{req.Method, req.URL.RequestURI(), req.Header, body, req.ContentLength}
		w.WriteHeader(http.StatusAccepted)
	})

	for name, body := range map[string]string{"JSON": `{"paid": 17}`, "empty": "", "bytes": "\x00\xff\r\n.",
		"a mebibyte": strings.Repeat("duly", 1<<18)} {
		t.Run(name, func(t *testing.T) {
			j := job(body, map[string]string{"x-job": "1", "idempotency-key": "2", "x-both": "job",
				"accept-encoding": "br", "user-agent": "job",
				"host": "evil.example", "connection": "close", "authorization": "job", "traceparent": "old",
				"tracestate": "old"})
			j.Delivery.Attempt = 3
			j.Trace = func() map[string]string { return map[string]string{"traceparent": "new"} }
			to := r.to(t, s.URL+"/a%20b?c=d")
			to.Method, to.Headers = http.MethodPut,
				map[string]string{"X-Both": "target", "Authorization": "Bearer t", "content-type": "text/x"}
			d := r.sender.Send(t.Context(), j, to)
			if d.Rule != "C16.62" || d.As != duly.Ack || d.Error != "" {
				t.Fatalf("%+v", d)
			}

			g := eventually.Receive(t, "the request", requests)
			if g.method != http.MethodPut || g.path != "/a%20b?c=d" || string(g.body) != body ||
				g.length != int64(len(body)) {
				t.Errorf("%s %s with %d bytes, Content-Length %d", g.method, g.path, len(g.body), g.length)
			}
			if err := library.Verify(g.body, g.header); err != nil {
				t.Errorf("the public library: %v", err)
			}
			for name, want := range map[string]string{
				"webhook-id": "shop/orders/o~42", "duly-namespace": "shop", "duly-queue": "orders", "duly-id": "o.42",
				"duly-attempt": "3", "duly-tries": "10", "duly-due": "2026-03-01T12:00:00.007Z",
				"user-agent":   "duly/1.2.3",
				"content-type": "application/octet-stream", "x-job": "1", "idempotency-key": "2", "x-both": "target",
				"authorization": "Bearer t",
				"traceparent":   "new", "tracestate": "old", "accept-encoding": "br", "connection": "",
			} {
				if got := g.header.Get(name); got != want || len(g.header.Values(name)) > 1 {
					t.Errorf("%s is %q, want %q", name, g.header.Values(name), want)
				}
			}
			if len(requests) != 0 {
				t.Error("one try sends several requests")
			}
		})
	}

	// A job and a target without any headers.
	j := job("x", map[string]string{"content-type": "application/json"})
	r.sender.Send(t.Context(), j, r.to(t, s.URL))
	g := eventually.Receive(t, "the request", requests)
	if g.method != http.MethodPost || g.header.Get("content-type") != "application/json" ||
		g.header.Get("accept-encoding") != "" {
		t.Errorf("%s with %v, want POST, the job's content-type, and no accept-encoding", g.method, g.header)
	}
}

// writes counts the writes to its connections.
type writes struct {
	http.Transport
	count atomic.Int32
}

// Fresh implements [Transport].
func (w *writes) Fresh(req *http.Request) (*http.Response, error) { return w.RoundTrip(req) }

type countedConn struct {
	net.Conn
	writes *atomic.Int32
}

// Write implements [net.Conn].
func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// A request is sent in one write, because two writes would wake the receiver twice.
func TestRequestIsOneWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) })
	w := &writes{}
	w.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return countedConn{c, &w.count}, err
	}
	t.Cleanup(w.CloseIdleConnections)
	to := r.to(t, s.URL)
	to.Transport = w

	if d := r.sender.Send(t.Context(), job("a body", nil), to); d.As != duly.Ack {
		t.Fatalf("%+v", d)
	}
	if n := w.count.Load(); n != 1 {
		t.Errorf("the request took %d writes, want 1", n)
	}
}

// Each row of the outcome table over a connection: C16.62 to C16.70, C16.73. The
// gate shows whether the try has changed the health of the host.
func TestEachAnswerHasItsOutcome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		header http.Header
		named  bool
		want   outcome.Decision
		closed time.Duration
	}{
		"C16.62 204":             {204, nil, false, outcome.Decision{As: duly.Ack}, 0},
		"C16.63 410":             {410, nil, false, outcome.Decision{As: duly.Bury}, 0},
		"C16.63 410 of a target": {410, nil, true, outcome.Decision{As: duly.Release, Disables: true}, 0},
		"C16.64 no retry": {400, http.Header{"Duly-No-Retry": {"true"}}, false,
			outcome.Decision{As: duly.Bury}, 0},
		"C16.65 429": {429, nil, false, outcome.Decision{As: duly.Release}, gate.FirstClosure},
		"C16.65 503 with a Retry-After": {503, http.Header{"Retry-After": {"60"}}, false,
			outcome.Decision{As: duly.Release}, time.Minute},
		"C16.67 503": {503, nil, false, outcome.Decision{As: duly.Nack}, 0},
		"C16.68 302": {302, http.Header{"Location": {"/other"}}, false, outcome.Decision{As: duly.Nack}, 0},
		"C16.68 404": {404, nil, false, outcome.Decision{As: duly.Nack}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				for name, values := range tt.header {
					w.Header()[name] = values
				}
				w.WriteHeader(tt.status)
			})
			to := r.to(t, s.URL)
			if tt.named {
				to.Target = "crm"
			}
			d := r.sender.Send(t.Context(), job("x", nil), to)
			if rule, _, _ := strings.Cut(name, " "); d.Rule != rule || d.As != tt.want.As ||
				d.Disables != tt.want.Disables {
				t.Errorf("%+v, want %s and %+v", d, rule, tt.want)
			}

			state := r.sender.Gates.States()[0]
			if state.InFlight != 0 || state.Open != (tt.closed == 0) || state.Closed > tt.closed ||
				state.Closed < tt.closed-5*time.Second {
				t.Errorf("the gate is %+v, want closed for %s", state, tt.closed)
			}
			if tt.closed > 0 && (d.Delay == nil || *d.Delay < tt.closed-5*time.Second || *d.Delay > tt.closed) {
				t.Errorf("the job is released for %v, want %s", d.Delay, tt.closed)
			}
			if requests.Load() != 1 {
				t.Errorf("%d requests, want 1", requests.Load())
			}
		})
	}
}

// C16.83: with a closed gate no request is sent, and the job is released.
func TestClosedGateSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var requests atomic.Int32

	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	to := r.to(t, s.URL)
	r.sender.Send(t.Context(), job("x", nil), to)

	for range 10 {
		d := r.sender.Send(t.Context(), job("x", nil), to)
		if d.Rule != NotSent || d.As != duly.Release || d.Delay == nil || *d.Delay < 50*time.Minute {
			t.Errorf("%+v, want a release for an hour", d)
		}
	}

	if requests.Load() != 1 {
		t.Errorf("%d requests, want 1", requests.Load())
	}
}

// C16.66: after 1000 releases, a throttled try counts as a failed one.
func TestTooManyThrottledTriesCountAsFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	for releases, want := range map[int]duly.Settlement{999: duly.Release, 1000: duly.Nack} {
		j := job("x", nil)
		j.Delivery.Failures, j.Delivery.Stalls = 2, 3
		j.Delivery.Receipt = contract.ReceiptParts{Queue: "orders", Number: duly.NewNumber(),
			Delivery: uint64(releases + 6)}.Receipt()
		r.sender.Gates = gate.New(gate.Config{})
		if d := r.sender.Send(t.Context(), j, r.to(t, s.URL)); d.As != want {
			t.Errorf("after %d releases: %+v, want %v", releases, d, want)
		}
	}
}

// C16.69, C16.80: the timeout covers the whole try, by the sender's clock.
func TestTimeoutCoversTheWholeTry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fake := clock.NewFake()
	r.sender.Clock = fake
	arrived, end := make(chan bool, 1), make(chan bool)
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-end
	})
	defer close(end)
	to := r.to(t, s.URL+"/canary-path")
	to.Timeout = time.Minute
	done := make(chan outcome.Decision, 1)
	go func() { done <- r.sender.Send(t.Context(), job("x", nil), to) }()
	eventually.Receive(t, "the request", arrived)
	fake.Advance(time.Minute - 1)

	select {
	case d := <-done:
		t.Fatalf("the try ends early: %+v", d)
	default:
	}
	fake.Advance(1)
	d := eventually.Receive(t, "the end of the try", done)
	if d.Rule != "C16.69" || d.As != duly.Nack ||
		!strings.HasPrefix(d.Error, "timeout from "+to.URL.Host+" after 1m0s") {
		t.Errorf("%+v", d)
	}
}

// C16.73: only the status decides, even if the body is slow or breaks off.
func TestOnlyTheStatusDecidesIfTheBodyNeverEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	})
	j := job("x", nil)
	j.Delivery.Retain = time.Hour
	to := r.to(t, s.URL)
	to.Timeout = 50 * time.Millisecond
	if d := r.sender.Send(t.Context(), j, to); d.As != duly.Ack || string(d.Result) != "begun" {
		t.Errorf("%+v, want an ack with the first part of the body", d)
	}
}

// C16.82: if the lease is lost, the request is aborted, and the gate ignores the try.
func TestLostLeaseAbortsTheRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	arrived, gone := make(chan bool, 1), make(chan bool, 1)

	s := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		arrived <- true
		<-req.Context().Done()
		gone <- true
	})

	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan outcome.Decision, 1)
	go func() { done <- r.sender.Send(ctx, job("x", nil), r.to(t, s.URL)) }()
	eventually.Receive(t, "the request", arrived)
	cancel(errors.New("lease lost"))
	if d := eventually.Receive(t, "the end of the try", done); d.Rule != NotSent || d.As != duly.Release ||
		d.Health != outcome.Unknown {
		t.Errorf("%+v, want a release", d)
	}
	eventually.Receive(t, "the end of the request", gone)
	if st := r.sender.Gates.States()[0]; st.InFlight != 0 || st.Limit != gate.StartLimit {
		t.Errorf("the gate is %+v, want it unchanged", st)
	}
}

// C16.70: a destination that the guard refuses gets no connection, and the job is
// buried.
func TestRefusedDestinationGetsNoConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, text := range []string{"https://10.0.0.1/canary", "https://[::ffff:169.254.169.254]/canary",
		"ftp://127.0.0.1/canary", "https://127.0.0.1:22/canary"} {
		d := r.sender.Send(t.Context(), job("x", nil), r.to(t, text))
		if d.Rule != "C16.70" || d.As != duly.Bury || strings.Contains(d.Error, "canary") ||
			!strings.HasPrefix(d.Error, "destination not allowed (") {
			t.Errorf("%s: %+v, want a bury", text, d)
		}
	}
}

// C16.52: no request is sent without a signature, and no try is used.
func TestNoRequestWithoutASignature(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var requests atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	unsigned, dotted := r.to(t, s.URL), job("x", nil)
	unsigned.Signer = nil
	dotted.WebhookID = "a.b"
	for _, d := range []outcome.Decision{r.sender.Send(t.Context(), job("x", nil), unsigned),
		r.sender.Send(t.Context(), dotted, r.to(t, s.URL))} {
		if d.Rule != NotSent || d.As != duly.Release || d.Delay == nil {
			t.Errorf("%+v, want a release", d)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests, want 0", requests.Load())
	}
}

// C16.78: an echo of the request in the answer shows no secret in the error.
func TestEchoIsRedacted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s %s\n", req.Method, req.RequestURI)
		req.Header.Write(w)
	})
	to := r.to(t, s.URL+"/hooks/canary-path?key=canary-query")
	to.Headers = map[string]string{"authorization": "Bearer canary-header"}
	d := r.sender.Send(t.Context(), job("x", nil), to)
	if d.As != duly.Nack || !strings.Contains(d.Error, "500 Internal Server Error from "+to.URL.Host) ||
		strings.Contains(d.Error, "canary") {
		t.Errorf("the error is %q", d.Error)
	}
}

// C16.78: a value of the query or the credential of a header is removed too.
func TestQuotedValuesAreRedacted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "invalid token canary-query, canary+/ or canary-header of user canary-segment")
	})
	to := r.to(t, s.URL+"/hooks/canary-segment/x?token=canary-query&key=canary%2B%2f")
	to.Headers = map[string]string{"authorization": "Bearer canary-header"}
	d := r.sender.Send(t.Context(), job("x", nil), to)
	if !strings.Contains(d.Error, "invalid token") || strings.Contains(d.Error, "canary") {
		t.Errorf("the error is %q", d.Error)
	}
}

// breaking is a server that answers the first request of each connection, and closes the connection
// at the second request. It counts requests and connections.
type breaking struct {
	mu          sync.Mutex
	requests    int
	connections int
	always      bool // also close at the first request, from the second connection on
}

func (b *breaking) start(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.connections++
			first := !b.always || b.connections == 1
			b.mu.Unlock()
			go b.serve(c, first)
		}
	}()

	return "http://" + l.Addr().String()
}

func (b *breaking) serve(c net.Conn, first bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		b.mu.Lock()
		b.requests++
		b.mu.Unlock()
		if !first {
			return
		}
		io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		first = false
	}
}

func (b *breaking) counts() (requests, connections int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.connections
}

// C16.40: if an idle connection breaks, the request is repeated exactly once, on a new
// connection: neither duly nor net/http repeats it again.
func TestRequestOnABrokenIdleConnectionIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"idempotency-key": "1", "x-idempotency-key": "1"}
	for _, body := range []string{"x", ""} {
		r, b := newRig(t), &breaking{}
		to := r.to(t, b.start(t))
		for i := range 2 {
			if d := r.sender.Send(t.Context(), job(body, headers), to); d.As != duly.Ack {
				t.Fatalf("try %d: %+v", i+1, d)
			}
		}
		if requests, connections := b.counts(); requests != 3 || connections != 2 {
			t.Errorf("two tries made %d requests on %d connections, want 3 on 2", requests, connections)
		}

		r, b = newRig(t), &breaking{always: true}
		to = r.to(t, b.start(t))
		r.sender.Send(t.Context(), job(body, headers), to)
		if d := r.sender.Send(t.Context(), job(body, headers), to); d.Rule != "C16.69" || d.As != duly.Nack {
			t.Errorf("%+v, want a nack", d)
		}
		if requests, connections := b.counts(); requests != 3 || connections != 2 {
			t.Errorf("two tries made %d requests on %d connections, want 3 on 2", requests, connections)
		}
	}
}

// A request is not repeated if it breaks on a new connection.
func TestRequestOnABrokenNewConnectionIsNotRepeated(t *testing.T) {
	t.Parallel()
	r, b := newRig(t), &breaking{always: true, connections: 1}
	if d := r.sender.Send(t.Context(), job("x", nil), r.to(t, b.start(t))); d.Rule != "C16.69" {
		t.Errorf("%+v, want a nack", d)
	}
	if requests, _ := b.counts(); requests != 1 {
		t.Errorf("%d requests, want 1", requests)
	}
}

func TestHostOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://Example.com/x": "https://example.com:443", "https://example.com.:443/": "https://example.com:443",
		"http://example.com/": "http://example.com:80", "https://example.com:8443/": "https://example.com:8443",
		"https://[2600::1]/": "https://[2600::1]:443",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := HostOf(u); got != want {
			t.Errorf("%s belongs to %s, want %s", text, got, want)
		}
	}
}
