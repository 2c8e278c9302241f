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
// Tests read the dump hundreds of times a second, also under the race detector. Tests that ask at
// the same time therefore share a dump, and the parser uses no regular expressions.
package goroutines

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
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

// Busy reports whether a descendant of the root goroutine runs, is runnable, or waits for a mutex or
// the garbage collector.
func Busy(root ID) bool {
	d := next()
	for _, id := range d.busy {
		if d.descends(id, root) {
			return true
		}
	}
	return false
}

// dump is what a stack dump says about the goroutines.
type dump struct {
	once    sync.Once
	busy    []ID      // running, runnable, or waiting for a mutex or the garbage collector
	parents map[ID]ID // the goroutine that created each goroutine
}

func (d *dump) descends(id, root ID) bool {
	for id = d.parents[id]; id != 0; id = d.parents[id] {
		if id == root {
			return true
		}
	}
	return false
}

// A dump stops every goroutine for milliseconds. Tests that ask while a dump is taken therefore
// share the one that follows it.
var (
	taking  sync.Mutex // held while a dump is taken
	waiting sync.Mutex
	planned = new(dump) // the dump that has not begun
	text    = make([]byte, 1<<20)
)

// next returns a dump that began after the call of next.
func next() *dump {
	waiting.Lock()
	d := planned
	waiting.Unlock()

	d.once.Do(func() {
		taking.Lock()
		defer taking.Unlock()

		waiting.Lock()
		planned = new(dump)
		waiting.Unlock()
		d.take()
	})
	return d
}

// take reads the stacks of all goroutines.
func (d *dump) take() {
	n := runtime.Stack(text, true)
	// A full buffer means that the dump was cut off.
	for ; n == len(text); n = runtime.Stack(text, true) {
		text = make([]byte, 2*len(text))
	}

	d.parents = map[ID]ID{}
	for stack := range bytes.SplitSeq(text[:n], []byte("\n\n")) {
		id, state, ok := head(stack)
		if !ok {
			continue
		}
		if parent, ok := creator(stack); ok {
			d.parents[id] = parent
		}
		if working(string(state)) {
			d.busy = append(d.busy, id)
		}
	}
}

// working reports whether a goroutine in this state runs, or goes on without an event of its test.
// The holder of a mutex may be a goroutine of another test: SQLite allocates memory under a lock
// of the process.
func working(state string) bool {
	switch state {
	case "running", "runnable", "syscall", "waiting", "copystack", "preempted",
		"sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock":
		return true
	}
	return strings.HasPrefix(state, "GC ") // it helps the garbage collector
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
