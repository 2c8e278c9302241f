package httpengine_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/memnet"
	"github.com/dulymq/duly/internal/wire"
)

// token must appear only in the Authorization header.
const token = "duly_S3CRETs3cretS3CRETs3cretS3CRETs3cretS3CRET"

// rig is an engine with a fake server, in a bubble of package synctest.
type rig struct {
	*httpengine.Engine
	t        testing.TB
	listener *memnet.Listener
	// kill stops the server and closes its connections.
	kill func()

	mu   sync.Mutex
	seen []seen
}

// seen is a request that reached the server.
type seen struct{ line, body, auth string }

// uptime is the monotonic time at the start of a test. With zero, a test would not notice code that
// uses a time as a duration.
const uptime = 3 * time.Hour

// inBubble runs a test with a new rig.
func inBubble(t *testing.T, serve http.HandlerFunc, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(uptime)
		test(t, newRig(t, httpengine.Config{}, serve))
	})
}

func newRig(t testing.TB, cfg httpengine.Config, serve http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{t: t, listener: memnet.Listen()}
	web := &http.Server{Handler: r.note(serve), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	r.kill = func() { web.Close() }
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(r.listener) })
	network := &http.Transport{DialContext: r.listener.Dial, MaxIdleConnsPerHost: 100, DisableCompression: true}
	cfg.URL = "http://" + token + "@duly.test/shop"
	if cfg.Clock == nil {
		cfg.Clock = clock.Later(clock.System(), 100*365*24*time.Hour)
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Transport: network}
	}
	e, err := httpengine.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = e

	t.Cleanup(func() {
		e.Close()
		web.Close()
		network.CloseIdleConnections()
		serving.Wait()
	})

	return r
}

// note records each request before the fake server answers the request.
func (r *rig) note(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client disconnected while it sent the request
		}
		r.mu.Lock()
		r.seen = append(r.seen, seen{req.Method + " " + req.URL.RequestURI(), string(body),
			req.Header.Get("Authorization")})
		r.mu.Unlock()
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
		req.Body, _ = req.GetBody()
		serve(w, req)
	})
}

// requests returns the recorded requests.
func (r *rig) requests() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.seen...)
}

// push pushes one job and returns the error of the call or of the job.
func (r *rig) push(ctx context.Context) error {
	results, err := r.Push(ctx, []duly.Job{{Queue: "q", ID: "x", Made: true}})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, json string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, json)
}

// problem answers with an error, like a server.
func problem(w http.ResponseWriter, err error) {
	body, status := wire.AppendProblem(nil, err, 0)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// created answers a push: every job is created.
func created(w http.ResponseWriter, req *http.Request) {
	jobs := pushed(req)
	results := make([]duly.PushResult, len(jobs))
	for i, j := range jobs {
		results[i] = duly.PushResult{ID: j.ID, Status: duly.Created}
	}
	reply(w, http.StatusOK, string(wire.PushedForm.Append(nil, results)))
}

func pushed(req *http.Request) []duly.Job {
	body, _ := io.ReadAll(req.Body)
	jobs, err := wire.ReadPush(string(body), "shop")
	if err != nil {
		panic(err)
	}
	return jobs.Values
}

// cut answers with raw bytes and closes the connection.
func cut(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn := hijack(w)
		_, _ = io.WriteString(conn, raw)
		conn.Close()
	}
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}

// wants fails the test unless the error has the code, and no token in its text.
func wants(t *testing.T, what string, err error, code duly.Code) {
	t.Helper()
	if got := duly.CodeOf(err); err == nil || got != code {
		t.Errorf("%s is answered %q (%v), want %s", what, got, err, code)
	}
	hides(t, what, err)
}

// hides fails the test if an error of the chain has the token in its text.
func hides(t *testing.T, what string, err error) {
	t.Helper()
	for ; err != nil; err = unwrap(err) {
		if strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s shows the token: %v", what, err)
		}
	}
}

func unwrap(err error) error {
	u, ok := err.(interface{ Unwrap() error })
	if !ok {
		return nil
	}
	return u.Unwrap()
}
