// Package bench measures what `duly bench` cannot: a server as a process of
// its own. Its tests take minutes and run with DULY_LONG=1, as `make bench`
// does; httpload, below it, is the load for the HTTP API.
package bench
