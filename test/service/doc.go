// Package service tests servers in their own processes: with thousands of callers, with hostile
// callers, and during restarts. DULY_LONG=1 runs the tests with their full counts.
package service
