//go:build !linux

package chaos

import "errors"

func runFullDisk([]string) error { return errors.New("there are no mount namespaces on this system") }
