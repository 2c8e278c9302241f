// Package redistest runs private Redis servers for tests: single servers, clusters, sentinels,
// and a stub with scripted answers.
//
// # Servers
//
// Each server is a separate process, on a free port of 127.0.0.1 and on a unix socket, with a
// folder of its own. It saves no snapshots and does not fork into the background. It reads no
// configuration of the machine. DULY_REDIS_SERVER names another program than redis-server, such
// as a newer one or valkey-server. On a machine without the program a test is skipped, and fails
// if CI=true.
//
// A server belongs to the test that started it and ends with it. A shared server belongs to all
// tests of the process. The first test starts it, each test gets a key prefix, and none may stop
// it.
//
// # Cleanup
//
// This package signals only processes that it started, by pid. A test kills its servers when it
// ends. If the test process ends first, even by kill -9, its leash ends its servers. The leash is
// a small shell that reads a pipe which only the test process holds, so the pipe always ends with
// the process. (Linux can signal a child at its parent's death, but refers to the parent's
// thread, and leaves the folder.)
//
// No goroutine runs for a server, so a leak check sees none.
//
// # Waiting
//
// Tests wait for conditions with a deadline (Await) and never sleep. When a call returns,
// everything that it started is ready: a server answers, and the nodes of a cluster and the
// sentinels agree.
//
// # Commands
//
// Do sends one command on a new connection. Dial returns a connection for many. Both use the unix
// socket, so they work with TLS servers too, and package resp, not the engine's client library.
package redistest
