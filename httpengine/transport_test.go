package httpengine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// overTLS returns an engine with its own pool of connections to a TLS server.
func overTLS(t *testing.T, serve http.HandlerFunc) (*Engine, *httptest.Server) {
	t.Helper()
	web := httptest.NewUnstartedServer(serve)
	web.EnableHTTP2 = true
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.StartTLS()
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	pool := newTransport(nil)
	pool.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.Cleanup(pool.CloseIdleConnections)
	e, err := Open(context.Background(), Config{URL: web.URL, Token: "t", Client: &http.Client{Transport: pool}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, web
}

// Over https, HTTP/2 is used, so many waits and calls share a connection.
func TestHTTPSSharesOneConnection(t *testing.T) {
	t.Parallel()
	const waits = 50
	var old atomic.Int64
	var seen sync.Map
	arrived := make(chan struct{}, waits)

	e, _ := overTLS(t, func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			old.Add(1)
		}
		seen.Store(req.RemoteAddr, true)
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		if req.Method == "POST" {
			arrived <- struct{}{}
			<-req.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"name":"q"}`)
	})

	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	if _, err := e.Stats(ctx, duly.QueueRef{Name: "q"}); err != nil {
		t.Fatal(err)
	}

	for range waits {
		waiting.Go(func() {
			if _, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"},
				Timeout: time.Minute}); !errors.Is(err, context.Canceled) {
				t.Errorf("a wait ended with %v", err)
			}
		})
	}

	for range waits {
		<-arrived
	}
	if _, err := e.Stats(ctx, duly.QueueRef{Name: "q"}); err != nil {
		t.Error(err)
	}
	cancel()
	waiting.Wait()
	connections := 0
	seen.Range(func(any, any) bool { connections++; return true })
	if old.Load() > 0 || connections != 1 {
		t.Errorf("%d requests were not HTTP/2; there were %d connections, want one", old.Load(), connections)
	}
}

// C4.15: a request that may have succeeded is not repeated, not even with HTTP/2.
func TestResetStreamIsNotRepeated(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	e, _ := overTLS(t, func(_ http.ResponseWriter, req *http.Request) {
		n.Add(1)
		panic(http.ErrAbortHandler)
	})
	_, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if !errors.Is(err, duly.ErrUnavailable) || n.Load() != 1 {
		t.Errorf("a reserve was sent %d times and ended with %v", n.Load(), err)
	}
}

// A server with an untrusted certificate is unavailable.
func TestUnknownCertificateIsUnavailable(t *testing.T) {
	t.Parallel()
	_, web := overTLS(t, func(http.ResponseWriter, *http.Request) { t.Error("the token was sent to a stranger") })
	e, err := Open(context.Background(), Config{URL: web.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}}); !errors.Is(err, duly.ErrUnavailable) ||
		!strings.Contains(err.Error(), "was not reached") {
		t.Errorf("a push ended with %v", err)
	}
}
