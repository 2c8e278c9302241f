// Package ownfile checks that nobody else can read a file with secrets, or
// change what is in a folder.
//
// Root is trusted, because it can read and change everything anyway. On Windows
// the checks pass: files there have no owner and mode of this kind.
package ownfile
