package httpengine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

// C11.33, C13.1: an error is the same on both sides of the wire.
func TestEveryErrorIsRebuilt(t *testing.T) {
	sent := map[string]error{}
	for _, code := range duly.Codes() {
		sent[string(code)] = contract.Errorf(code, "said by the server")
	}
	sent["limited"] = &duly.Error{Code: duly.CodeLimited, Message: "slow down", RetryAfter: 1500 * time.Millisecond}
	sent["conflict"] = contract.Conflict(duly.StateLeased, "is leased")
	sent["invalid"] = contract.Invalid("tries", "is -1, must be between 1 and 65535")
	sent["too_large"] = contract.TooLarge("body", "has 9 bytes, may have at most 8")
	next := ""

	inBubble(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, sent[next]) }, func(t *testing.T, r *rig) {
		for name, want := range sent {
			next = name
			_, err := r.Get(t.Context(), duly.QueueRef{Name: "q"}, "x")
			if !errors.Is(err, want) {
				t.Errorf("%s arrives as %v", name, err)
			}
			var got, public *duly.Error = nil, wire.Public(want)
			if name == "closed" { // the server's engine is closed, not this one
				wants(t, name, err, duly.CodeUnavailable)
			} else if !errors.As(err, &got) || got.Code != public.Code || got.Message != public.Message ||
				got.State != public.State ||
				got.RetryAfter != public.RetryAfter || !slices.Equal(got.Fields, public.Fields) {
				t.Errorf("%s arrives as %+v, want %+v", name, got, public)
			}
			hides(t, name, err)
		}
	})
}

// C11.33: the error of a single item is also the same on both sides.
func TestErrorOfAnItemIsRebuilt(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, string(wire.ResultsForm.Append(nil,
			[]error{nil, duly.ErrLeaseLost, contract.TooLarge("result", "has 9 bytes")})))
	}, func(t *testing.T, r *rig) {
		o := duly.SettleRequest{Receipt: "q:0:01J0000000000000000000000A:1", As: duly.Ack}
		errs, err := r.Settle(t.Context(), "", []duly.SettleRequest{o, o, o})
		if err != nil || errs[0] != nil || !errors.Is(errs[1], duly.ErrLeaseLost) ||
			!errors.Is(errs[2], duly.ErrTooLarge) {
			t.Errorf("the answers are %v, %v", errs, err)
		}
	})
}

// C13.11: bad answers are the error unavailable or internal.
func TestMisbehavingServerIsUnavailable(t *testing.T) {
	html := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>"+token)
		}
	}

	tests := map[string]struct {
		serve http.HandlerFunc
		code  duly.Code
		says  string
	}{
		"a closed connection":       {cut(""), duly.CodeUnavailable, "may have happened"},
		"an answer cut in its head": {cut("HTTP/1.1 200 O"), duly.CodeUnavailable, "may have happened"},
		"an answer cut in its body": {cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
			"Content-Length: 99\r\n\r\n{\"re"), duly.CodeUnavailable, "may have happened"},
		"an answer cut in a chunk": {cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n9\r\n{\"re"), duly.CodeUnavailable, "may have happened"},
		"an error cut in its body": {cut("HTTP/1.1 400 Bad\r\nContent-Type: application/problem+json\r\n" +
			"Content-Length: 99\r\n\r\n{\"co"), duly.CodeUnavailable, "may have happened"},
		"bytes that are not HTTP": {cut("SSH-2.0-OpenSSH_9.6\r\n"), duly.CodeUnavailable, "may have happened"},
		"a head without end": {endless("HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("m", 50_000)+"\r\n"),
			duly.CodeUnavailable, "may have happened"},
		"a body of a terabyte": {cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
			"Content-Length: 1099511627776\r\n\r\n{"), duly.CodeUnavailable, "has more than"},
		"a body without end": {endless("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"results\":[",
			strings.Repeat("{},", 10_000)), duly.CodeUnavailable, "has more than"},
		"a web page":      {html(200), duly.CodeUnavailable, "is it a duly server?"},
		"several choices": {html(300), duly.CodeUnavailable, "redirects are not followed"},
		"an odd redirect": {html(399), duly.CodeUnavailable, "redirects are not followed"},
		"a bad request":   {html(400), duly.CodeUnavailable, "400 Bad Request in another form than this API's"},
		"a page about TLS": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, "Client sent an HTTP request to an HTTPS server.")
		}, duly.CodeUnavailable, "400 Bad Request in another form"},
		"a web page that is missing": {html(404), duly.CodeUnavailable, "is it a duly server?"},
		"a proxy without a server":   {html(502), duly.CodeUnavailable, "502 Bad Gateway"},
		"a proxy that waits in vain": {html(504), duly.CodeUnavailable, "504 Gateway Timeout"},
		"a proxy that wants a name":  {html(401), duly.CodeUnauthorized, "proxy"},
		"a proxy that forbids":       {html(403), duly.CodeForbidden, "proxy"},
		"a proxy's rate":             {html(429), duly.CodeLimited, "proxy"},
		"a server's error":           {html(500), duly.CodeUnavailable, "500"},
		"JSON that is cut": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"results":[`) },
			duly.CodeInternal, "is it a duly server"},
		"JSON of another kind": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `["hello"]`) },
			duly.CodeInternal, "is it a duly server"},
		"no results": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{}`) },
			duly.CodeInternal, "0 results"},
		"too many results": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"results":[{},{}]}`) },
			duly.CodeInternal, "2 results"},
		"success without an answer": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
			duly.CodeInternal, "is it a duly server"},
		"another API's problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"title":"no such pod"}`)
		}, duly.CodeUnavailable, "is it a duly server?"},
	}

	for name, tt := range tests {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inBubble(t, tt.serve, func(t *testing.T, r *rig) {
				err := r.push(t.Context())
				wants(t, name, err, tt.code)
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s is answered %v, which does not say %q", name, err, tt.says)
				}
				if n := len(r.requests()); n != 1 {
					t.Errorf("%d pushes were sent, want one", n)
				}
			})
		})
	}
}

