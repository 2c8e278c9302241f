package resp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// These limits detect a stream that is not RESP. Without them, a cut or shifted length would be
// accepted.
const (
	maxBulk  = 512 << 20 // the limit of Redis
	maxItems = 1 << 20
	maxLine  = 256 << 10 // MONITOR prints a whole library in one line
	maxDepth = 64
)

// Reader reads values, both requests and replies.
type Reader struct {
	in  *bufio.Reader
	raw []byte
}

// NewReader returns a reader of in. It may read more bytes from in than the returned values have.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReader(in)} }

// Raw returns the bytes of the last value, valid until the next Read.
func (r *Reader) Raw() []byte { return r.raw }

// Read reads one value. It returns io.EOF if the stream ended between two values, and
// io.ErrUnexpectedEOF if it ended within a value. An error of the server is a value of the type
// Error.
func (r *Reader) Read() (any, error) {
	r.raw = r.raw[:0]
	v, err := r.value(0)
	if err == io.EOF && len(r.raw) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// ReadCommand reads one request.
func (r *Reader) ReadCommand() ([]string, error) {
	v, err := r.Read()
	if err != nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok || len(items) == 0 {
		return nil, fmt.Errorf("resp: the request %.40q is not an array", r.raw)
	}
	args := make([]string, len(items))
	for i, item := range items {
		if args[i], ok = item.(string); !ok {
			return nil, fmt.Errorf("resp: the request %.40q has an item of type %T", r.raw, item)
		}
	}
	return args, nil
}

func (r *Reader) value(depth int) (any, error) {
	text, err := r.line()
	if err != nil {
		return nil, err
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+', '(':
		return text, nil
	case '-':
		return Error(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case ',':
		return strconv.ParseFloat(text, 64)
	case '#':
		return text == "t", nil
	case '_':
		return nil, nil
	case '$', '=', '!':
		return r.bulk(kind, text)
	case '*', '~', '>', '%', '|':
		return r.list(kind, text, depth)
	}

	return nil, fmt.Errorf("resp: invalid type byte %q", kind)
}

// line reads a line without its end. It is never empty.
func (r *Reader) line() (string, error) {
	at := len(r.raw)
	for {
		part, err := r.in.ReadSlice('\n')
		r.raw = append(r.raw, part...)
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull || len(r.raw)-at > maxLine {
			return "", err
		}
	}
	text := r.raw[at:]
	if len(text) < 3 || text[len(text)-2] != '\r' {
		return "", fmt.Errorf("resp: invalid line %.40q", text)
	}
	return string(text[:len(text)-2]), nil
}

func length(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("resp: invalid length %q", text)
	}
	return n, nil
}

func (r *Reader) bulk(kind byte, text string) (any, error) {
	n, err := length(text, maxBulk)
	if err != nil || n < 0 {
		return nil, err
	}
	at := len(r.raw)
	if err := r.take(n + 2); err != nil {
		return nil, err
	}
	if end := string(r.raw[at+n:]); end != "\r\n" {
		return nil, fmt.Errorf("resp: a string of %d bytes ends with %q instead of CRLF", n, end)
	}

	body := string(r.raw[at : at+n])
	switch kind {
	case '!':
		return Error(body), nil
	// skips the first four bytes, which are the format, such as "txt:"
	case '=':
		_, body, _ = strings.Cut(body, ":")
	}

	return body, nil
}

// take reads n bytes. It allocates memory only as bytes arrive.
func (r *Reader) take(n int) error {
	for n > 0 {
		at, part := len(r.raw), min(n, 64<<10)
		r.raw = append(r.raw, make([]byte, part)...)
		if _, err := io.ReadFull(r.in, r.raw[at:]); err != nil {
			return cut(err)
		}
		n -= part
	}
	return nil
}

func (r *Reader) list(kind byte, text string, depth int) (any, error) {
	n, err := length(text, maxItems)
	if err != nil || n < 0 {
		return nil, err
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("resp: values are nested more than %d deep", maxDepth)
	}

	if kind == '%' || kind == '|' {
		n *= 2
	}
	items := make([]any, 0, min(n, 1000))
	for range n {
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, cut(err)
		}
		items = append(items, item)
	}

	switch kind {
	case '~':
		return Set(items), nil
	case '>':
		return Push(items), nil
	case '%':
		return Map(items), nil
	// An attribute comes before its value.
	case '|':
		return r.value(depth + 1)
	}

	return items, nil
}

// cut replaces io.EOF within a value by io.ErrUnexpectedEOF.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
