package faultproxy

import (
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// exchange is what a link knows of the requests that are on their way.
type exchange struct {
	mu           sync.Mutex // the proxy's lock is taken under it, never the other way round
	three        bool       // the client has asked for protocol 3
	unordered    bool       // replies don't answer requests one by one any more
	expected     []expected // one for each reply that will come, and what stands between
	requestsLost bool       // a request was lost, so no later one arrives
	repliesLost  bool       // a reply was lost, so no later one arrives
}

// expected is what is to be done with the next reply.
type expected struct {
	action action
	given  []byte    // the reply, which the server does not send
	fault  *Injected // takes effect here
}

type action int

const (
	deliver action = iota // pass the reply
	skip                  // drop it: the request was doubled
	lose                  // drop it, and all that follow
	missing               // no reply comes, and none after it
	give                  // no reply comes: here is one
)

// fault is what a request meets; nothing, where replies have no order.
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

// request sends a request on, or not, and notes what comes of it.
func (l *link) request(args []string, raw []byte, fault *Injected) {
	x := &l.redis
	x.mu.Lock()
	defer x.mu.Unlock()
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

// reply does with a reply what its request left behind.
func (l *link) reply(raw []byte, push bool) {
	x := &l.redis
	x.mu.Lock()
	defer x.mu.Unlock()
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

// settle does what waits for no reply of the server's.
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

// silence lets nothing more through to the client.
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

// learn notes what a request changes about the replies that follow.
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

// answered reports whether a request has one reply, in its turn. In protocol 3
// subscribing is answered by pushes.
func (x *exchange) answered(args []string) bool {
	return !x.unordered && !subscribing(strings.ToUpper(args[0]))
}

// subscribing reports whether the command is one of SUBSCRIBE, PUNSUBSCRIBE and
// their like.
func subscribing(name string) bool { return strings.HasSuffix(name, "SUBSCRIBE") }
