// Package sq is a thin layer over SQLite's own C interface, as translated to
// Go by modernc.org/sqlite/lib: connections, prepared statements, nothing
// else.
//
// The driver of database/sql costs an interface value and an allocation per
// argument and per column, which is a third of what a small statement costs
// as a whole. Here a statement is prepared once, its arguments are copied into
// one buffer outside of Go's heap, and a column is read where it stands.
//
// A [Conn] belongs to one goroutine at a time, and so do its statements. None
// of them locks.
package sq
