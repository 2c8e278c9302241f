package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly/server/auth"
)

// guesser sends requests from its own address through a proxy.
type guesser struct {
	t      *testing.T
	url    string
	client *http.Client
	sent   int
}

// appending starts a proxy that appends its own X-Forwarded-For line after those of its client,
// as HAProxy does with `option forwardfor`.
func appending(t *testing.T, to string) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		client, _, _ := net.SplitHostPort(r.In.RemoteAddr)
		r.Out.Header["X-Forwarded-For"] = append(slices.Clone(r.In.Header["X-Forwarded-For"]), client)
	}})
	t.Cleanup(proxy.Close)
	return proxy
}

// guessing returns a guesser with a loopback address that is not the proxy's.
func guessing(t *testing.T, proxy, address string) *guesser {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &guesser{t: t, url: proxy, client: &http.Client{Transport: transport}}
}

// try sends one request and returns the status. Every request claims to come from another
// address.
func (g *guesser) try(path string, credentials func(*http.Request)) int {
	g.t.Helper()
	req, err := http.NewRequest("GET", g.url+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	g.sent++
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.%d.%d", g.sent>>8, g.sent&255))
	credentials(req)

	resp, err := g.client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if limited := resp.StatusCode == http.StatusTooManyRequests; limited != (resp.Header.Get("Retry-After") != "") {
		g.t.Errorf("%s with Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	return resp.StatusCode
}

func password(text string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("ada", text) }
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func chosen(text string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Token", text) }
}

// TestGuessingBehindAProxyIsLimited uses a proxy that appends its own X-Forwarded-For line (fault X5,
// C14.41). An address is limited after ten wrong passwords, and after ten wrong chosen tokens of
// a namespace. A correct credential always succeeds at once. The long form makes 500 guesses of
// each kind.
func TestGuessingBehindAProxyIsLimited(t *testing.T) {
	t.Parallel()
	const bound = 10
	s := serve(t, onFile(t), "-account", "ada:correct horse", "-trust", "127.0.0.1/32")
	admin, api := appending(t, s.admin), appending(t, s.url)
	if _, err := guessing(t, admin.URL, "127.0.0.2").client.Get(admin.URL + "/healthz"); err != nil {
		t.Skip("this machine has only one loopback address: ", err)
	}
	n := counts(30, 500)

	for name, tt := range map[string]struct {
		proxy, path string
		guess       func(i int) func(*http.Request)
		limited     int // number of limited guesses
		good        func(*http.Request)
	}{
		"passwords": {admin.URL, "/admin/namespaces",
			func(i int) func(*http.Request) { return password(fmt.Sprint("guess ", i)) }, n - bound, password("correct horse")},
		"chosen tokens": {api.URL, "/api/default/q/peek",
			func(i int) func(*http.Request) { return chosen(fmt.Sprint("guess ", i)) }, n - bound, chosen(s.token)},
		"one old token": {api.URL, "/v1/default/queues", func(int) func(*http.Request) {
			return bearer(auth.Prefix +
				strings.Repeat("A", 43))
		}, 0, bearer(s.token)},
	} {
		g, status := guessing(t, tt.proxy, "127.0.0.2"), map[int]int{}
		for i := range n {
			status[g.try(tt.path, tt.guess(i))]++
		}
		t.Logf("%s: of %d wrong ones %d returned 401 and %d returned 429", name, n, status[401], status[429])
		if status[401]+status[429] != n || status[429] != tt.limited {
			t.Errorf("%s: got %v, want %d answers with 429", name, status, tt.limited)
		}
		if got := g.try(tt.path, tt.good); got == 401 || got == 429 {
			t.Errorf("%s: the correct one returned %d", name, got)
		}
		if got := guessing(t, tt.proxy, "127.0.0.3").try(tt.path, tt.guess(0)); got != 401 {
			t.Errorf("%s: a wrong one from another address returned %d", name, got)
		}
	}
}
