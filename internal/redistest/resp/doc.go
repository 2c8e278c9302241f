// Package resp implements the wire format of Redis, protocol versions 2 and 3, only for tests: a
// client, a server with scripted answers, and a proxy that must find the end of a request.
//
// It shares no code with the engine's client library, so tests find mistakes of either.
//
// A value in Go, and its form on the wire:
//
//	string       $ bulk string; + and = are read as a string too
//	Simple       + simple string
//	Error        - error; ! is read as one too
//	int64, int   : integer
//	float64      , double   (protocol 2: bulk string)
//	bool         # boolean  (protocol 2: 1 or 0)
//	nil          _ null     (protocol 2: $-1)
//	[]any        * array
//	Map          % map      (protocol 2: array of keys and values in turn)
//	Set          ~ set      (protocol 2: array)
//	Push         > push     (protocol 2: array)
//
// A big number is read as the string of its digits. An attribute is read and dropped.
package resp
