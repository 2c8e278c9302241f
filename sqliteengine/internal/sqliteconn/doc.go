// Package sqliteconn wraps SQLite's C interface, translated to Go by
// modernc.org/sqlite/lib. It has connections and prepared statements only.
//
// The database/sql driver allocates an interface value for each argument and column,
// a third of the cost of a small statement. This package prepares each statement once,
// copies the arguments into one buffer outside the Go heap, and reads columns in
// place.
//
// A [Conn] and its statements may be used by one goroutine at a time. They have no
// locks.
package sqliteconn
