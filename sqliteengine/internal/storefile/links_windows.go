package storefile

import "io/fs"

// Links returns the number of names of a file. On Windows, os.FileInfo does not have this number.
func Links(fs.FileInfo) uint64 { return 1 }
