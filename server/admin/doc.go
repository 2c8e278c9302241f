// Package admin is what an operator asks of a server as a whole, on an address
// of its own that is on the loopback unless it is set otherwise: checking and
// copying the store, making, listing, limiting and revoking tokens, listing
// namespaces, showing metrics, profiling the process. Every route needs the
// right admin for all namespaces, which an account has too.
package admin
