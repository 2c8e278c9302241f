//go:build !linux

package sqliteengine

import "os"

// allocate gives a part of a file its blocks on the disk.
func allocate(f *os.File, from, n int64) error { return writeNoise(f, from, n) }
