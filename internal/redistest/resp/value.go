package resp

import (
	"fmt"
	"strconv"
)

// Simple is written as a simple string, such as the OK of a SET.
type Simple string

// Error is a server's error: its code, a space, and the text.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// Map has the keys and values of a map alternately, in the order of the wire.
type Map []any

// Set is a set, in the order of the wire.
type Set []any

// Push is a message that a server sends without a request.
type Push []any

// Append appends v in the format of a protocol version, 2 or 3. It panics for a type without a
// format.
func Append(dst []byte, v any, version int) []byte {
	switch v := v.(type) {
	case string:
		return bulk(dst, v)
	case Simple:
		return line(dst, '+', string(v))
	case Error:
		return line(dst, '-', string(v))
	case int:
		return line(dst, ':', strconv.Itoa(v))
	case int64:
		return line(dst, ':', strconv.FormatInt(v, 10))
	case []any:
		return list(dst, '*', v, len(v), version)
	case Map:
		if len(v)%2 != 0 {
			panic("resp: a map has a key without a value")
		}
		if version < 3 {
			return list(dst, '*', v, len(v), version)
		}
		return list(dst, '%', v, len(v)/2, version)
	}

	if version < 3 {
		return append2(dst, v)
	}
	return append3(dst, v)
}

// append2 appends a type that protocol 2 has no format for.
func append2(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "$-1\r\n"...)
	case float64:
		return bulk(dst, strconv.FormatFloat(v, 'g', -1, 64))
	case bool:
		if v {
			return append(dst, ":1\r\n"...)
		}
		return append(dst, ":0\r\n"...)
	case Set:
		return list(dst, '*', v, len(v), 2)
	case Push:
		return list(dst, '*', v, len(v), 2)
	}
	panic(fmt.Sprintf("resp: type %T has no wire format", v))
}

func append3(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "_\r\n"...)
	case float64:
		return line(dst, ',', strconv.FormatFloat(v, 'g', -1, 64))
	case bool:
		if v {
			return append(dst, "#t\r\n"...)
		}
		return append(dst, "#f\r\n"...)
	case Set:
		return list(dst, '~', v, len(v), 3)
	case Push:
		return list(dst, '>', v, len(v), 3)
	}
	panic(fmt.Sprintf("resp: type %T has no wire format", v))
}

// AppendCommand appends a request: an array of bulk strings. Arguments other than strings and
// bytes are formatted by fmt.
func AppendCommand(dst []byte, args ...any) []byte {
	dst = line(dst, '*', strconv.Itoa(len(args)))
	for _, a := range args {
		switch a := a.(type) {
		case string:
			dst = bulk(dst, a)
		case []byte:
			dst = bulk(dst, string(a))
		default:
			dst = bulk(dst, fmt.Sprint(a))
		}
	}
	return dst
}

func line(dst []byte, kind byte, text string) []byte {
	dst = append(dst, kind)
	dst = append(dst, text...)
	return append(dst, "\r\n"...)
}

func bulk(dst []byte, s string) []byte {
	dst = line(dst, '$', strconv.Itoa(len(s)))
	dst = append(dst, s...)
	return append(dst, "\r\n"...)
}

func list(dst []byte, kind byte, items []any, n, version int) []byte {
	dst = line(dst, kind, strconv.Itoa(n))
	for _, item := range items {
		dst = Append(dst, item, version)
	}
	return dst
}
