package guard

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
)

const soon = 5 * time.Second

// forbidden has hosts that must get no connection. The values are the addresses to which names that
// end in ".test" resolve.
var forbidden = map[string][]string{
	// At least one address of each range.
	"0.0.0.0": nil, "0.1.2.3": nil, "127.0.0.1": nil, "127.255.255.254": nil, "10.0.0.1": nil, "172.16.0.1": nil,
	"172.31.255.255": nil,
	"192.168.1.1":    nil, "169.254.169.254": nil, "100.64.0.1": nil, "192.0.0.1": nil, "192.0.0.192": nil,
	"192.0.2.1": nil, "198.18.0.1": nil,
	"198.19.255.255": nil, "198.51.100.1": nil, "203.0.113.1": nil, "192.88.99.1": nil, "224.0.0.1": nil,
	"239.255.255.255": nil,
	"240.0.0.1":       nil, "255.255.255.255": nil,
	"[::]": nil, "[::1]": nil, "[fc00::1]": nil, "[fd00:ec2::254]": nil, "[fec0::1]": nil, "[fe80::1]": nil,
	"[2001::1]": nil, "[2001:2::1]": nil,
	"[2001:10::1]": nil, "[2001:20::1]": nil, "[2001:db8::1]": nil, "[3fff::1]": nil, "[ff02::1]": nil,
	"[100::1]": nil, "[100:0:0:1::1]": nil,
	"[5f00::1]": nil, "[64:ff9b:1::1]": nil, "[4000::1]": nil, "[e000::1]": nil,
	// embedded IPv4
	"[::ffff:127.0.0.1]": nil, "[::ffff:7f00:1]": nil, "[0:0:0:0:0:ffff:a00:1]": nil, "[::127.0.0.1]": nil,
	"[::a00:1]":            nil,
	"[::ffff:0:127.0.0.1]": nil, "[64:ff9b::127.0.0.1]": nil, "[64:ff9b::a9fe:a9fe]": nil, "[2002:7f00:1::]": nil,
	"[2002:a00:1::1]":        nil,
	"[2600::5efe:127.0.0.1]": nil, "[2600::200:5efe:10.0.0.1]": nil, "[fc00::5efe:8.8.8.8]": nil,
	// zones
	"[fe80::1%25lo]": nil, "[::1%25lo]": nil, "[2600::1%25eth0]": nil, "[fe80::1%251]": nil,
	// odd forms of IPv4
	"2130706433": nil, "0x7f000001": nil, "017700000001": nil, "0x7f.0.0.1": nil, "0177.0.0.1": nil, "127.1": nil,
	"127.0.1": nil, "127.0.0.1.": nil,
	"0": nil, "00.00.00.00": nil, "0x0": nil, "127.0.0.0x1": nil, "127.0.0.01": nil, "1.2.3.4.5": nil,
	"256.256.256.256": nil, "4294967296": nil,
	// URLs with userinfo, fragments and other confusions of parsers.
	"u@127.0.0.1": nil, "u:p@example.test": nil, "example.test#@127.0.0.1": nil, "127.0.0.1#.example.test": nil,
	`example.test\@127.0.0.1`:    nil,
	"example.test:443@127.0.0.1": nil, "127.0.0.1%2f.example.test": nil, "127.0.0.1%00.example.test": nil,
	"127.0.0.1 .example.test": nil,
	// IDN and full-width digits
	"１２７.0.0.1": nil, "①②⑦.0.0.1": nil, "127。0。0。1": nil, "ⓛocalhost": nil, "lo\u00adcalhost": nil,
	// names
	"localhost": {"127.0.0.1"}, "localhost.": {"127.0.0.1"}, "LOCALHOST": nil, "loopback.test": {"127.0.0.1"},
	"six.test": {"::1"}, "both.test": {"127.0.0.1", "::1"},
	"many.test": {"10.0.0.1", "192.168.0.1", "127.0.0.1", "fc00::1"}, "metadata.test": {"169.254.169.254"},
	"mapped.test": {"::ffff:127.0.0.1"},
	"nat64.test":  {"64:ff9b::7f00:1"}, "sixtofour.test": {"2002:7f00:1::"}, "zero.test": {"0.0.0.0"},
	"unspecified.test":       {"::"},
	"xn--localhost-9ug.test": {"127.0.0.1"}, "127.0.0.1.test": {"127.0.0.1"}, "0x7f000001.test": {"127.0.0.1"},
}

func resolveForbidden(name string) []netip.Addr { return parseAll(forbidden[strings.ToLower(name)]...) }

