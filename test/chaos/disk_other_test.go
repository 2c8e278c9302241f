//go:build !linux

package chaos

import "errors"

var errNoNamespaces = errors.New("there are no mount namespaces on this system")

func runFullDisk([]string) error { return errNoNamespaces }

func runSmallDisk([]string) error { return errNoNamespaces }

func runRefill([]string) error { return errNoNamespaces }

func runRefillStore([]string) error { return errNoNamespaces }
