// Package bench measures what `duly bench` can't: a server in its own process. Its tests take
// minutes and run with DULY_LONG=1, as `make bench` does. The command httpload generates load for
// the HTTP API.
package bench
