// Package guard decides which destinations the server may call. Producers choose callback URLs, so
// without this package every producer could make the server call addresses that only the server can
// reach.
//
// # Two checks
//
// [Guard.CheckURL] checks a URL when a job is pushed or a target is set. It checks the form, the
// scheme, the port, and an address in the URL. It resolves no name, because the name may have
// another address when the job is due.
//
// A [Transport] checks every connection in its dialer: the address of the socket, after the name
// was resolved and before the first packet. So a name that changes its address between two lookups
// is refused too. Of a name with several addresses, the dialer uses the allowed ones.
//
// # Addresses
//
// The guard refuses the ranges of its table (table.go), which follows the IANA special-purpose
// registries. push.allow permits ranges of it, and push.deny overrides push.allow. An IPv6 address
// that embeds an IPv4 address (mapped, compatible, translated, NAT64, 6to4, ISATAP) counts as that
// IPv4 address. An address with a zone is always refused, and so are the server's own listeners:
// every address of this machine, with the port of a listener. A listener behind another machine's
// address (a load balancer) needs push.deny.
//
// # Requests
//
// A Transport follows no redirect, keeps no cookie, reads no proxy variable and decompresses
// nothing. It uses only HTTP/1.1: with one request per connection, the bytes that a receiver makes
// the server read are bounded. It never repeats a request. The caller of [Transport.Fresh] may.
//
// [ReadBody] bounds the body of an answer, the transport bounds its headers, and the context of the
// request bounds its time.
//
// # Proxy
//
// With push.proxy the proxy makes the connections, so the proxy decides about addresses. The guard
// still checks the URL, and an http URL needs push.plain_http or an address inside push.allow.
//
// # What happens on each failure
//
//   - Every address of a name is refused: [Refused], without a connection.
//   - Some addresses are refused and the others do not answer: an error of the
//     network, after which the job is retried.
//   - [Guard.Update] with other settings: idle connections are closed at once,
//     and connections in use after their request.
package guard
