// Package certs is what a server shows and asks for when it speaks TLS: its
// certificate, and the authorities that must have signed those of its clients.
//
// A [Keeper] stands between the files and the handshakes. Each handshake takes
// what was read last, so a certificate that was renewed is shown as soon as
// [Keeper.Set] has it, and connections that stand keep theirs. A set is whole:
// [Files.Read] answers an error for a key that does not belong to its
// certificate, and then nothing has changed.
//
// TLS 1.2 is the least that is spoken. Where clients need a certificate, no
// session is resumed: each connection shows it anew, and is judged by the
// authorities of now.
package certs
