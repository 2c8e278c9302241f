package storefile

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// diskSize returns the size of the volume that a file is on, in bytes.
func diskSize(path string) (int64, error) {
	folder, err := windows.UTF16PtrFromString(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	var total uint64
	err = windows.GetDiskFreeSpaceEx(folder, nil, &total, nil)
	return int64(total), err
}
