package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hook"
)

// C16.26 to C16.31: CheckURL accepts a URL, or returns an error with the broken rule.
func TestCheckURLNamesTheBrokenRule(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Config{Allow: ranges("10.0.0.0/8")}, nowhere)
	good := []string{
		"https://example.com", "https://example.com/", "https://example.com/a/b?c=d&e=%20", "HTTPS://EXAMPLE.COM/",
		"https://example.com./", "https://example.com:443/", "https://example.com:8443/", "https://example.com:80/",
		"https://xn--bcher-kva.example/", "https://a_b.example/", "https://example/", "https://8.8.8.8/",
		"https://[2600::1]/",
		"https://[::ffff:8.8.8.8]/", "http://10.0.0.1/", "http://example.com/", "https://10.0.0.1:9000/x",
		"https://0x.example/", "https://1.2.3.4.example/",
		"https://example.com/" + strings.Repeat("a", duly.MaxURL-len("https://example.com/")),
	}
	for _, text := range good {
		if u, err := g.CheckURL("callback", text); err != nil || u.Host == "" {
			t.Errorf("%.60s: %v", text, err)
		}
	}

	bad := map[string]string{
		"https://example.com/" + strings.Repeat("a",
			duly.MaxURL+1-len("https://example.com/")): "has 2049 bytes, may have at most 2048",
		"":                                                "is not an absolute URL",
		"/hook":                                           "is not an absolute URL",
		"example.com/hook":                                "is not an absolute URL",
		"//example.com/":                                  "is not an absolute URL",
		"https:example.com":                               "is not an absolute URL",
		"https://exa%zzmple.com/":                         "is not an absolute URL",
		"ftp://example.com/":                              "has the scheme ftp",
		"file:///etc/passwd":                              "has the scheme file",
		"gopher://example.com:6379/_x":                    "has the scheme gopher",
		"unix:///run/x.sock":                              "has the scheme unix",
		"javascript://example.com/":                       "has the scheme javascript",
		"https://":                                        "has no valid host",
		"https:///path":                                   "has no valid host",
		"https://:443/":                                   "has no valid host",
		"https://u@example.com/":                          "has a user name",
		"https://u:p@example.com/":                        "has a user name",
		"https://@example.com/":                           "has a user name",
		"https://example.com#f":                           "has a fragment",
		"https://example.com/#":                           "has a fragment",
		"https://example.com:22/":                         "has the port 22",
		"https://example.com:25/":                         "has the port 25",
		"https://example.com:1023/":                       "has the port 1023",
		"https://example.com:0/":                          "has no valid port",
		"https://example.com:00443/":                      "has no valid port",
		"https://example.com:65536/":                      "has no valid port",
		"https://example.com:/":                           "has a colon without a port",
		"https://exämple.com/":                            "outside of ASCII",
		"https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/":                              "outside of ASCII",
		"https://example.com/ä":                           "outside of ASCII",
		"https://example.com/a b":                         "has a space",
		"https://example.com/\r\nx":                       "has a space",
		"https://example.com/\x00":                        "has a space",
		"https://example.com\\@evil/":                     "a backslash",
		" https://example.com/":                           "has a space",
		"https://%6c%6f/":                                 "is not an absolute URL",
		"https://ex%ffample.com/":                         "has no valid host",
		"https://example..com/":                           "has no valid host",
		"https://.example.com/":                           "has no valid host",
		"https://exam*ple.com/":                           "has no valid host",
		"https://" + strings.Repeat("a", 64) + ".com/":    "has no valid host",
		"https://" + strings.Repeat("abcd.", 51) + "com/": "has no valid host",
		"https://2130706433/":                             "ends in a number",
		"https://0x7f000001/":                             "ends in a number",
		"https://127.1/":                                  "ends in a number",
		"https://0177.0.0.1/":                             "ends in a number",
		"https://127.0.0.1./":                             "ends in a number",
		"https://1.2.3.4.5/":                              "ends in a number",
		"https://example.0x1/":                            "ends in a number",
		"https://example.0X/":                             "ends in a number",
		"https://[::1":                                    "is not an absolute URL",
		"https://[1.2.3.4]/":                              "is not an absolute URL",
		"https://[v1.a]/":                                 "is not an absolute URL",
		"https://[fe80::1%25eth0]/":                       "an address with a zone",
		"https://127.0.0.1/":                              "loopback; add its network to push.allow",
		"https://[::ffff:127.0.0.1]/":                     "loopback; add its network to push.allow",
		"https://169.254.169.254/meta":                    "link-local; add its network to push.allow",
		"http://8.8.8.8/":                                 "http reaches only addresses in push.allow",
		"http://[2600::1]/":                               "http reaches only addresses in push.allow",
	}
	for text, want := range bad {
		u, err := g.CheckURL("callback", text)
		if !errors.Is(err, duly.ErrInvalid) || u != nil {
			t.Errorf("%.60q: %v, want invalid", text, err)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, want) || !strings.Contains(msg, "callback") {
			t.Errorf("%.60q: the error is %q, want %q", text, msg, want)
		}
	}
}

// C16.27: a name has at most 253 bytes, and its labels have at most 63 bytes.
func TestLengthOfANameIsBounded(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	longest := strings.Join([]string{label, label, label, label[:61]}, ".")
	for name, want := range map[string]bool{
		label + ".com": true, label + "a.com": false, longest: true, longest + ".": true, longest + "a": false,
	} {
		if _, reason := hook.ParseURL("https://" + name + "/"); (reason == "") != want {
			t.Errorf("a name of %d bytes: %q, want accepted: %v", len(name), reason, want)
		}
	}
}

