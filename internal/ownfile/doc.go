// Package ownfile checks that other users can neither read a file with secrets nor replace the
// files in a folder.
//
// Root is trusted, because it can read and change everything anyway. On Windows the checks always
// pass, because files have no owner and no mode of this kind.
package ownfile
