//go:build !linux && !darwin && !freebsd && !windows

package storefile

import "errors"

func diskSize(string) (int64, error) { return 0, errors.ErrUnsupported }
