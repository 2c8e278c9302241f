// Package conformance puts engines, servers and clients together for tests: the
// suite of package enginetest through a running server. Its own tests are those
// of the engines in this process; the engine on Redis, which has to tell when
// its calls have come to rest, has its own in package redisengine.
//
// There are two ways. In a bubble of testing/synctest, with a network in memory,
// every moment is decided by the test. Over the loopback the bytes go through
// the kernel, which is what a client meets in life; there the test itself has
// to find out when everything has come to rest, see the type rest.
package conformance