// C16.121 to C16.123, C16.27: at least 80 forms of forbidden destinations get no
// connection, for both schemes. Listeners on this machine count connections.
func TestForbiddenDestinationsGetNoConnection(t *testing.T) {
	t.Parallel()
	four := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	port := strconv.Itoa(int(four.port()))
	watching := []*target{four}
	if l, err := net.Listen("tcp", "[::1]:"+port); err == nil {
		l.Close()
		watching = append(watching, listen(t, "[::1]:"+port, http.HandlerFunc(noContent)))
	}

	g := newGuard(t, Config{PlainHTTP: true}, resolveForbidden)
	tr := transportOf(t, g)
	forms := 0
	for host := range forbidden {
		for _, scheme := range []string{"http", "https"} {
			forms++
			_, status, err := post(t, tr, scheme+"://"+host+":"+port+"/", soon)
			if r := (*Refused)(nil); !errors.As(err, &r) {
				t.Errorf("%s://%s: status %d, %v, want Refused", scheme, host, status, err)
			}
		}
	}
	for _, l := range watching {
		if n := l.accepted.Load(); n != 0 {
			t.Errorf("%s got %d connections, want 0", l.Addr(), n)
		}
	}
	if len(forbidden) < 80 {
		t.Errorf("only %d forms", len(forbidden))
	}
	t.Logf("%d hosts, %d URLs, 0 connections", len(forbidden), forms)
}

// C16.121: the dialer refuses an address even without a check of the URL.
func TestDialerRefusesWithoutTheCheckOfTheURL(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	port := strconv.Itoa(int(l.port()))
	p := newGuard(t, Config{PlainHTTP: true}, resolveForbidden).policy.Load()

	dialed := 0
	for host := range forbidden {
		host, err := url.PathUnescape(strings.Trim(host, "[]"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		c, err := p.dialer(true)(ctx, "tcp", net.JoinHostPort(host, port))
		cancel()
		if err == nil {
			c.Close()
			t.Errorf("%s is connected", host)
		}
		if r := (*Refused)(nil); errors.As(err, &r) {
			dialed++
		}
	}
	if n := l.accepted.Load(); n != 0 || dialed < 60 {
		t.Errorf("%d connections; %d addresses reached the dialer, want 60 at least", n, dialed)
	}
}

// C16.121: each address of a name is checked, for every connection: a name that moves to a
// forbidden address is refused.
func TestEachAddressOfANameIsChecked(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is an address of this machine on Linux alone")
	}
	inside := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	port := strconv.Itoa(int(inside.port()))
	outside := listen(t, "127.0.0.2:"+port, http.HandlerFunc(noContent))

	var lookups atomic.Int32
	g := newGuard(t, Config{Allow: ranges("127.0.0.2/32")}, func(name string) []netip.Addr {
		switch {
		case name == "mixed.test":
			return parseAll("127.0.0.1", "127.0.0.2", "10.0.0.1")
		case name == "flip.test" && lookups.Add(1) <= 2: // the A and AAAA queries of the first lookup
			return parseAll("127.0.0.2")
		case name == "half.test": // its permitted address does not answer
			return parseAll("127.0.0.1", "127.0.0.2")
		}
		return parseAll("127.0.0.1")
	})
	tr := transportOf(t, g)

	if _, status, err := post(t, tr, "http://mixed.test:"+port+"/", soon); err != nil ||
		status != http.StatusNoContent {
		t.Errorf("a name with one permitted address: status %d, %v", status, err)
	}
	if _, status, err := post(t, tr, "http://flip.test:"+port+"/", soon); err != nil || status != http.StatusNoContent {
		t.Errorf("before the move: status %d, %v", status, err)
	}
	tr.connections().close() // closes kept connections
	_, _, err := post(t, tr, "http://flip.test:"+port+"/", soon)
	if r := (*Refused)(nil); !errors.As(err, &r) {
		t.Errorf("after the move: %v, want Refused", err)
	}

	closed := listen(t, "127.0.0.2:0", http.HandlerFunc(noContent))
	closed.Close()
	_, _, err = post(t, tr, "http://half.test:"+strconv.Itoa(int(closed.port()))+"/", soon)
	if r := (*Refused)(nil); err == nil || errors.As(err, &r) {
		t.Errorf("one address refused and one silent: %v, want an error of the network", err)
	}
	if n := inside.accepted.Load(); n != 0 || outside.accepted.Load() == 0 {
		t.Errorf("%d connections to the forbidden address, %d to the other", n, outside.accepted.Load())
	}
}

// loopback returns a transport that may call this machine.
func loopback(t *testing.T) (*Guard, *Transport) {
	t.Helper()
	g := newGuard(t, Config{Allow: ranges("127.0.0.0/8", "::1/128")}, always("127.0.0.1"))
	return g, transportOf(t, g)
}

// C16.37: redirects are not followed, and cookies not kept.
func TestNoRedirectsAndNoCookies(t *testing.T) {
	t.Parallel()
	second := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	var cookies atomic.Int32

	first := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int32(len(r.Cookies())))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		code, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		http.Redirect(w, r, "http://"+second.Addr().String()+"/", code)
	}))

	_, tr := loopback(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		_, status, err := post(t, tr, fmt.Sprintf("http://%s/%d", first.Addr(), code), soon)
		if err != nil || status != code {
			t.Errorf("status %d, %v, want %d", status, err, code)
		}
	}

	if n := second.accepted.Load(); n != 0 || cookies.Load() != 0 {
		t.Errorf("%d connections to the target of the redirect, %d cookies, want 0 and 0", n, cookies.Load())
	}
}

