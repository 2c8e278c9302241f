// Package hook has the rules about the destinations and headers of HTTP push that
// the root package and the server share: the form of a URL, and the names of headers
// that a request can't take from a job.
//
// It decides about the form alone. Whether a URL may be called is decided by package
// guard of the server, which knows the server's configuration.
package hook
