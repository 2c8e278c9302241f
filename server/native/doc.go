// Package native serves the contract over HTTP. Each route of its table ([API.Routes])
// translates between a form of package wire and one call to an engine. It does not validate
// jobs, because the engine does: a job is refused with the same error wherever it is pushed.
//
// Long polls are in package poll.
package native