// C16.38: proxy variables of the environment have no effect.
func TestProxyVariablesAreIgnored(t *testing.T) {
	proxy := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://"+proxy.Addr().String())
	}
	receiver := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	_, tr := loopback(t)
	if _, status, err := post(t, tr, "http://"+receiver.Addr().String()+"/", soon); err != nil ||
		status != http.StatusNoContent {
		t.Errorf("status %d, %v", status, err)
	}
	if n := proxy.accepted.Load(); n != 0 {
		t.Errorf("the proxy of the environment got %d connections", n)
	}
}

// C16.128: with push.proxy, every connection goes to that proxy, which decides about addresses.
// C16.38: no other proxy is used.
func TestOnlyTheConfiguredProxyIsUsed(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	proxy := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host)
		w.WriteHeader(http.StatusForbidden)
	}))
	direct := listen(t, "127.0.0.1:0", http.HandlerFunc(noContent))
	at, err := url.Parse("http://" + proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddrPort("127.0.0.1:7777")
	g := newGuard(t, Config{Proxy: at, Allow: ranges("127.0.0.0/8"), Listeners: []netip.AddrPort{own}},
		always("127.0.0.1"))
	tr := transportOf(t, g)

	if _, _, err := post(t, tr, "https://10.0.0.1:8443/", soon); err == nil || asked.Load() != "CONNECT 10.0.0.1:8443" {
		t.Errorf("https: the proxy got %v, %v", asked.Load(), err)
	}
	if _, status, err := post(t, tr, "http://"+direct.Addr().String()+"/", soon); err != nil ||
		status != http.StatusForbidden {
		t.Errorf("http to push.allow: status %d, %v, want the proxy's answer", status, err)
	}
	for _, text := range []string{"http://example.test/", "http://8.8.8.8/", "https://127.0.0.1:7777/",
		"https://[::ffff:127.0.0.1]:7777/", "https://u@example.test/"} {
		_, _, err := post(t, tr, text, soon)
		if r := (*Refused)(nil); !errors.As(err, &r) {
			t.Errorf("%s: %v, want Refused", text, err)
		}
	}
	if n := direct.accepted.Load(); n != 0 {
		t.Errorf("%d connections past the proxy", n)
	}
}

// C16.39: no compression is requested, and no body is decompressed: a bomb stays small.
func TestBodyIsNotDecompressed(t *testing.T) {
	t.Parallel()
	const sent = "\x1f\x8b compressed"
	var accepts atomic.Value
	l := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepts.Store(r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, sent)
	}))
	_, tr := loopback(t)
	body, _, err := post(t, tr, "http://"+l.Addr().String()+"/", soon)
	if err != nil || string(body) != sent || accepts.Load() != "" {
		t.Errorf("body %q, %v, Accept-Encoding %q, want the bytes as sent", body, err, accepts.Load())
	}
}

// raw serves connections with a function, one after the other.
func raw(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
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
				c.Read(make([]byte, 4096))
				serve(c)
			}()
		}
	}()

	return "http://" + l.Addr().String() + "/"
}

