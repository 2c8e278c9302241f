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
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err // the two are file systems whose folders need no sync
	}
	return nil
}
