// Package storefile has the files next to a database: its lock and its ballast. It also hides
// the differences between operating systems in handling files.
package storefile
