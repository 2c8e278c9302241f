//go:build linux || darwin || freebsd

package storefile

import (
	"path/filepath"
	"syscall"
)

// diskSize returns the size of the file system that a file is on, in bytes.
func diskSize(path string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &s); err != nil {
		return 0, err
	}
	return int64(s.Blocks) * int64(s.Bsize), nil
}
