package faultproxy

import (
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// exchange records the requests in flight of a link.
type exchange struct {
	mu           sync.Mutex // mu may be held when the proxy's lock is taken, but not the other way round
	three        bool       // whether the client has chosen protocol 3
	unordered    bool       // whether there is no longer one reply per request
	expected     []expected // in the order of the replies; has also the replies that the server won't send
	requestsLost bool       // whether a request was lost, so no later request arrives
	repliesLost  bool       // whether a reply was lost, so no later reply arrives
}

// expected says what to do with the reply to one request.
type expected struct {
	action action
	given  []byte    // the reply to give if the server sends none
	fault  *Injected // the fault that takes effect with this reply
}

type action int

const (
	deliver action = iota // forward the reply to the client
	skip                  // drop the reply, because the request was sent twice
	lose                  // drop the reply and all later replies
	missing               // the server sends no reply; drop all later replies
	give                  // the server sends no reply; send the given one
)

// fault returns the fault for a request, or nil. It returns nil while the connection has no reply
// per request.
func (l *link) fault(args []string) *Injected {
	x := &l.redis
	x.mu.Lock()
	defer x.mu.Unlock()
	x.learn(args)
	if x.requestsLost || !x.answered(args) {
		return nil
	}
	return l.proxy.next(args)
}

// request forwards a request, unless the request's fault drops it. It records what to do with the
// reply.
func (l *link) request(args []string, raw []byte, fault *Injected) {
	x := &l.redis
	x.mu.Lock()
	defer x.mu.Unlock()
	// A lost request breaks the connection, so the server gets no later request either.
	if x.requestsLost {
		return
	}

	do := Pass
	if fault != nil {
		do = fault.Do
	}
	switch do {
	case Pass:
		if !x.answered(args) {
			break
		}
		x.expect(expected{fault: fault})
	case LoseReply:
		x.expect(expected{action: lose, fault: fault})
	case Drop:
		x.expect(expected{action: missing, fault: fault})
		x.requestsLost, raw = true, nil
	case Twice:
		// Both copies are sent together, so no other request comes between them.
		x.expect(expected{}, expected{action: skip, fault: fault})
		raw = slices.Concat(raw, raw)
	case TwiceLast:
		x.expect(expected{action: skip}, expected{fault: fault})
		raw = slices.Concat(raw, raw)
	case Answer:
		x.expect(expected{action: give, given: resp.Append(nil, fault.Reply, x.version()), fault: fault})
		raw = nil
	}

	if raw != nil {
		l.toServer.send(raw)
	}
	l.settle()
}

// reply handles a reply as its request's record says.
func (l *link) reply(raw []byte, push bool) {
	x := &l.redis
	x.mu.Lock()
	defer x.mu.Unlock()
	// A push is not the reply to a request, so there is no record for it.
	if push || x.unordered || len(x.expected) == 0 {
		l.answer(raw)
		return
	}

	e := x.expected[0]
	x.expected = x.expected[1:]
	switch e.action {
	case deliver:
		l.answer(raw)
	case lose:
		if part := e.fault.Part; part != nil {
			l.answer(raw[:part(len(raw))])
		}
		l.silence(e.fault)
	}
	e.fault.happened()
	l.settle()
}

// settle handles the next records for which the server sends no reply.
func (l *link) settle() {
	x := &l.redis
	for len(x.expected) > 0 {
		e := x.expected[0]
		switch e.action {
		case give:
			l.answer(e.given)
		case missing:
			l.silence(e.fault)
		default:
			return
		}
		x.expected = x.expected[1:]
		e.fault.happened()
	}
}

func (l *link) answer(raw []byte) {
	if !l.redis.repliesLost {
		l.toClient.send(raw)
	}
}

// silence drops everything that the client would get from now on.
func (l *link) silence(fault *Injected) {
	if l.redis.repliesLost {
		return
	}
	l.redis.repliesLost = true
	if !fault.Silent {
		l.finish()
	}
}

func (x *exchange) expect(e ...expected) { x.expected = append(x.expected, e...) }

func (x *exchange) version() int {
	if x.three {
		return 3
	}
	return 2
}

// learn records how a request changes the form of later replies.
func (x *exchange) learn(args []string) {
	name := strings.ToUpper(args[0])
	switch {
	case name == "HELLO" && len(args) > 1:
		x.three = args[1] == "3"
	case name == "MONITOR", subscribing(name) && !x.three:
		x.unordered = true
	case name == "CLIENT" && len(args) > 1 && strings.EqualFold(args[1], "REPLY"):
		x.unordered = true
	}
}

// answered reports whether a request gets exactly one reply, in order. In protocol 3 a
// subscription gets pushes instead.
func (x *exchange) answered(args []string) bool {
	return !x.unordered && !subscribing(strings.ToUpper(args[0]))
}

// subscribing reports whether the command is SUBSCRIBE, PUNSUBSCRIBE or another one of that kind.
func subscribing(name string) bool { return strings.HasSuffix(name, "SUBSCRIBE") }
