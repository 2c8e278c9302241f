// Package hook holds the rules for URLs and headers of HTTP push that the root package and
// the server share: the form of a URL, and the header names that a job can't set.
//
// It checks the form only. The server's package guard, which knows the configuration,
// decides whether a URL may be called.
package hook
