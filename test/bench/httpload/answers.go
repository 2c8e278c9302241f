package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// answers reads HTTP/1.1 responses without an allocation per response. It understands only
// complete responses on a connection that stays open.
type answers struct {
	r    *bufio.Reader
	body []byte
}

// maxAnswer bounds the body of a response. Responses to pushes are far smaller.
const maxAnswer = 1 << 20

// next reads a response. The body is valid until the next call.
func (a *answers) next() (status int, body []byte, err error) {
	line, err := a.line()
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 || string(line[:9]) != "HTTP/1.1 " {
		return 0, nil, fmt.Errorf("%.60q is no HTTP/1.1 response", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("%.60q has no status", line)
	}
	length, chunked := -1, false
	// Only the headers that frame the body matter.
	for {
		if line, err = a.line(); err != nil {
			return 0, nil, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > maxAnswer {
				return 0, nil, fmt.Errorf("the Content-Length is %.20q, want a number up to %d", value, maxAnswer)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	}
	a.body = a.body[:0]
	switch {
	// A 204 has neither a body nor a length.
	case status == 204:
	case chunked:
		err = a.chunks()
	case length < 0:
		err = errors.New("the response has neither a length nor chunks")
	default:
		err = a.read(length)
	}
	return status, a.body, err
}

// line returns the next line without its line ending.
func (a *answers) line() ([]byte, error) {
	// No copy is needed, because every caller is done with a line before the next read.
	line, err := a.r.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, errors.New("the server closed the connection")
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// read appends n bytes to the body.
func (a *answers) read(n int) error {
	if len(a.body)+n > maxAnswer {
		return errors.New("the response is too long")
	}
	at := len(a.body)
	a.body = append(a.body, make([]byte, n)...)
	_, err := io.ReadFull(a.r, a.body[at:])
	return err
}

// chunks appends every chunk to the body.
func (a *answers) chunks() error {
	for {
		line, err := a.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return fmt.Errorf("the chunk size %.20q is not a hexadecimal number", line)
		}
		if n == 0 {
			_, err = a.line() // duly's servers send no trailers
			return err
		}
		if err := a.read(int(n)); err != nil {
			return err
		}
		if _, err := a.line(); err != nil {
			return err
		}
	}
}
