// Package faultproxy stands between a client and one server, and breaks what
// goes through it: what a network does, and what can't be waited for to happen
// by itself.
//
// # Any protocol
//
// New passes bytes on. The whole proxy can be slow (Delay), silent in one
// direction or both (Cut, Heal), gone (Stop, Resume), or break all its
// connections (Reset). To cut is what a partition does to TCP: nobody is told,
// connections are still accepted, and what was sent arrives when it is healed.
//
// # Redis
//
// Redis also knows where a request and its reply begin and end. Inject names
// requests by their arguments, and what shall happen to the next of them:
//
//	LoseReply    the server executes it, the client never hears the answer
//	Drop         the server never gets it
//	Twice        the server gets it twice, the client one answer: the first
//	TwiceLast    … or the second
//	Answer       the client gets a given answer, the server nothing
//
// Replies before that one reach the client, and none after it: a reply that
// is missing in the stream would give every later request the wrong one. So
// the connection is closed, or with Silent says nothing more.
//
// # One connection
//
//	        requests                      toServer
//	client ──────────▶ pump ─▶ [faults] ─▶ line ──────────▶ server
//	                             │ expected
//	        toClient             ▼         replies
//	client ◀────────── line ◀─ [match] ◀─ pump ◀────────── server
//
// A line is a queue with a delay, which stands still while it is cut. Each
// request leaves behind what is to be done with its reply. Pushes of protocol 3
// answer no request and pass. A connection that subscribes in protocol 2,
// monitors, or turns replies off, has no such order: from there on its replies
// pass as they come.
//
// All ends with the test, and no goroutine is left.
package faultproxy
