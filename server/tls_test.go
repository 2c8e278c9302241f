package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/certtest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/certs"
)

// secured starts a server with TLS.
func secured(t *testing.T, files, admin certs.Files) (s *Server, keeper *certs.Source) {
	t.Helper()
	e := model.New(model.Config{})

	cfg := Config{
		Engine: e, Store: Store{Registry: e, Maintainer: e}, Clock: clock.System(),
		Logger: slog.New(slog.DiscardHandler),
		Listen: Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: t.TempDir()},
	}
	read := func(f certs.Files) *certs.Source {
		c, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		return certs.NewSource(c)
	}

	keeper = read(files)
	cfg.Listen.TLS, cfg.Listen.AdminTLS = keeper.Config(), read(admin).Config()
	s, err := New(cfg)
	if err == nil {
		err = s.Listen(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()

	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	return s, keeper
}

func clientOf(t *testing.T, files httpengine.TLS) *http.Client {
	t.Helper()
	c, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func ask(t *testing.T, c *http.Client, url string) error {
	t.Helper()
	resp, err := c.Get(url + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	return err
}

// Both addresses use TLS, each with its own certificate. One of them requires client
// certificates.
func TestEachAddressHasItsOwnTLS(t *testing.T) {
	t.Parallel()
	ca, other := certtest.NewCA(t, "ca"), certtest.NewCA(t, "other")
	api, admin := ca.Server("api", "127.0.0.1"), ca.Server("admin", "127.0.0.1")
	s, _ := secured(t, certs.Files{Cert: api.Cert, Key: api.Key},
		certs.Files{Cert: admin.Cert, Key: admin.Key, ClientCA: ca.File})
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") || !strings.HasPrefix(s.AdminURL(), "https://127.0.0.1:") {
		t.Fatalf("%s, %s", s.URL(), s.AdminURL())
	}
	good, foreign := ca.Client("good"), other.Client("foreign")

	for _, tt := range []struct {
		name, url, want string
		files           httpengine.TLS
	}{
		{"the API", s.URL(), "", httpengine.TLS{CA: ca.File}},
		{"the API, by caller does not know its authority", s.URL(), "certificate", httpengine.TLS{CA: other.File}},
		{"the admin address", s.AdminURL(), "", httpengine.TLS{CA: ca.File, Cert: good.Cert, Key: good.Key}},
		{"the admin address without a certificate", s.AdminURL(), "Get", httpengine.TLS{CA: ca.File}},
		{"the admin address with another's", s.AdminURL(), "Get",
			httpengine.TLS{CA: ca.File, Cert: foreign.Cert, Key: foreign.Key}},
	} { // a refused client reads a TLS alert, or the connection is reset
		err := ask(t, clientOf(t, tt.files), tt.url)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A job's whole life works over https, with HTTP/2 on one connection, and so does a long poll that
// ends with a push.
func TestAPIWorksOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t, "ca")
	pair := ca.Server("api", "127.0.0.1")
	files := certs.Files{Cert: pair.Cert, Key: pair.Key}
	s, _ := secured(t, files, files)

	secret, _, err := s.Guard().Create(t.Context(), contract.Token{Namespace: "default", Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}
	c, err := httpengine.TLS{CA: ca.File}.Config()
	if err != nil {
		t.Fatal(err)
	}
	e, err := httpengine.Open(t.Context(), httpengine.Config{URL: s.URL(), Token: secret, TLS: c})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	woken := make(chan error, 1)
	go func() {
		_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		woken <- err
	}()
	if r, err := e.Push(t.Context(),
		[]duly.Job{{Queue: "q", Body: []byte(strings.Repeat("x", 300<<10))}}); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	if err := <-woken; err != nil {
		t.Error(err)
	}
	d, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(d) != 1 || len(d[0].Job.Body) != 300<<10 {
		t.Fatal(err, len(d))
	}
	if errs, err := e.Settle(t.Context(), "default",
		[]duly.SettleRequest{{Receipt: d[0].Receipt, As: duly.Ack}}); err != nil || errs[0] != nil {
		t.Error(err, errs)
	}
}

// The next connection gets a renewed certificate. A client whose certificate authority is no longer
// trusted is refused, even if it resumes an old session.
func TestRenewedCertificateIsUsed(t *testing.T) {
	t.Parallel()
	ca, next := certtest.NewCA(t, "ca"), certtest.NewCA(t, "next")
	old, renewed, mine := ca.Server("old", "127.0.0.1"), next.Server("renewed", "127.0.0.1"), ca.Client("mine")
	s, keeper := secured(t, certs.Files{Cert: old.Cert, Key: old.Key, ClientCA: ca.File},
		certs.Files{Cert: old.Cert, Key: old.Key})
	c, err := httpengine.TLS{CA: ca.File, Cert: mine.Cert, Key: mine.Key}.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	c.InsecureSkipVerify = true

	shown := func() (string, error) {
		transport := &http.Transport{TLSClientConfig: c.Clone(), DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Get(s.URL() + "/healthz")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.TLS.PeerCertificates[0].Subject.CommonName, nil
	}

	if name, err := shown(); name != "old" || err != nil {
		t.Errorf("before: %q, %v", name, err)
	}
	set, err := certs.Files{Cert: renewed.Cert, Key: renewed.Key, ClientCA: ca.File}.Read()
	if err != nil {
		t.Fatal(err)
	}
	keeper.Set(set)
	if name, err := shown(); name != "renewed" || err != nil {
		t.Errorf("after: %q, %v", name, err)
	}
	if set, err = (certs.Files{Cert: renewed.Cert, Key: renewed.Key, ClientCA: next.File}).Read(); err != nil {
		t.Fatal(err)
	}
	keeper.Set(set)
	if name, err := shown(); err == nil {
		t.Errorf("with an authority that is not trusted any more: %q", name)
	}
}

// Plain HTTP to a TLS port is answered with an error that says so, also for duly's own client.
func TestPlainHTTPOnTLSPortIsExplained(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t, "ca")
	pair := ca.Server("api", "127.0.0.1")
	files := certs.Files{Cert: pair.Cert, Key: pair.Key}
	s, _ := secured(t, files, files)
	address := strings.TrimPrefix(s.URL(), "https://")

	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", address)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(b), "HTTPS server") {
		t.Errorf("%s: %s", resp.Status, b)
	}
	e, err := httpengine.Open(t.Context(), httpengine.Config{URL: "http://" + address, Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Stats(t.Context(), duly.Q("q"))
	if duly.CodeOf(err) != duly.CodeUnavailable || !strings.Contains(err.Error(), "speaks TLS; write https://") {
		t.Error(err)
	}
}

// A connection with an older version of TLS is refused.
func TestOldVersionOfTLSIsRefused(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t, "ca")
	pair := ca.Server("api", "127.0.0.1")
	files := certs.Files{Cert: pair.Cert, Key: pair.Key}
	s, _ := secured(t, files, files)
	c, err := httpengine.TLS{CA: ca.File}.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), c)
	if err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
