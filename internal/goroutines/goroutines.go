// Package goroutines reports whether the goroutines that a test started are idle. Tests over
// real sockets use it; a testing/synctest bubble does not need it.
//
// The runtime reports the states of goroutines only in a stack dump. Each stack in it begins
// with a line like
//
//	goroutine 18 [chan receive, 2 minutes]:
//
// and ends with the goroutine that created it:
//
//	created by net/http.(*Server).Serve in goroutine 7
//
// Tests read the dump hundreds of times a second, also under the race detector. The parser
// therefore uses no regular expressions and reuses one buffer.
package goroutines

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// ID is a goroutine's number.
type ID uint64

// Own returns the number of the calling goroutine.
func Own() ID {
	b := make([]byte, 64)
	id, _, _ := head(b[:runtime.Stack(b, false)])
	return id
}

// Busy reports whether a descendant of the root goroutine is running or runnable.
func Busy(root ID) bool {
	var busy []ID
	parents := map[ID]ID{}
	eachStack(func(stack []byte) {
		id, state, ok := head(stack)
		if !ok {
			return
		}
		if parent, ok := creator(stack); ok {
			parents[id] = parent
		}
		switch string(state) {
		case "running", "runnable", "syscall", "waiting", "copystack", "preempted":
			busy = append(busy, id)
		}
	})

	for _, id := range busy {
		if descends(id, root, parents) {
			return true
		}
	}
	return false
}

func descends(id, root ID, parents map[ID]ID) bool {
	for id = parents[id]; id != 0; id = parents[id] {
		if id == root {
			return true
		}
	}
	return false
}

// head parses the first line of a stack and returns the goroutine's number and state.
func head(stack []byte) (ID, []byte, bool) {
	rest, ok := bytes.CutPrefix(stack, []byte("goroutine "))
	if !ok {
		return 0, nil, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	number, _, _ := bytes.Cut(line, []byte(" "))
	_, state, ok := bytes.Cut(line, []byte("["))
	if i := bytes.IndexAny(state, ",]"); i >= 0 {
		state = state[:i]
	}
	id, err := strconv.ParseUint(string(number), 10, 64)
	return ID(id), state, ok && err == nil
}

// creator parses the last line of a stack, and returns the goroutine that created the stack's
// goroutine.
func creator(stack []byte) (ID, bool) {
	i := bytes.LastIndex(stack, []byte("\ncreated by "))
	if i < 0 {
		return 0, false
	}
	line, _, _ := bytes.Cut(stack[i+1:], []byte("\n"))
	_, number, ok := bytes.Cut(line, []byte(" in goroutine "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	return ID(id), ok && err == nil
}

var dump = struct {
	sync.Mutex
	b []byte
}{b: make([]byte, 1<<20)}

// eachStack calls f with the stack of each goroutine in turn.
func eachStack(f func(stack []byte)) {
	dump.Lock()
	defer dump.Unlock()
	n := runtime.Stack(dump.b, true)
	// A full buffer means that the dump was cut off.
	for ; n == len(dump.b); n = runtime.Stack(dump.b, true) {
		dump.b = make([]byte, 2*len(dump.b))
	}
	for stack := range bytes.SplitSeq(dump.b[:n], []byte("\n\n")) {
		f(stack)
	}
}
