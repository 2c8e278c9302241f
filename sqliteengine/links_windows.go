package sqliteengine

import "io/fs"

// links is how many names a file goes by, as far as Windows tells with what it
// tells of a file.
func links(fs.FileInfo) uint64 { return 1 }
