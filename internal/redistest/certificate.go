package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate has the files of a server's certificate and of its certificate authority.
type certificate struct {
	caFile, certFile, keyFile string
	roots                     *x509.CertPool
}

// makeCertificate creates an authority that signs one certificate and is then dropped.
func makeCertificate(folder string) (*certificate, error) {
	ca, caKey, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "redistest authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return nil, err
	}

	leaf, key, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		// The certificate is also for clients, because a server is a client of its primary and of
		// the other nodes.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, ca, caKey)
	if err != nil {
		return nil, err
	}

	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &certificate{
		caFile: filepath.Join(folder, "ca.pem"), certFile: filepath.Join(folder, "cert.pem"),
		keyFile: filepath.Join(folder, "key.pem"),
		roots:   x509.NewCertPool(),
	}
	c.roots.AddCert(ca)

	return c, errors.Join(
		writePEM(c.caFile, "CERTIFICATE", ca.Raw),
		writePEM(c.certFile, "CERTIFICATE", leaf.Raw),
		writePEM(c.keyFile, "PRIVATE KEY", der))
}

// sign creates a key and its certificate. A nil parent makes it self-signed.
func sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey,
	error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())

	// An hour back covers clocks that differ a little.
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// client returns a client's configuration that trusts the certificate.
func (c *certificate) client() *tls.Config { return &tls.Config{RootCAs: c.roots} }
