package redisgauge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// mode is the kind of the servers at the addresses.
type mode int

const (
	single mode = iota
	sentinels
	cluster
)

// modes are the schemes of the Redis engine's URLs.
var modes = map[string]mode{
	"redis": single, "rediss": single, "redis+unix": single, "redis+sentinel": sentinels, "rediss+sentinel": sentinels,
	"redis+cluster": cluster, "rediss+cluster": cluster,
}

// place is the part of a Redis URL that says how to connect. The engine has already checked the
// URL, so it is not checked again.
type place struct {
	mode             mode
	unix             bool
	addrs            []string
	user, password   string
	db               int
	master           string
	sentinelUser     string
	sentinelPassword string
	tls              *tls.Config
}

// parse parses a URL. Its errors repeat no part of the URL, which may contain a password.
func parse(raw string) (place, error) {
	bad := errors.New("redisgauge: the URL can't be read")
	scheme, rest, _ := strings.Cut(raw, "://")
	text, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return place{}, bad
	}

	authority, path, _ := strings.Cut(text, "/")
	p := place{mode: modes[scheme], unix: scheme == "redis+unix"}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		if p.user, err = url.PathUnescape(user); err != nil {
			return place{}, bad
		}
		if p.password, err = url.PathUnescape(password); err != nil {
			return place{}, bad
		}
		authority = authority[at+1:]
	}

	db := options.Get("db")
	switch {
	case p.unix:
		socket, err := url.PathUnescape(path)
		if err != nil {
			return place{}, bad
		}
		p.addrs = []string{"/" + socket}
	case p.mode == sentinels:
		path, db, _ = strings.Cut(path, "/")
		if p.master, err = url.PathUnescape(path); err != nil {
			return place{}, bad
		}
	case path != "":
		db = path
	}

	if db != "" {
		if p.db, err = strconv.Atoi(db); err != nil {
			return place{}, bad
		}
	}

	p.hosts(authority, options["addr"])
	if master := options.Get("master"); master != "" {
		p.master = master
	}
	p.sentinelUser, p.sentinelPassword = options.Get("sentinel_user"), options.Get("sentinel_password")
	if strings.HasPrefix(scheme, "rediss") {
		p.tls, err = tlsOf(options)
	}

	return p, err
}

// hosts sets the servers' addresses, with the default ports.
func (p *place) hosts(authority string, more []string) {
	if p.unix {
		return
	}
	port := ":6379"
	if p.mode == sentinels {
		port = ":26379"
	}
	for _, addr := range append(strings.Split(authority, ","), more...) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr += port
		}
		p.addrs = append(p.addrs, addr)
	}
}

func tlsOf(options url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: options.Get("tls_server_name")}
	c.InsecureSkipVerify, _ = strconv.ParseBool(options.Get("tls_skip_verify"))
	if file := options.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("redisgauge: tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(pem)
	}
	if file := options.Get("tls_cert"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, options.Get("tls_key"))
		if err != nil {
			return nil, fmt.Errorf("redisgauge: tls_cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dial connects to one server.
func (p place) dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if p.unix {
		network = "unix"
	}
	if config == nil {
		return d.DialContext(ctx, network, addr)
	}
	// tls.Dialer takes the server name from addr.
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, addr)
}