// C16.129: an answer that is endless, has 1 GiB or 1 MiB of headers, or comes byte by byte ends
// within the timeout of the request. At most 64 KiB are read.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"

	flood := func(c net.Conn) {
		for part := []byte(strings.Repeat("x", 32<<10)); ; {
			if _, err := c.Write(part); err != nil {
				return
			}
		}
	}

	drip := func(c net.Conn, text string) {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for range pace.C {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}

	tests := map[string]struct {
		serve  func(c net.Conn)
		status int // status of the answer; 0 means no answer
		size   int
	}{
		"a body of 1 GiB": {func(c net.Conn) {
			io.WriteString(c, ok+"Content-Length: 1073741824\r\n\r\n")
			flood(c)
		}, 200, MaxBody},
		"a body without end": {func(c net.Conn) { io.WriteString(c, ok+"\r\n"); flood(c) }, 200, MaxBody},
		"chunks without end": {func(c net.Conn) {
			io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n")
			drip(c, "1\r\nx\r\n")
		}, 200, -1},
		"exactly 64 KiB": {func(c net.Conn) {
			io.WriteString(c, ok+"Content-Length: 65536\r\n\r\n"+strings.Repeat("x", MaxBody))
		}, 200, MaxBody},
		"a body that breaks off": {func(c net.Conn) {
			io.WriteString(c, ok+"Content-Length: 100\r\n\r\nbroken")
		}, 200, 6},
		"no body": {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 0\r\n\r\n") }, 200, 0},
		"headers of 1 MiB": {func(c net.Conn) {
			io.WriteString(c, ok)
			drip(c, "X: "+strings.Repeat("x", 32<<10)+"\r\n")
		}, 0, 0},
		"headers without end":  {func(c net.Conn) { io.WriteString(c, ok); flood(c) }, 0, 0},
		"headers byte by byte": {func(c net.Conn) { io.WriteString(c, ok+"X: "); drip(c, "x") }, 0, 0},
		"1xx without end":      {func(c net.Conn) { drip(c, "HTTP/1.1 103 Early Hints\r\n\r\n") }, 0, 0},
		"101 without end":      {func(c net.Conn) { io.WriteString(c, switching); c.Read(make([]byte, 1)) }, 101, 0},
		"101 that drips":       {func(c net.Conn) { io.WriteString(c, switching); drip(c, "x") }, 101, 0},
		"no HTTP":              {flood, 0, 0},
		"no answer":            {func(c net.Conn) { c.Read(make([]byte, 1)) }, 0, 0},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, tr := loopback(t)
			body, status, err := post(t, tr, raw(t, tt.serve), time.Second)
			if status != tt.status || (err == nil) != (tt.status != 0) {
				t.Errorf("status %d, %v, want %d", status, err, tt.status)
			}
			if len(body) > MaxBody || tt.size >= 0 && len(body) != tt.size {
				t.Errorf("the body has %d bytes, want %d", len(body), tt.size)
			}
		})
	}
}

// C16.129: headers of 30 KiB are accepted, of 40 KiB not.
func TestHeadersOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{30 << 10: 204, 40 << 10: 0} {
		_, tr := loopback(t)
		to := raw(t, func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 204 No Content\r\nX: %s\r\n\r\n", strings.Repeat("x", size))
		})
		if _, status, err := post(t, tr, to, soon); status != want {
			t.Errorf("%d bytes of headers: status %d, %v, want %d", size, status, err, want)
		}
	}
}

// connCounter counts the open connections of a server.
type connCounter struct{ open atomic.Int32 }

func (c *connCounter) serve(t *testing.T) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(noContent))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.open.Add(1)
		case http.StateClosed:
			c.open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// C16.126: new settings close the idle connections, and apply to the next connection.
func TestUpdateClosesConnections(t *testing.T) {
	t.Parallel()
	var c connCounter
	s := c.serve(t)
	g, tr := loopback(t)
	for range 3 {
		if _, status, err := post(t, tr, s.URL, soon); err != nil || status != http.StatusNoContent {
			t.Fatalf("status %d, %v", status, err)
		}
	}
	if n := c.open.Load(); n != 1 {
		t.Fatalf("%d connections are open, want one that is reused", n)
	}

	if err := g.Update(Config{Allow: ranges("127.0.0.0/8"), Deny: ranges("127.0.0.1/32")}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the kept connection is closed", func() bool { return c.open.Load() == 0 })
	_, _, err := post(t, tr, s.URL, soon)
	if r := (*Refused)(nil); !errors.As(err, &r) || !strings.Contains(err.Error(), "push.deny") {
		t.Errorf("after the change: %v, want Refused by push.deny", err)
	}
	if err := g.Update(Config{Deny: []netip.Prefix{{}}}); err == nil {
		t.Error("bad settings are accepted")
	}
	if _, _, err := post(t, tr, s.URL, soon); err == nil {
		t.Error("bad settings replace the good ones")
	}
}

// C16.126: a connection in use is closed after its request.
func TestUpdateClosesConnectionsInUse(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan bool), make(chan bool)
	var c connCounter
	s := c.serve(t)

	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-release
		noContent(w, r)
	})
	g, tr := loopback(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := post(t, tr, s.URL, soon)
		done <- err
	}()
	eventually.Receive(t, "the request", arrived)
	if err := g.Update(Config{Allow: ranges("127.0.0.0/8"), PlainHTTP: true}); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := eventually.Receive(t, "the answer", done); err != nil {
		t.Errorf("the request under way fails: %v", err)
	}
	eventually.True(t, "the connection is closed", func() bool { return c.open.Load() == 0 })
}