// The error is logged, so its text contains no part of a path or a query.
func TestURLErrorHidesPathAndQuery(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Config{}, nowhere)
	for _, text := range []string{"ftp://h/canary?canary", "https://h:22/canary?canary", "https://127.0.0.1/canary",
		"https://h/canary#canary",
		"https://h/canary%zz", "https://canary:canary@h/", "https://h/canary ",
		"https://h/" + strings.Repeat("canary", 400)} {
		if _, err := g.CheckURL("callback", text); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("the error of %.30q is %v", text, err)
		}
	}
}

// C16.28: push.ports.
func TestOnlyAllowedPortsAreAccepted(t *testing.T) {
	t.Parallel()
	p, err := ParsePorts("443, 8000-8999")
	if err != nil || p.String() != "443, 8000-8999" {
		t.Fatalf("ParsePorts: %s, %v", p, err)
	}
	g := newGuard(t, Config{Ports: p}, nowhere)

	for port, want := range map[string]bool{"443": true, "8000": true, "8999": true, "80": false, "7999": false,
		"9000": false} {
		if _, err := g.CheckURL("callback", "https://example.com:"+port+"/"); (err == nil) != want {
			t.Errorf("port %s: %v, want allowed: %v", port, err, want)
		}
	}

	for _, text := range []string{"", "0", "x", "80,", "90-80", "1-65536", "-1", "80-", "http"} {
		if got, err := ParsePorts(text); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("ParsePorts(%q) is %v, %v, want invalid", text, got, err)
		}
	}
	if d := DefaultPorts(); d.Contains(22) || d.Contains(1023) || !d.Contains(80) || !d.Contains(443) ||
		!d.Contains(1024) || !d.Contains(65535) {
		t.Errorf("the default is %s", d)
	}
}

// New returns an error with each bad setting.
func TestNewRefusesBadSettings(t *testing.T) {
	t.Parallel()
	zoned := netip.Prefix{}
	for field, cfg := range map[string]Config{
		"push.allow": {Allow: []netip.Prefix{zoned}},
		"push.deny":  {Deny: []netip.Prefix{zoned}},
		"push.proxy": {Proxy: &url.URL{Scheme: "socks5", Host: "h:1"}},
	} {
		if _, err := New(cfg); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// C16.121: random URLs of forbidden and odd parts get no connection. DULY_LONG=1 tries a
// million of them.
func TestRandomURLsReachNoForbiddenHost(t *testing.T) {
	t.Parallel()
	count := 20_000
	if os.Getenv("DULY_LONG") != "" {
		count = 1_000_000
	}
	var hosts []string
	for host := range forbidden {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	hosts = append(hosts, "", ".", "a.b.", "[::]:", "[", "]", "%", "a%zz", "127.0.0.1:80:80", "[::ffff:a9fe:a9fe]",
		"a@b@127.0.0.1")
	parts := [][]string{
		{"https://", "http://", "HTTP://", "//", "https:/", "https:", "ftp://", "https:///", " https://"},
		{"", "", "", "u@", "u:p@", "@", "127.0.0.1@", "example.com%40"},
		hosts,
		{"", "", ":443", ":80", ":8080", ":22", ":0", ":", ":99999", ":443:80", ":0x50", ":+80"},
		{"", "/", "/a?b=c", "/#f", "?q", "#@example.com/", "\\@example.com", "/../..//", "/%2e%2e", "/\x00", "/ä"},
	}

	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	g := newGuard(t, Config{PlainHTTP: true}, always("127.0.0.1", "::1"))
	tr := transportOf(t, g)
	reached := 0
	for range count {
		var text strings.Builder
		for i, choices := range parts {
			n := 0 // draws the plain part in three of four cases
			if i == 2 || random.IntN(4) == 0 {
				n = random.IntN(len(choices))
			}
			text.WriteString(choices[n])
		}
		u, err := g.CheckURL("callback", text.String())
		if err != nil {
			continue
		}
		reached++
		_, _, err = post(t, tr, u.String(), soon)
		if r := (*Refused)(nil); !errors.As(err, &r) {
			t.Fatalf("%q: %v, want Refused", text.String(), err)
		}
	}
	if reached < count/100 {
		t.Errorf("only %d of %d URLs reached the dialer", reached, count)
	}
}

// FuzzURL proves that no URL makes the guard panic, and that none gets a connection to a
// forbidden address: every name resolves to this machine. C16.26 to C16.31, C16.121.
func FuzzURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/", "http://127.0.0.1/", "https://[::1]:8080/", "https://0x7f.1/", "https://u:p@h/",
		"https://[fe80::1%25eth0]/",
		"https://localhost./", "https://8.8.8.8:1/", "https://[64:ff9b::7f00:1]/", "https://h:443:443/",
		"https://[::ffff:7f00:1]/",
	} {
		f.Add(text)
	}

	g := newGuard(f, Config{PlainHTTP: true}, always("127.0.0.1", "::1"))
	tr := transportOf(f, g)

	f.Fuzz(func(t *testing.T, text string) {
		u, err := g.CheckURL("callback", text)
		if err != nil {
			if !errors.Is(err, duly.ErrInvalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil {
			// No request goes to a public address. Go's own classes confirm the guard's.
			if !ip.IsGlobalUnicast() || ip.IsPrivate() {
				t.Errorf("%q is accepted", text)
			}
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, text, nil)
		if err != nil {
			t.Fatalf("%q is accepted, and net/http says %v", text, err)
		}
		resp, err := tr.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%q is answered", text)
		} else if r := (*Refused)(nil); !errors.As(err, &r) {
			t.Errorf("%q: %v, want Refused", text, err)
		}
	})
}
