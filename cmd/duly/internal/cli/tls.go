package cli

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/server/certs"
)

// The files that `duly serve` leaves in its data folder when it speaks TLS: its
// certificates. A command that finds the server by that folder trusts exactly
// these, whoever has signed them and for whichever name; the folder's owner is
// the server's.
const (
	certFile      = "certificate.pem"
	adminCertFile = "admin-certificate.pem"
)

// tlsFlags are for https, of every command.
func (a *app) tlsFlags(f *pflag.FlagSet) {
	f.StringVar(&a.tls.CA, "ca", "", "`file` with the authorities that may have signed an https server's certificate (DULY_CA; default: the system's)")
	f.StringVar(&a.tls.Cert, "client-cert", "", "`file` with the certificate to show to an https server (DULY_CLIENT_CERT)")
	f.StringVar(&a.tls.Key, "client-key", "", "`file` with the key of that certificate (DULY_CLIENT_KEY)")
}

// trust is how https is spoken with a server that left its certificate in a
// file; "" for none.
func (a *app) trust(left string) (*tls.Config, error) {
	files := httpengine.TLS{
		CA: a.setting(a.tls.CA, "DULY_CA"), Cert: a.setting(a.tls.Cert, "DULY_CLIENT_CERT"), Key: a.setting(a.tls.Key, "DULY_CLIENT_KEY"),
	}
	c, err := files.Config()
	if err != nil || files.CA != "" || left == "" {
		return c, err
	}
	text, err := os.ReadFile(left)
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
	only(c, block.Bytes)
	return c, nil
}

// only lets a client trust this certificate and no other one.
func only(c *tls.Config, certificate []byte) {
	c.InsecureSkipVerify = true // VerifyConnection does it, also where a session is resumed
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) > 0 && string(s.PeerCertificates[0].Raw) == string(certificate) {
			return nil
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: errOther}
	}
}

var errOther = errors.New("it is not the one that the server has left in its data folder")

// advisedTLS says what to do where a server's certificate is not trusted, where
// it wants one itself, and where it speaks no TLS.
func advisedTLS(err error) error {
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case err == nil:
	case errors.As(err, &certificate):
		return adviseOn(duly.CodeUnavailable, err, "if it is the right server, give who has signed its certificate: --ca FILE")
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		return adviseOn(duly.CodeUnavailable, err, "what answers there speaks no TLS; write http:// in place of https://")
	case strings.Contains(err.Error(), "tls: certificate required"): // an alert has no type of its own
		return adviseOn(duly.CodeUnavailable, err, "the server asks who you are; give your certificate and its key: --client-cert FILE --client-key FILE")
	}
	return err
}

// keeper is what an address is served with; nil for plain HTTP.
type keeper struct{ *certs.Source }

func newKeeper(t config.TLS) keeper {
	if t.Config == nil {
		return keeper{}
	}
	return keeper{certs.NewSource(t.Config)}
}

func (k keeper) config() *tls.Config {
	if k.Source == nil {
		return nil
	}
	return k.Config()
}

// leaveCertificates puts the certificates where the other commands find them,
// and takes away those of another time. Plain HTTP is nil.
func leaveCertificates(data string, api, admin *tls.Config) error {
	for name, c := range map[string]*tls.Config{certFile: api, adminCertFile: admin} {
		path := filepath.Join(data, name)
		if c == nil {
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
