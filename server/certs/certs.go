package certs

import (
	"crypto/tls"
	"errors"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/pemfile"
)

// Files names what TLS is spoken with, each a file in PEM.
type Files struct {
	// Cert is the server's certificate, and behind it those in between it and
	// the authority. Key is its private key.
	Cert, Key string
	// ClientCA is the certificates of the authorities one of which must have
	// signed a client's. Empty: clients need none.
	ClientCA string
}

// Read reads the files. It answers [duly.ErrInvalid], with a field of the name
// cert, key or client_ca for each that can't be used.
func (f Files) Read() (*tls.Config, error) {
	var bad duly.BadFields
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	c.Certificates = pemfile.Pair(&bad, "cert", f.Cert, "key", f.Key)
	if f.ClientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.SessionTicketsDisabled = true // they would outlive a change of the authorities
		c.ClientCAs = pemfile.Pool(&bad, "client_ca", f.ClientCA)
	}
	return c, bad.Err()
}

// Keeper hands what was read last to every handshake. It is safe for
// concurrent use.
type Keeper struct{ now atomic.Pointer[tls.Config] }

// NewKeeper returns a keeper of what [Files.Read] has read.
func NewKeeper(c *tls.Config) *Keeper {
	k := &Keeper{}
	k.Set(c)
	return k
}

// Set takes over what was read anew.
func (k *Keeper) Set(c *tls.Config) { k.now.Store(c) }

// Config is for a listener.
func (k *Keeper) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := k.now.Load(); c != nil {
			return c, nil
		}
		return nil, errors.New("certs: nothing was set")
	}}
}
