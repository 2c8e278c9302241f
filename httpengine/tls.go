package httpengine

import (
	"crypto/tls"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/pemfile"
)

// TLS names what https is spoken with, each a file in PEM. The zero TLS is what
// the system trusts, and no certificate of one's own.
type TLS struct {
	// CA is the certificates of the authorities that may have signed the
	// server's, in place of the system's; or the server's own.
	CA string
	// Cert is the client's certificate, for a server that wants one, and Key its
	// private key.
	Cert, Key string
}

// Config reads the files; it is nil for the zero TLS. It answers
// [duly.ErrInvalid], with a field of the name ca, client_cert or client_key for
// each that can't be used.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	var bad contract.BadFields
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		c.RootCAs = pemfile.Pool(&bad, "ca", t.CA)
	}
	switch {
	case t.Cert == "" && t.Key != "":
		bad.Add("client_cert", "is not given, and there is a client_key")
	case t.Cert != "" && t.Key == "":
		bad.Add("client_key", "is not given, and there is a client_cert")
	case t.Cert != "":
		c.Certificates = pemfile.Pair(&bad, "client_cert", t.Cert, "client_key", t.Key)
	}
	return c, bad.Err()
}
