// Package native is the HTTP API of the contract: one table of routes
// ([API.Routes]), each a thin translation between the wire form of package wire and
// one call of an engine. It judges nothing about jobs: that is the engine's,
// so that a job is refused for the same reason with the same words wherever it
// is pushed.
//
// What a long poll does stands in package poll.
package native
