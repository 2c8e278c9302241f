//go:build !linux

package chaos

import "errors"

var errNoNamespaces = errors.New("mount namespaces need Linux")

func runFullDisk([]string) error { return errNoNamespaces }

func runSmallDisk([]string) error { return errNoNamespaces }

func runRefill([]string) error { return errNoNamespaces }

func runRefillStore([]string) error { return errNoNamespaces }