// Fresh leaves no idle connection, and Close closes the idle ones.
func TestFreshAndCloseLeaveNoIdleConnections(t *testing.T) {
	t.Parallel()
	var c connCounter
	s := c.serve(t)
	_, tr := loopback(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.Fresh(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	eventually.True(t, "the fresh connection is closed", func() bool { return c.open.Load() == 0 })

	if _, _, err := post(t, tr, s.URL, soon); err != nil {
		t.Fatal(err)
	}
	tr.Close()
	eventually.True(t, "the kept connection is closed", func() bool { return c.open.Load() == 0 })
}

// C16.124: this server's listeners get no request, even if push.allow contains their addresses.
func TestOwnListenersGetNoRequest(t *testing.T) {
	t.Parallel()
	l := listen(t, "0.0.0.0:0", http.HandlerFunc(noContent))
	port := l.port()
	g := newGuard(t, Config{
		Allow: ranges("0.0.0.0/0", "::/0"), PlainHTTP: true,
		Listeners: []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port)},
	}, always("127.0.0.1"))
	tr := transportOf(t, g)

	hosts := []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "[::ffff:127.0.0.1]", "localhost", "name.test"}
	local, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range local {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			hosts = append(hosts, n.IP.String())
		}
	}
	for _, host := range slices.Compact(hosts) {
		_, _, err := post(t, tr, fmt.Sprintf("http://%s:%d/", host, port), soon)
		if r := (*Refused)(nil); !errors.As(err, &r) {
			t.Errorf("%s: %v, want Refused", host, err)
		}
	}
	if n := l.accepted.Load(); n != 0 {
		t.Errorf("%d connections, want 0", n)
	}
}

// C16.127: at least TLS 1.2, with a certificate of a trusted authority, for instance of a
// target's CA.
func TestConnectionNeedsTLS12AndATrustedCertificate(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, version uint16) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(noContent))
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}

	authorities := func(t *testing.T, s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	tests := map[string]struct {
		version uint16
		trusts  bool
		name    string // the name in the certificate, or a different name
		want    bool
	}{
		"TLS 1.3":             {tls.VersionTLS13, true, "example.com", true},
		"TLS 1.2":             {tls.VersionTLS12, true, "example.com", true},
		"TLS 1.1":             {tls.VersionTLS11, true, "example.com", false},
		"an unknown CA":       {tls.VersionTLS13, false, "example.com", false},
		"another name's cert": {tls.VersionTLS13, true, "other.test", false},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.version)
			g, tr := loopback(t)
			if tt.trusts {
				pool, err := Authorities(authorities(t, s))
				if err != nil {
					t.Fatal(err)
				}
				tr = g.NewTransport(pool)
				defer tr.Close()
			}
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			_, status, err := post(t, tr, "https://"+tt.name+":"+port+"/", soon)
			if got := err == nil && status == http.StatusNoContent; got != tt.want {
				t.Errorf("status %d, %v, want a delivery: %v", status, err, tt.want)
			}
		})
	}

	if _, err := Authorities([]byte("no PEM")); err == nil {
		t.Error("Authorities accepts a text without a certificate")
	}
}

// The text of Refused contains no address, because producers can read the text.
func TestRefusedNamesNoAddress(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Config{}, always("10.11.12.13"))
	_, _, err := post(t, transportOf(t, g), "https://inside.test/", soon)
	r := (*Refused)(nil)
	if !errors.As(err, &r) || strings.Contains(r.Error(), "10.11") || r.Addr.Addr().String() != "10.11.12.13" {
		t.Errorf("%v (%v), want Refused without the address in its text", err, r)
	}
}

// C16.131: an idle connection is closed after 30 s.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, encrypted := range []bool{false, true} {
		if d := g.policy.Load().transport(encrypted, nil).IdleConnTimeout; d != 30*time.Second {
			t.Errorf("an idle connection stays for %s", d)
		}
	}
}
