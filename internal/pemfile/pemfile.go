// Package pemfile reads the certificate and key files of a TLS configuration.
package pemfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"

	"github.com/dulymq/duly/contract"
)

// Pool reads the certificates of authorities. Errors are added to bad, under the name of the field
// that has the path.
func Pool(bad *contract.BadFields, field, path string) *x509.CertPool {
	pool := x509.NewCertPool()
	if text := read(bad, field, path); text != nil && !pool.AppendCertsFromPEM(text) {
		bad.Add(field, "has no certificate in it: %s", path)
	}
	return pool
}

// Pair reads a certificate and its key, from the paths in two fields.
func Pair(bad *contract.BadFields, certField, cert, keyField, key string) []tls.Certificate {
	certText, keyText := read(bad, certField, cert), read(bad, keyField, key)
	if certText == nil || keyText == nil {
		return nil
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		bad.Add(certField, "and its key can't be used: %v", err)
	}
	return []tls.Certificate{pair}
}

func read(bad *contract.BadFields, field, path string) []byte {
	text, err := os.ReadFile(path)
	if err == nil {
		return text
	}
	var e *fs.PathError
	if errors.As(err, &e) {
		// The message has the path already.
		err = e.Err
	}
	bad.Add(field, "names a file that can't be read: %s: %v", path, err)
	return nil
}
