//go:build !unix

package main

import "os"

// hangups is nil because this system has no HUP.
var hangups func(to chan<- os.Signal) (stop func())
