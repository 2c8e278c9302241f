package main

import (
	"os"

	"golang.org/x/term"

	"github.com/dulymq/duly/cmd/duly/internal/top"
)

// screen is the terminal in which the process was started.
type screen struct{ in, out *os.File }

func newScreen() top.Terminal { return &screen{os.Stdin, os.Stdout} }

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) { return s.out.Write(b) }

// Size implements top.Terminal. It returns 80 by 24 if the terminal does not report its size.
func (s *screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Raw implements top.Terminal.
func (s *screen) Raw() (restore func(), err error) {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(s.in.Fd()), before) }, nil
}

// Keys implements top.Terminal. Its goroutine blocks in a read, which cannot be
// interrupted, until the process ends.
func (s *screen) Keys() <-chan string {
	keys := make(chan string)
	go func() {
		defer close(keys)
		for b := make([]byte, 64); ; {
			n, err := s.in.Read(b)

			// A read may return text together with the error that ends the input.
			if n > 0 {
				keys <- string(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}
