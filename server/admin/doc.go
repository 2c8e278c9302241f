// Package admin serves the API for operators: checking and copying the store, creating,
// listing, limiting and revoking tokens, listing and moving namespaces, showing metrics,
// profiling the process. It has an address of its own, which is on the loopback by
// default. Every route requires the right admin for all namespaces. An account has it
// too.
package admin
