// Package certs reads the certificate files of a TLS server: the server's own certificate, and the
// certificate authorities of its clients.
//
// A [Source] gives the configuration of the latest [Source.Set] to each handshake. A renewed
// certificate is therefore used from the next handshake on, and open connections keep theirs.
// [Files.Read] returns an error if a key does not belong to its certificate. The caller then keeps
// the previous configuration.
//
// The minimum version is TLS 1.2. Where clients need a certificate, the server resumes no session:
// each connection presents the certificate again, and the server verifies it with the current
// authorities.
package certs
