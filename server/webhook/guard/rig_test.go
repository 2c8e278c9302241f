package guard

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// newGuard returns a guard that resolves names only with answer.
func newGuard(t testing.TB, cfg Config, answer func(name string) []netip.Addr) *Guard {
	t.Helper()
	g := &Guard{net: network{resolver: fakeDNS(answer), addresses: net.InterfaceAddrs},
		transports: map[*Transport]bool{}}
	if err := g.Update(cfg); err != nil {
		t.Fatal(err)
	}
	return g
}

func nowhere(string) []netip.Addr { return nil }

func always(addrs ...string) func(string) []netip.Addr {
	return func(string) []netip.Addr { return parseAll(addrs...) }
}

func parseAll(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

// fakeDNS returns a resolver that calls answer, with names without the last dot.
func fakeDNS(answer func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveDNS(server, answer)
		return client, nil
	}}
}

// serveDNS answers one connection, whose messages begin with their length.
func serveDNS(c net.Conn, answer func(name string) []netip.Addr) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := replyTo(query, answer)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func replyTo(query []byte, answer func(name string) []netip.Addr) []byte {
	var labels []string
	at := 12 // the header has 12 bytes
	for n := int(query[at]); n > 0; n = int(query[at]) {
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	question := query[12 : at+5]
	wanted := binary.BigEndian.Uint16(query[at+1:])

	var records []byte
	var count uint16
	for _, a := range answer(strings.Join(labels, ".")) {
		kind := uint16(28) // type AAAA
		if a.Is4() {
			kind = 1
		}
		if kind != wanted {
			continue
		}
		count++
		records = append(records, 0xc0, 12) // pointer to the name in the question
		records = binary.BigEndian.AppendUint16(records, kind)
		records = append(records, 0, 1, 0, 0, 0, 0) // class IN and TTL 0
		records = binary.BigEndian.AppendUint16(records, uint16(a.BitLen()/8))
		records = append(records, a.AsSlice()...)
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1}, byte(count>>8), byte(count), 0, 0, 0, 0)
	return append(append(reply, question...), records...)
}

// target is a listener that counts connections.
type target struct {
	net.Listener
	accepted atomic.Int32
}

func (l *target) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

func (l *target) port() uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// listen serves a handler on an address, and counts connections.
func listen(t testing.TB, address string, h http.Handler) *target {
	t.Helper()
	raw, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("can't listen on %s: %v", address, err)
	}
	l := &target{Listener: raw}
	s := &http.Server{Handler: h, MaxHeaderBytes: 1 << 20}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// post sends a request of one byte and returns its result.
func post(t testing.TB, tr *Transport, url string, within time.Duration) (body []byte, status int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader("x")))
	if err != nil {
		return nil, 0, &Refused{Reason: err.Error()} // the sender parses the URL in the same way
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, 0, err
	}
	return ReadBody(resp), resp.StatusCode, nil
}

func transportOf(t testing.TB, g *Guard) *Transport {
	tr := g.NewTransport(nil)
	t.Cleanup(tr.Close)
	return tr
}
