//go:build !linux && !darwin && !freebsd && !windows

package sqliteengine

import "errors"

func diskSize(string) (int64, error) { return 0, errors.ErrUnsupported }
