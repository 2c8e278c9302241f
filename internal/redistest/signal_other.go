//go:build !unix

package redistest

import (
	"errors"
	"os"
)

func terminate(p *os.Process) error { return p.Kill() }
func suspend(*os.Process) error     { return errors.ErrUnsupported }
func resume(*os.Process) error      { return errors.ErrUnsupported }
