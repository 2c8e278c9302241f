package httpengine

import (
	"crypto/tls"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/pemfile"
)

// TLS names the PEM files for https. The zero TLS trusts the system's authorities and has no client
// certificate.
type TLS struct {
	// CA is a file with certificates of authorities that are trusted instead of the system's. It
	// may also have the server's own certificate.
	CA string
	// Cert is the file with the client's certificate, for a server that requires one. Key is the
	// file with its private key.
	Cert, Key string
}

// Config reads the files. It returns nil for the zero TLS. It returns [duly.ErrInvalid] with the
// field ca, client_cert or client_key for each file that cannot be used.
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
