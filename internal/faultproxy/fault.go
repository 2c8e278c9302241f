package faultproxy

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
)

// Match reports whether a fault is for a request with these arguments. The first argument is the
// command's name.
type Match func(args []string) bool

// Any matches every request.
func Any([]string) bool { return true }

// Named matches a command in any letter case: GET, or "CLUSTER SLOTS".
func Named(command string) Match {
	words := strings.Fields(command)
	return func(args []string) bool {
		return len(args) >= len(words) && slices.EqualFunc(args[:len(words)], words, strings.EqualFold)
	}
}

// Script matches calls to a script by its SHA-1 in hexadecimal, and calls that send the script's
// text.
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

// Function matches calls to a function by its name.
func Function(name string) Match {
	return func(args []string) bool {
		return len(args) > 1 && args[1] == name && (strings.EqualFold(args[0], "FCALL") ||
			strings.EqualFold(args[0], "FCALL_RO"))
	}
}

// Containing matches requests that have the text in their command name or in any argument.
func Containing(text string) Match {
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, text) })
	}
}

// And matches requests that both of the matches match.
func (m Match) And(other Match) Match {
	return func(args []string) bool { return m(args) && other(args) }
}

// Or matches requests that at least one of the matches matches.
func (m Match) Or(other Match) Match {
	return func(args []string) bool { return m(args) || other(args) }
}

// Action is the effect on a request.
type Action int

// The effects of a fault.
const (
	// Pass forwards the request unchanged. It is useful with Before, and to count requests.
	Pass Action = iota
	// LoseReply forwards the request and drops the reply.
	LoseReply
	// Drop does not forward the request.
	Drop
	// Twice sends the request to the server twice, and forwards the first reply.
	Twice
	// TwiceLast sends the request to the server twice, and forwards the second reply.
	TwiceLast
	// Answer sends Reply to the client, and nothing to the server.
	Answer
)

// Fault selects requests and says what happens to them.
type Fault struct {
	Match Match // nil means Any
	Do    Action
	Reply any // the reply for Answer; package resp encodes it
	Skip  int // number of matching requests that pass before the fault takes effect
	Times int // number of requests that the fault then affects; 0 means one, -1 all

	// Part returns how many bytes of a reply of the given size the client gets before LoseReply
	// drops the rest. If it is nil, the client gets no byte.
	Part func(size int) int
	// Silent keeps the connection open after LoseReply and Drop. The client gets nothing more on
	// it.
	Silent bool
	// Before, if set, is called before the request is forwarded. That request and later ones of
	// the connection wait until it returns. It must return before the test ends.
	Before func(args []string)
}

// Injected is a fault that was injected. It waits for matching requests.
type Injected struct {
	Fault
	proxy *Proxy
	done  chan struct{}

	mu    sync.Mutex
	count int
}

// Inject applies a fault to the next matching requests on any connection, starting with those
// that the proxy has not yet read. If several faults match a request, it gets the first of them.
func (p *Proxy) Inject(f Fault) *Injected {
	p.t.Helper()
	if !p.redis {
		p.t.Fatal("faultproxy: a proxy from New can't parse requests; use a proxy from Redis")
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

// next takes the fault for a request.
func (p *Proxy) next(args []string) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, f := range p.faults {
		if !f.Match(args) {
			continue
		}
		// A skipped request may still match a later fault.
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		// Times of -1 never becomes 0, so that fault stays.
		if f.Times--; f.Times == 0 {
			p.faults = slices.Delete(p.faults, n, n+1)
		}
		return f
	}
	return nil
}

// Remove removes the fault. Effects that have begun continue.
func (i *Injected) Remove() {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	i.proxy.faults = slices.DeleteFunc(i.proxy.faults, func(f *Injected) bool { return f == i })
}

// Done returns a channel that is closed when the fault has happened for the first time. At that
// time the server has replied once with LoseReply, and twice with Twice and TwiceLast.
func (i *Injected) Done() <-chan struct{} { return i.done }

// Count returns how often the fault has happened.
func (i *Injected) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count
}

func (i *Injected) happened() {
	// A request without a fault has a record too.
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count++; i.count == 1 {
		close(i.done)
	}
}
