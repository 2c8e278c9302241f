package certs

import (
	"crypto/tls"
	"errors"
	"sync/atomic"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/pemfile"
)

// Files are the PEM files of a TLS server.
type Files struct {
	// Cert is the file with the server's certificate, followed by the intermediate certificates.
	// Key is the file with its private key.
	Cert, Key string
	// ClientCA is a file with certificates of authorities. One of them must have signed a client's
	// certificate. If it is empty, clients need no certificate.
	ClientCA string
}

// Read reads the files. It returns [duly.ErrInvalid] with a field cert, key or
// client_ca for each file that is not usable.
func (f Files) Read() (*tls.Config, error) {
	var bad contract.BadFields
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	c.Certificates = pemfile.Pair(&bad, "cert", f.Cert, "key", f.Key)
	if f.ClientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.SessionTicketsDisabled = true // a session ticket would stay valid after a change of the authorities
		c.ClientCAs = pemfile.Pool(&bad, "client_ca", f.ClientCA)
	}
	return c, bad.Err()
}

// Source gives the latest configuration to every handshake. It is safe for
// concurrent use.
type Source struct{ now atomic.Pointer[tls.Config] }

// NewSource returns a Source with a configuration of [Files.Read].
func NewSource(c *tls.Config) *Source {
	s := &Source{}
	s.Set(c)
	return s
}

// Set replaces the configuration.
func (s *Source) Set(c *tls.Config) { s.now.Store(c) }

// Config returns the configuration for a listener.
func (s *Source) Config() *tls.Config {
	current := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := s.now.Load(); c != nil {
			return c, nil
		}
		return nil, errors.New("certs: no TLS configuration is set; call Set first")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: current}
}
