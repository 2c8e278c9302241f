// Package goroutines tells a test whether what it has begun has come to rest.
// It is for tests over real sockets; in a bubble of testing/synctest nobody
// needs it.
//
// The runtime tells the states of goroutines only in its dump of their stacks,
// of which each begins with a line like
//
//	goroutine 18 [chan receive, 2 minutes]:
//
// and ends with the goroutine that began it:
//
//	created by net/http.(*Server).Serve in goroutine 7
//
// The dump is asked for some hundred times a second, under the race detector
// too, so it is read without regular expressions and into one buffer.
package goroutines

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// ID is the number of a goroutine.
type ID uint64

// Own is the number of the goroutine that calls it.
func Own() ID {
	b := make([]byte, 64)
	id, _, _ := head(b[:runtime.Stack(b, false)])
	return id
}

// Busy reports whether a goroutine that descends from the root runs, or could.
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

// head reads the first line of a stack: its goroutine's number and state.
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

// creator reads who began the goroutine of a stack.
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

// eachStack calls f with the stack of each goroutine, one after the other.
func eachStack(f func(stack []byte)) {
	dump.Lock()
	defer dump.Unlock()
	n := runtime.Stack(dump.b, true)
	for ; n == len(dump.b); n = runtime.Stack(dump.b, true) {
		dump.b = make([]byte, 2*len(dump.b))
	}
	for stack := range bytes.SplitSeq(dump.b[:n], []byte("\n\n")) {
		f(stack)
	}
}
