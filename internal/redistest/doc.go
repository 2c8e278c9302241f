// Package redistest runs private Redis servers for tests: single ones,
// clusters, sentinels, and a stub that plays given answers.
//
// # What a server is
//
// Each server is a process of its own, on a free port of 127.0.0.1 and on a
// unix socket, with a folder of its own. It saves no snapshots and does not
// fork into the background. Nothing of the machine's configuration is read.
// DULY_REDIS_SERVER names another program than redis-server, such as a newer
// one or valkey-server. A test on a machine without the program is skipped by
// name, and fails where CI=true.
//
// A server belongs to the test that started it and ends with it. One that is
// shared belongs to all tests of the test process: it is started by the first,
// each test gets a key prefix, and none may stop it.
//
// # How it ends
//
// Only processes that this package started are signalled, by pid. A test kills
// its servers when it ends. What a test process leaves behind when it ends
// itself, be it killed, is ended by its leash: a small shell that reads a
// pipe which only the test process holds, so that the pipe ends with it,
// whatever its end was. (Linux could signal a child at its parent's death, but
// means the thread by it, not the process, and leaves the folder.)
//
// No goroutine runs for a server, so goleak sees none.
//
// # How a test waits
//
// By conditions with a deadline (Await), never by sleeping. All that this
// package starts is ready when the call returns: a server answers, the nodes
// of a cluster and the sentinels agree.
//
// # How a test talks to it
//
// Do sends one command on a connection of its own, Dial gives a connection to
// keep; both go through the unix socket, so they work beside TLS, and speak
// package resp, not the engine's client library.
package redistest
