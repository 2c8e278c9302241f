package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
	"github.com/dulymq/duly/server/auth"
)

// Listen binds both addresses, sees to the first token, and leaves the files
// for the command line. After an error nothing is bound. It refuses a data
// folder that other users can write to: they could plant an operator's token.
func (s *Server) Listen(ctx context.Context) (err error) {
	if s.cfg.DataDir != "" {
		if err := ownfile.CheckFolder(s.cfg.DataDir); err != nil {
			return err
		}
	}

	defer func() {
		if err != nil {
			s.unbind()
		}
	}()
	if s.listeners, err = bind(ctx, s.cfg.Addr, s.cfg.AdminAddr); err != nil {
		return err
	}
	if err := s.credentials(ctx); err != nil {
		return err
	}
	if err := s.push.listens(s.live.Load().Push); err != nil {
		return err
	}
	if s.lmstfyOpen() {
		s.cfg.Logger.Warn("lmstfy's admin routes are open: every user of this machine, and whoever a proxy on it lets through, may make, limit and delete tokens " +
			"without one; lmstfy = \"token\" (--lmstfy token) closes them")
	}
	s.leaveURLs()
	return nil
}

// CanListen tells what [Server.Listen] would fail with because of the addresses,
// and leaves them free: for who has something to make before there is a server.
func CanListen(ctx context.Context, addr, adminAddr string) error {
	listeners, err := bind(ctx, addr, adminAddr)
	free(listeners)
	return err
}

// bind binds both addresses, or none.
func bind(ctx context.Context, addr, adminAddr string) (listeners [2]net.Listener, err error) {
	for i, addr := range []string{addr, adminAddr} {
		var lc net.ListenConfig
		if listeners[i], err = lc.Listen(ctx, "tcp", addr); err != nil {
			free(listeners)
			return [2]net.Listener{}, fmt.Errorf("server: %w; choose another address, or stop what listens there", err)
		}
	}
	return listeners, nil
}

func free(listeners [2]net.Listener) {
	for _, l := range listeners {
		if l != nil {
			l.Close()
		}
	}
}

// credentials sees to it that somebody may come in, and that where others can
// reach an address nobody else can.
func (s *Server) credentials(ctx context.Context) error {
	api, admin := !loopback(s.cfg.Addr), !loopback(s.cfg.AdminAddr)
	if !api && !admin {
		if s.cfg.DataDir == "" {
			return nil
		}
		note, err := s.guard.FirstToken(ctx, s.cfg.DataDir)
		if note != "" {
			s.cfg.Logger.Warn(note)
		}
		return err
	}
	const remedy = "start once on 127.0.0.1, make one with duly token create, then listen here"
	operator, err := s.guard.AnyOperator(ctx)
	switch {
	case err != nil || operator:
		return err
	case admin:
		return duly.Invalid("admin_addr", "%s can be reached by others, but there is neither a token with the right admin for all namespaces nor an account: %s, or give it accounts", s.cfg.AdminAddr, remedy)
	}
	known, err := s.guard.Any(ctx)
	if err == nil && !known {
		err = duly.Invalid("addr", "%s can be reached by others, but there is no token yet: %s", s.cfg.Addr, remedy)
	}
	return err
}

// leaveURLs leaves the addresses for the command line. A server does not need
// them, so it starts without them where the disk is full.
func (s *Server) leaveURLs() {
	if s.cfg.DataDir == "" {
		return
	}
	for name, url := range map[string]string{auth.URLFile: s.URL(), auth.AdminURLFile: s.AdminURL()} {
		path := filepath.Join(s.cfg.DataDir, name)
		err := durable.WriteFile(path, url+"\n")
		if err == nil {
			continue
		}
		if old, _ := os.ReadFile(path); string(old) == url+"\n" {
			continue
		}
		_ = os.Remove(path) // the address of an earlier server would mislead the other commands
		s.cfg.Logger.Warn("the server's address can't be left for the other commands; give them --url", "path", path, "url", url, "error", err)
	}
}

func (s *Server) unbind() {
	free(s.listeners)
	s.listeners = [2]net.Listener{}
}

// URL is where the API is served, once it listens.
func (s *Server) URL() string { return urlOf(s.listeners[0], s.cfg.TLS) }

// AdminURL is where the admin API is served, once it listens.
func (s *Server) AdminURL() string { return urlOf(s.listeners[1], s.cfg.AdminTLS) }

// urlOf is a URL that reaches the listener from this machine.
func urlOf(l net.Listener, secure *tls.Config) string {
	if l == nil {
		return ""
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// The bounds on connections. What a request's head may hold is bounded by
// net/http; its own slack of 4 KiB comes on top of it.
const (
	maxHeader     = 16<<10 - 4<<10
	headerTimeout = 8 * time.Second
	idleTimeout   = 2 * time.Minute
)

// accept is server.Serve, with TLS where the server has some.
func accept(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

func (s *Server) httpServer(h http.Handler, secure *tls.Config) *http.Server {
	return &http.Server{
		Handler: h, TLSConfig: secure.Clone(), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}
