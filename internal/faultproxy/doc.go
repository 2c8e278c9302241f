// Package faultproxy is a proxy between a client and one server that injects faults: those of a
// network, and those that happen too rarely to wait for.
//
// # Any protocol
//
// New forwards bytes. The whole proxy can be slow (Delay), silent in one direction or both (Cut,
// Heal), unreachable (Stop, Resume), or break all its connections (Reset). Cut acts like a network
// partition on TCP: neither side gets an error, connections are still accepted, and the bytes sent
// meanwhile arrive after Heal.
//
// # Redis
//
// Redis also finds the start and end of each request and reply. Inject selects requests by their
// arguments, and says what happens to the next of these requests:
//
//	LoseReply    the server executes it, the client never gets the reply
//	Drop         the server never gets it
//	Twice        the server gets it twice, the client one answer: the first
//	TwiceLast    … or the second
//	Answer       the client gets a given answer, the server nothing
//
// Replies before the lost one reach the client, and none after it: with a reply missing from the
// stream, every later request would get the wrong one. So the connection is closed, or with Silent
// it stays open and sends nothing more.
//
// # One connection
//
//	        requests                      toServer
//	client ──────────▶ pump ─▶ [faults] ─▶ line ──────────▶ server
//	                             │ expected
//	        toClient             ▼         replies
//	client ◀────────── line ◀─ [match] ◀─ pump ◀────────── server
//
// A line is a queue with a delay. It stops while it is cut. For each request the proxy records what
// to do with its reply. Pushes of protocol 3 are not replies, and are forwarded. A connection that
// subscribes in protocol 2, monitors, or turns replies off has no reply per request: from then on
// its replies are forwarded unchanged.
//
// The proxy and all its goroutines end with the test.
package faultproxy
