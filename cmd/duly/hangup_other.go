//go:build !unix

package main

import "os"

// hangups is for systems that have HUP.
var hangups func(to chan<- os.Signal) (stop func())
