// Package conformance combines engines, servers and clients for tests: it runs the suite of
// package enginetest through a running server. Its own tests use engines in this process. The
// engine on Redis has its tests in package redisengine, because it has to report when its calls
// have ended.
//
// There are two ways. In a bubble of testing/synctest, with a network in memory, the test
// controls all timing. Over the loopback the bytes go through the kernel, as in production. There
// the test itself has to find out when all goroutines are idle, see the type rest.
package conformance