// endless sends an answer that starts with a beginning and continues with one piece forever.
func endless(begin, piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn := hijack(w)
		defer conn.Close()
		_, err := io.WriteString(conn, begin)
		for err == nil {
			_, err = io.WriteString(conn, piece)
		}
	}
}

// A redirect is not followed, because its destination would get the token.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://elsewhere.test/S3CRET")
				w.WriteHeader(status)
			}, func(t *testing.T, r *rig) {
				_, err := r.Get(t.Context(), duly.QueueRef{Name: "q"}, "x")
				wants(t, "a redirect", err, duly.CodeUnavailable)
				if err != nil && !strings.Contains(err.Error(), "https://elsewhere.test") {
					t.Errorf("%v does not say where to", err)
				}
				if n := len(r.requests()); n != 1 {
					t.Errorf("%d requests were sent, want one", n)
				}
			})
		})
	}
}

// C13.11: if there is no server, calls return unavailable, with a text of one line.
func TestServerThatIsNotThereIsUnavailable(t *testing.T) {
	inBubble(t, created, func(t *testing.T, r *rig) {
		r.listener.Close()
		err := r.push(t.Context())
		wants(t, "no server", err, duly.CodeUnavailable)
		if err != nil && !strings.Contains(err.Error(), "was not reached") {
			t.Errorf("%v does not say that it was not reached", err)
		}
	})
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, httpengine.Config{Timeout: time.Second},
			func(w http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		begin := time.Now()
		wants(t, "silence", r.push(t.Context()), duly.CodeUnavailable)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the server was given up after %s, want 1s", took)
		}
	})
}

// A transfer may take longer than any timeout while bytes are received.
func TestSlowTransferHasNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := string(wire.PushedForm.Append(nil, []duly.PushResult{{ID: "x", Status: duly.Created}}))
		r := newRig(t, httpengine.Config{Timeout: time.Second}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := range answer {
				time.Sleep(900 * time.Millisecond)
				_, _ = io.WriteString(w, answer[i:i+1])
				_ = http.NewResponseController(w).Flush()
			}
		})
		if err := r.push(t.Context()); err != nil {
			t.Errorf("a slow answer: %v", err)
		}
	})
}

// The Retry-After of a proxy is used.
func TestRetryAfterOfAProxyIsKept(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}, func(t *testing.T, r *rig) {
		var e *duly.Error
		if err := r.push(t.Context()); !errors.As(err, &e) || e.RetryAfter != 7*time.Second {
			t.Errorf("the answer is %v", err)
		}
	})
}

type leakyTransport struct{}

func (leakyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s %s with %v failed", r.Method, r.URL, r.Header)
}

// C11.5: no error contains the token, even if the transport repeats it.
func TestErrorOfTransportHidesToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, httpengine.Config{Client: &http.Client{Transport: leakyTransport{}}}, created)
	err := r.push(context.Background())
	wants(t, "a transport that talks", err, duly.CodeUnavailable)
	if err != nil && !strings.Contains(err.Error(), "failed") {
		t.Errorf("%v lost its cause", err)
	}
}
