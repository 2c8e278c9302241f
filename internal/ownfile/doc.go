// Package ownfile checks that other users can neither read a file with secrets
// nor replace the files in a folder.
//
// Root is trusted, because it can read and change everything anyway. On Windows
// the checks pass: files there have no owner and mode of this kind.
package ownfile
