// Package guard decides which destinations the server may call. Producers choose
// callback URLs, so without it anybody with the right produce could make the
// server call addresses that only the server can reach.
//
// # Two checks
//
// [Guard.CheckURL] checks a URL when somebody pushes a job or sets a target. It
// reads the form, the scheme, the port, and an address in the URL. It resolves
// no name, because the name may have another address when the job is due.
//
// A [Transport] checks every connection in its dialer, on the address of the
// socket, after the name was resolved and before the first packet. A name that
// changes its address between two lookups therefore gains nothing. A name with
// several addresses is called on those that are allowed.
//
// # Addresses
//
// The guard refuses the ranges of its table (table.go), which follows the IANA
// special-purpose registries. push.allow permits ranges of it, and push.deny
// overrides push.allow. An IPv6 address that embeds an IPv4 address (mapped,
// compatible, translated, NAT64, 6to4, ISATAP) is that IPv4 address here. An
// address with a zone is always refused, and so are the server's own listeners:
// every address of this machine, with the port of a listener. A listener that is
// reached through another machine's address (a load balancer) needs push.deny.
//
// # Requests
//
// A Transport follows no redirect, keeps no cookie, reads no proxy variable and
// undoes no compression. It speaks HTTP/1.1 alone: one request per connection
// keeps the bytes that a receiver can make the server read countable. It never
// repeats a request on its own. The caller of [Transport.Fresh] may.
//
// [ReadBody] bounds the body of an answer. The transport bounds its headers. The
// context of the request bounds its time.
//
// # Proxy
//
// With push.proxy the proxy makes the connections, so the proxy decides about
// addresses. The guard still checks the URL, and an http URL needs
// push.plain_http or an address inside push.allow.
//
// # What happens on each failure
//
//   - Every address of a name is refused: [Refused]. No connection was made.
//   - Some addresses are refused and the others do not answer: an error of the
//     network. It is no reason to give up on the job.
//   - [Guard.Update] with other settings: kept connections are closed at once,
//     and those in use after their request.
package guard
