package storefile

import "io/fs"

// Links returns the number of names of a file. os.FileInfo does not have it on Windows.
func Links(fs.FileInfo) uint64 { return 1 }
