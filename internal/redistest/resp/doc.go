// Package resp is the wire form of Redis, protocol versions 2 and 3, for test
// support alone: a client, a server that plays given answers, and a proxy that
// has to know where a request ends.
//
// It shares nothing with the client library that the engine uses, so a fault
// in one is seen by the other.
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
// A big number is read as the string of its digits; an attribute is read and
// dropped.
package resp
