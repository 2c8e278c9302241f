package httpengine

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	// dialTimeout is the longest time for the connection, and again for the TLS handshake.
	dialTimeout = 10 * time.Second
	// idleTimeout is how long an unused connection stays open: less than a server, or a proxy
	// in between, keeps its end open.
	idleTimeout = 45 * time.Second
	// maxIdle is the number of unused connections that stay open: one for every worker of a
	// large process.
	maxIdle = 1024
	// pingTime is the silence after which a connection is checked, and the time that the answer may
	// take.
	pingTime = 15 * time.Second
)

// newTransport returns a pool of connections: one per request in flight over HTTP/1.1, and a few
// for all requests over HTTP/2, which https uses.
func newTransport(secure *tls.Config) *http.Transport {
	dialer := &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingTime, Interval: pingTime, Count: 3},
	}

	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: dialTimeout,
		// Without this, net/http turns HTTP/2 off, because DialContext and the TLS config are set.
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		// A compressed answer can be a bomb. The user may compress bodies.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}
