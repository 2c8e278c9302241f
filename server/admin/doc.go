// Package admin serves the API for operators: checking and copying the store, creating, listing,
// limiting and revoking tokens, listing and moving namespaces, showing metrics, profiling the
// process. It has a separate address, which is on the loopback by default. Every route requires the
// right admin for all namespaces. An account has this right as well.
package admin
