package outcome

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// C16.69: each failure of net/http has its kind.
func TestEachNetworkFailureHasItsKind(t *testing.T) {
	t.Parallel()
	listen := func(t *testing.T, serve func(net.Conn)) string {
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
				go func() {
					defer c.Close()
					serve(c)
				}()
			}
		}()
		return l.Addr().String()
	}
	// answer reads the request first, because a close with unread bytes is a reset.
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			c.Read(make([]byte, 4096))
			fmt.Fprint(c, text)
		}
	}

	tests := map[string]struct {
		url  func(t *testing.T) string
		want Failure
	}{
		"unresolved": {func(*testing.T) string { return "http://nothing.invalid/" }, Unresolved},
		"refused": {func(t *testing.T) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return "http://" + l.Addr().String()
		}, Refused},
		"closed": {func(t *testing.T) string { return "http://" + listen(t, answer("")) }, Reset},
		"no HTTP": {func(t *testing.T) string {
			return "http://" + listen(t, answer("220 mail.example.com ESMTP\r\n"))
		}, Broken},
		"plain": {func(t *testing.T) string { return "https://" + listen(t, answer("HTTP/1.1 400 Bad\r\n\r\n")) },
			TLS},
		"untrusted": {func(t *testing.T) string { return tlsServer(t).URL }, TLS},
		"silent": {func(t *testing.T) string {
			return "http://" + listen(t,
				func(c net.Conn) { c.Read(make([]byte, 1)); c.Read(make([]byte, 1<<20)); <-t.Context().Done() })
		}, Timeout},
		"headers": {func(t *testing.T) string {
			return "http://" + listen(t, answer("HTTP/1.1 200 OK\r\nx: "+strings.Repeat("x", 40<<10)+"\r\n\r\n"))
		}, Headers},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{MaxResponseHeaderBytes: 32 << 10, Proxy: nil}
			defer transport.CloseIdleConnections()
			ctx := t.Context()
			if tt.want == Timeout {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, tt.url(t), strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
				t.Fatalf("answer %s, want none", resp.Status)
			}
			if got := FailureOf(err); got != tt.want {
				t.Errorf("%v is %q, want %q", err, got, tt.want)
			}
		})
	}
}

func tlsServer(t *testing.T) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestFailureOfUnknownErrorsIsBroken(t *testing.T) {
	t.Parallel()
	if got := FailureOf(nil); got != NoFailure || got.String() != "none" {
		t.Errorf("no error is %q", got)
	}
	if got := FailureOf(errors.New("boom")); got != Broken {
		t.Errorf("an unknown error is %q", got)
	}
	if got := Forbidden.String(); got != "destination not allowed" {
		t.Errorf("Forbidden is %q", got)
	}
}
