//go:build unix

package storefile

import (
	"os"
	"syscall"
)

// GiveTo changes the owner of an open file to the owner of path. Root may restore a store
// for the user of a server, who could not open a file of root.
func GiveTo(owner string, f *os.File) error {
	info, err := os.Stat(owner)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(s.Uid), int(s.Gid))
}
