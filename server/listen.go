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

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
	"github.com/dulymq/duly/server/auth"
)

// Listen binds both addresses, creates the first token, and writes the files for the command line.
// After an error neither address is bound. It refuses a data folder that other users can write to,
// because they could plant a token for an operator there.
func (s *Server) Listen(ctx context.Context) (err error) {
	if dir := s.cfg.Listen.DataDir; dir != "" {
		if err := ownfile.CheckFolder(dir); err != nil {
			return err
		}
	}

	defer func() {
		if err != nil {
			s.unbind()
		}
	}()
	if s.listeners, err = bind(ctx, s.cfg.Listen.Addr, s.cfg.Listen.AdminAddr); err != nil {
		return err
	}
	if err := s.checkCredentials(ctx); err != nil {
		return err
	}
	// No job may call this server, and its ports are known only now.
	if err := s.push.guardListeners(s.settings.Load().Push); err != nil {
		return err
	}

	if s.lmstfyOpen() {
		s.cfg.Logger.Warn("lmstfy's admin routes are open: every user of this machine, and every caller that a proxy " +
			"on it admits, may create, limit and delete tokens without a token; " +
			"lmstfy = \"token\" (--lmstfy token) closes them")
	}
	s.writeURLs()
	return nil
}

// CanListen returns the error that [Server.Listen] would return because of the addresses. It does
// not keep the addresses. Call it before expensive work that would be wasted if Listen failed.
func CanListen(ctx context.Context, addr, adminAddr string) error {
	listeners, err := bind(ctx, addr, adminAddr)
	free(listeners)
	return err
}

// bind binds both addresses, or neither.
func bind(ctx context.Context, addr, adminAddr string) (listeners [2]net.Listener, err error) {
	for i, addr := range []string{addr, adminAddr} {
		var lc net.ListenConfig
		if listeners[i], err = lc.Listen(ctx, "tcp", addr); err != nil {
			free(listeners)
			return [2]net.Listener{}, fmt.Errorf(
				"server: %w; choose another address, or stop the process that listens there", err)
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

// checkCredentials makes sure that a caller can authenticate: it creates the first token on the
// loopback. It refuses an address that other machines can reach while no caller can authenticate.
func (s *Server) checkCredentials(ctx context.Context) error {
	listen := s.cfg.Listen
	api, admin := !loopback(listen.Addr), !loopback(listen.AdminAddr)
	if !api && !admin {
		if listen.DataDir == "" {
			return nil
		}
		note, err := s.guard.FirstToken(ctx, listen.DataDir)
		if note != "" {
			s.cfg.Logger.Warn(note)
		}
		return err
	}

	const remedy = "start once on 127.0.0.1, make one with duly token create, then listen here"
	// An operator can use both addresses, so no other credential is needed.
	operator, err := s.guard.AnyOperator(ctx)
	switch {
	case err != nil || operator:
		return err
	case admin:
		return contract.Invalid("admin_addr", "%s can be reached by others, but there is neither a token with the right "+
			"admin for all namespaces nor an account: %s, or give it accounts", listen.AdminAddr, remedy)
	}

	// Other machines reach only the API, so any token is enough.
	known, err := s.guard.Any(ctx)
	if err == nil && !known {
		err = contract.Invalid("addr", "%s can be reached by others, but there is no token yet: %s", listen.Addr, remedy)
	}
	return err
}

// writeURLs writes the addresses for the command line. The server does not need them, so it
// starts without them if the disk is full.
func (s *Server) writeURLs() {
	if s.cfg.Listen.DataDir == "" {
		return
	}
	for name, url := range map[string]string{auth.URLFile: s.URL(), auth.AdminURLFile: s.AdminURL()} {
		path := filepath.Join(s.cfg.Listen.DataDir, name)
		err := durable.WriteFile(path, url+"\n")
		if err == nil {
			continue
		}
		// A full disk does no harm if the addresses have not changed.
		if old, _ := os.ReadFile(path); string(old) == url+"\n" {
			continue
		}

		// The file of an earlier server would have a wrong address.
		_ = os.Remove(path)
		s.cfg.Logger.Warn("the server's address can't be written for the other commands; give them --url",
			"path", path, "url", url, "error", err)
	}
}

func (s *Server) unbind() {
	free(s.listeners)
	s.listeners = [2]net.Listener{}
}

// URL returns the URL of the API, "" before [Server.Listen].
func (s *Server) URL() string { return urlOf(s.listeners[0], s.cfg.Listen.TLS) }

// AdminURL returns the URL of the admin API, "" before [Server.Listen].
func (s *Server) AdminURL() string { return urlOf(s.listeners[1], s.cfg.Listen.AdminTLS) }

// urlOf returns a URL that reaches the listener from this machine.
func urlOf(l net.Listener, secure *tls.Config) string {
	if l == nil {
		return ""
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	// An unspecified address cannot be dialled, and the loopback reaches the same listener.
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// The bounds on connections. net/http reads 4 KiB more of a head than its bound.
const (
	maxHeader     = 16<<10 - 4<<10
	headerTimeout = 8 * time.Second
	idleTimeout   = 2 * time.Minute
)

// accept serves a listener, with TLS if the server has a configuration for it.
func accept(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

func (s *Server) httpServer(h http.Handler, secure *tls.Config) *http.Server {
	return &http.Server{
		Handler: h, TLSConfig: secure.Clone(), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}
