package cli

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/server/certs"
)

// The files with the certificates of `duly serve` in its data folder. A command that
// finds the server by that folder trusts exactly these certificates, for any name and
// authority, because the owner of the folder is the owner of the server.
const (
	certFile      = "certificate.pem"
	adminCertFile = "admin-certificate.pem"
)

// tlsFlags adds the flags for https.
func (a *app) tlsFlags(f *pflag.FlagSet) {
	f.StringVar(&a.tls.CA, "ca", "",
		"`file` with the authorities of an https server's certificate (DULY_CA; default: the system's)")
	f.StringVar(&a.tls.Cert, "client-cert", "",
		"`file` with the certificate to send to an https server (DULY_CLIENT_CERT)")
	f.StringVar(&a.tls.Key, "client-key", "", "`file` with the key of that certificate (DULY_CLIENT_KEY)")
}

// tlsConfig returns the TLS configuration of a client. certFile is the certificate of this
// machine's server, or "" if there is none.
func (a *app) tlsConfig(certFile string) (*tls.Config, error) {
	files := httpengine.TLS{
		CA:   a.setting(a.tls.CA, "DULY_CA"),
		Cert: a.setting(a.tls.Cert, "DULY_CLIENT_CERT"),
		Key:  a.setting(a.tls.Key, "DULY_CLIENT_KEY"),
	}
	c, err := files.Config()
	// A given authority overrides the certificate in the folder.
	if err != nil || files.CA != "" || certFile == "" {
		return c, err
	}

	text, err := os.ReadFile(certFile)
	// Storing the file may have failed. The system's authorities may still know the certificate.
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return c, err
	}
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	trustOnly(c, block.Bytes)
	return c, nil
}

// trustOnly makes a client trust only one certificate.
func trustOnly(c *tls.Config, certificate []byte) {
	// VerifyConnection verifies the certificate, also when a session is resumed.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		// Only the first certificate belongs to the server. The others are its authorities.
		if len(s.PeerCertificates) > 0 && string(s.PeerCertificates[0].Raw) == string(certificate) {
			return nil
		}
		return &tls.CertificateVerificationError{
			UnverifiedCertificates: s.PeerCertificates, Err: errOtherCertificate,
		}
	}
}

var errOtherCertificate = errors.New("it differs from the certificate in the server's data folder")

// withTLSHint adds a hint to the errors of a TLS handshake.
func withTLSHint(err error) error {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	hint := ""
	switch {
	case errors.As(err, &certificate):
		hint = "if it is the right server, pass the authority of its certificate: --ca FILE"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		hint = "the server does not use TLS; write http:// instead of https://"
	case wantsClientCertificate(err):
		hint = "the server requires a certificate; pass yours and its key: --client-cert FILE --client-key FILE"
	default:
		return err
	}
	return withHintFor(duly.CodeUnavailable, err, "%s", hint)
}

// wantsClientCertificate reports whether the server ended the handshake because the
// client sent no certificate.
func wantsClientCertificate(err error) bool {
	const certificateRequired = tls.AlertError(116) // RFC 8446
	var remote *net.OpError
	// Package tls has a private type for alerts. Its text equals that of AlertError.
	return errors.As(err, &remote) && remote.Op == "remote error" && remote.Err.Error() == certificateRequired.Error()
}

// certReloader holds the certificates of an address. The zero certReloader is for plain
// HTTP.
type certReloader struct{ *certs.Source }

func newCertReloader(t config.TLS) certReloader {
	if t.Config == nil {
		return certReloader{}
	}
	return certReloader{certs.NewSource(t.Config)}
}

// config returns the TLS configuration, nil for plain HTTP.
func (r certReloader) config() *tls.Config {
	if r.Source == nil {
		return nil
	}
	return r.Config()
}

// storeCertificates writes the certificates to the data folder for the other commands. If they are
// nil, for plain HTTP, it removes the file of an earlier start.
func storeCertificates(data string, api, admin *tls.Config) error {
	for name, c := range map[string]*tls.Config{certFile: api, adminCertFile: admin} {
		path := filepath.Join(data, name)
		if c == nil {
			// A file of an earlier start would make clients trust a certificate that is no longer used.
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificates[0].Certificate[0]})
		if err := durable.WriteFile(path, string(block)); err != nil {
			return err
		}
	}
	return nil
}
