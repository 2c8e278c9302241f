package faultproxy

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
)

// Match reports whether a request is meant, by its name and arguments.
type Match func(args []string) bool

// Any matches every request.
func Any([]string) bool { return true }

// Named matches a command, in whatever case: GET, or "CLUSTER SLOTS".
func Named(command string) Match {
	words := strings.Fields(command)
	return func(args []string) bool {
		return len(args) >= len(words) && slices.EqualFunc(args[:len(words)], words, strings.EqualFold)
	}
}

// Script matches the calls of a script by its SHA-1 in hexadecimal, also those
// that send it whole.
func Script(sha string) Match {
	return func(args []string) bool {
		if len(args) < 2 {
			return false
		}
		switch strings.ToUpper(args[0]) {
		case "EVALSHA", "EVALSHA_RO":
			return strings.EqualFold(args[1], sha)
		case "EVAL", "EVAL_RO":
			sum := sha1.Sum([]byte(args[1]))
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}

// Function matches the calls of a function by its name.
func Function(name string) Match {
	return func(args []string) bool {
		return len(args) > 1 && args[1] == name && (strings.EqualFold(args[0], "FCALL") || strings.EqualFold(args[0], "FCALL_RO"))
	}
}

// Containing matches requests with that text in their name or in any argument.
func Containing(text string) Match {
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, text) })
	}
}

// And matches what both match.
func (m Match) And(other Match) Match {
	return func(args []string) bool { return m(args) && other(args) }
}

// Or matches what one of them matches.
func (m Match) Or(other Match) Match {
	return func(args []string) bool { return m(args) || other(args) }
}

// Action is what happens to a request.
type Action int

// What can happen.
const (
	// Pass: nothing; for Before, and to count.
	Pass Action = iota
	// LoseReply: the server gets it, and its reply is lost.
	LoseReply
	// Drop: the server does not get it.
	Drop
	// Twice: the server gets it twice, and the client the first reply.
	Twice
	// TwiceLast: the server gets it twice, and the client the second reply.
	TwiceLast
	// Answer: the client gets Reply, and the server nothing.
	Answer
)

// Fault says which requests are meant and what happens to them.
type Fault struct {
	Match Match // nil: Any
	Do    Action
	Reply any // of Answer, as package resp writes it
	Skip  int // that many matching requests pass first
	Times int // as many are then meant; 0 is one, -1 all

	// Part is how much of a reply of that many bytes the client gets before the
	// rest is lost, with LoseReply; nil: nothing.
	Part func(size int) int
	// Silent keeps the connection open after LoseReply and Drop; the client
	// hears nothing more on it.
	Silent bool
	// Before, unless nil, is called before the request goes on, which waits for
	// it to return, as do later requests of the connection. It must end before
	// the test does.
	Before func(args []string)
}

// Injected is a fault that waits for its requests.
type Injected struct {
	Fault
	proxy *Proxy
	done  chan struct{}

	mu    sync.Mutex
	count int
}

// Inject lets a fault happen to the next requests that match it, on whatever
// connection, beginning with those that the proxy has not yet read. A request
// that several faults mean meets the first of them.
func (p *Proxy) Inject(f Fault) *Injected {
	p.t.Helper()
	if !p.redis {
		p.t.Fatal("faultproxy: a proxy made with New knows no requests; use Redis")
	}
	if f.Match == nil {
		f.Match = Any
	}
	if f.Times == 0 {
		f.Times = 1
	}
	i := &Injected{Fault: f, proxy: p, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, i)
	return i
}

// next takes the fault that a request meets.
func (p *Proxy) next(args []string) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, f := range p.faults {
		if !f.Match(args) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			p.faults = slices.Delete(p.faults, n, n+1)
		}
		return f
	}
	return nil
}

// Remove takes the fault back. What it has begun goes on.
func (i *Injected) Remove() {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	i.proxy.faults = slices.DeleteFunc(i.proxy.faults, func(f *Injected) bool { return f == i })
}

// Done is closed when the fault has happened for the first time: with
// LoseReply the server has answered by then, with Twice and TwiceLast twice.
func (i *Injected) Done() <-chan struct{} { return i.done }

// Count is how often it has happened.
func (i *Injected) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count
}

func (i *Injected) happened() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count++; i.count == 1 {
		close(i.done)
	}
}
