//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder syncs a folder, so that a rename in it survives a power cut.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// On file systems whose folders need no sync, Sync returns one of these two errors.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
