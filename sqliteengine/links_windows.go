package sqliteengine

import "io/fs"

// links returns the number of names of a file. os.FileInfo does not have it on Windows.
func links(fs.FileInfo) uint64 { return 1 }
