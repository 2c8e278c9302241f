package httpengine

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	// dialTime bounds connecting, and the handshake of TLS behind it.
	dialTime = 10 * time.Second
	// idleTime is for how long an unused connection is kept: less than a
	// server, or a proxy in between, keeps its end.
	idleTime = 45 * time.Second
	// idleConns is how many unused connections are kept: one for every worker
	// of a large process.
	idleConns = 1024
	// aliveTime is when a silent connection is asked whether it still stands,
	// and for how long the answer may take.
	aliveTime = 15 * time.Second
)

// newTransport makes a pool of connections: over HTTP/1.1 one per request in
// flight, over HTTP/2, which https brings, few for all.
func newTransport(secure *tls.Config) *http.Transport {
	dialer := &net.Dialer{
		Timeout:         dialTime,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveTime, Interval: aliveTime, Count: 3},
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: dialTime,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: aliveTime, PingTimeout: aliveTime},
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleTime,
		// What is compressed can be a bomb, and bodies are the user's to press.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}
