package link

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/hashslot"
)

// durableCalls makes calls that wait until their writes are durable.
type durableCalls struct {
	*core
	durableConns durableConns
}

// RunDurable runs a script and waits until its writes are durable as Options.Durability says.
// Without that option it is Run. If the script has run and its durability was not confirmed in
// time, durable is [duly.ErrNotDurable]. err is the error that Run returns. A second run, even
// one that stores nothing, also confirms the writes of the first.
//
// # How
//
// WAIT and WAITAOF confirm the writes of the connection that sends them. The script, a write and
// the WAIT are therefore sent in one pipeline on a dedicated connection. The answer counts only
// if all three were answered there. The write sets an empty key that expires at once. Without it,
// a script that changed nothing would wait for an older write of the connection. After a redirect
// all three are sent again.
func (l *durableCalls) RunDurable(ctx context.Context, c Call) (msg rueidis.RedisMessage, durable, err error) {
	if !l.o.Durability.Asked() {
		msg, err = l.Run(ctx, c)
		return msg, nil, err
	}

	b := &durableCall{link: l, call: l.sent(c), backoff: l.Backoff(ctx)}
	for again := true; again; {
		// A first try that left no answer may have run, which the error must say.
		if e := l.enter(ctx); e != nil {
			switch {
			case e != ctx.Err():
				err = e
			case err == nil:
				err = unanswered(ctx)
			default:
				err = left(ctx, err)
			}
			return msg, nil, err
		}
		done := make(chan durableReply, 1)
		// The try may outlive its caller: the reply frees the connection.
		go func() {
			defer l.calls.Done()
			done <- b.try()
		}()
		var r durableReply
		select {
		case r = <-done:
		case <-ctx.Done():
			return rueidis.RedisMessage{}, nil, unanswered(ctx)
		}
		msg, durable, err = r.msg, r.durable, l.explain(ctx, r.err, c.Keys)
		if again = r.again && (r.now || b.backoff.Wait()); r.again && !again {
			err = left(ctx, err)
		}
	}

	return msg, durable, err
}

// durableCall is one call that waits for its durability.
type durableCall struct {
	link    *durableCalls
	call    Call
	backoff *Backoff
	hops    int  // number of redirects since the last pause
	asking  bool // whether the slot is moving to the node at place, which needs ASKING
	place   string
	byText  bool // whether the server does not know the script, so that its text must be sent
}

// durableReply is the outcome of one try.
type durableReply struct {
	msg          rueidis.RedisMessage
	durable, err error
	// The call did not run and must be sent again: at once if now is set, else after a pause.
	again, now bool
}

// durableWait is how long a call may take in addition to the wait for durability.
const durableWait = 10 * time.Second

// try sends the pipeline once.
func (b *durableCall) try() durableReply {
	l := b.link
	if b.place == "" {
		b.place = l.durableConns.owner(l.core, b.call.Keys[0])
	}

	lane, err := l.durableConns.take(l.core, b.place)
	if err != nil {
		return b.failed(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), l.o.Durability.Timeout+durableWait)
	defer cancel()
	began := clock.Monotonic()
	replies := lane.client.DoMulti(ctx, b.commands(lane.client.B())...)
	if l.o.Observe != nil {
		l.o.Observe(b.call.Script.Name, clock.Monotonic()-began)
	}
	if l.form(b.call.Script) == byFunction && b.byText {
		l.noteLoad(replies[0])
	}

	// ASKING and FUNCTION LOAD have separate replies before these.
	replies = replies[len(replies)-durableReplies:]
	msg, err := replies[0].ToMessage()
	// The connection is kept only if the server answered and is still the right one.
	if err != nil && !rueidis.IsRedisNil(err) {
		_, answered := rueidis.IsRedisErr(err)
		l.durableConns.put(b.place, lane, answered && !verdictOf(err).refresh)
		return b.failed(err)
	}

	// During a move the other node owns the slot.
	if !b.asking {
		l.durableConns.setOwner(b.call.Keys[0], b.place)
	}

	err = replies[1].Error()
	if err == nil {
		err = b.confirmation(replies[2])
	}

	l.durableConns.put(b.place, lane, err == nil || isUnconfirmed(err))
	return durableReply{msg: msg, durable: b.unconfirmed(err)}
}

// durableReplies is how many replies end a try: the script's, the fence's and the confirmation.
const durableReplies = 3

// commands returns the commands of one pipeline.
func (b *durableCall) commands(builder rueidis.Builder) []rueidis.Completed {
	d, cmds := b.link.o.Durability, make([]rueidis.Completed, 0, 4)
	timeout := d.Timeout
	if b.call.Waited {
		// 0 would mean no limit.
		timeout = max(timeout/10, time.Millisecond)
	}
	if b.asking {
		cmds = append(cmds, builder.Asking().Build())
	}

	f := b.link.form(b.call.Script)
	if f != byFunction {
		f = byText
	} else if b.byText {
		load := b.call.Script.Library.load(builder)
		// ASKING applies to one command, so it must come directly before the script.
		if f = byText; b.asking {
			cmds = cmds[:0]
			cmds = append(cmds, load, builder.Asking().Build())
		} else {
			cmds = append(cmds, load)
		}
	}

	cmds = append(cmds, b.call.command(builder, f),
		Call{Script: fenceScript, Keys: []string{b.link.fenceKey(b.call.Keys[0])}}.command(builder, byText))
	if d.AOF {
		return append(cmds, builder.Waitaof().Numlocal(1).Numreplicas(0).Timeout(timeout.Milliseconds()).Build())
	}

	return append(cmds, builder.Wait().Numreplicas(int64(d.Replicas)).Timeout(timeout.Milliseconds()).Build())
}

// fenceScript is the write before WAIT. It is a script because the server rejects a plain write
// when its memory is full, and a settle must still be confirmed then.
var fenceScript = NewScript("fence", "#!lua flags=allow-oom\nreturn redis.call('set', KEYS[1], '', 'px', 1)", false)

// failed handles a try whose script did not run, or may not have run. failed follows a redirect, or
// decides whether to retry.
func (b *durableCall) failed(err error) durableReply {
	l := b.link
	place := b.place
	b.place, b.asking = "", false
	if e, ok := rueidis.IsRedisErr(err); ok && b.hops < maxRedirects {
		if addr, ok := e.IsMoved(); ok {
			l.durableConns.setOwner(b.call.Keys[0], addr)
			b.place = addr
		} else if addr, ok := e.IsAsk(); ok {
			b.place, b.asking = addr, true
		}
		if b.place != "" {
			b.hops++
			return durableReply{again: true, now: true, err: l.refusal(b.call.Script.Name, verdictOf(err), err)}
		}
	}

	b.hops = 0
	l.durableConns.forgetOwner(b.call.Keys[0], place)
	// The client library has not seen this redirect.
	b.refreshSlots()
	v := verdictOf(err)
	if v.refresh {
		l.refresh()
	}
	if v.class == noScript && !b.byText {
		b.byText = true
		return durableReply{again: true, now: true, err: l.refusal(b.call.Script.Name, v, err)}
	}

	return durableReply{again: v.class == idle, err: l.refusal(b.call.Script.Name, v, err)}
}

// refreshSlots makes the client library notice that a slot has another owner. The library does
// not see the redirects of these connections.
func (b *durableCall) refreshSlots() {
	l, key := b.link, b.call.Keys[0]
	if l.o.Mode != Cluster || l.enter(context.Background()) != nil {
		return
	}
	go func() {
		defer l.calls.Done()
		// Any call to the slot makes the library find the owner. This call changes nothing.
		l.main.Do(context.Background(), Call{Script: mayCallScript, Keys: []string{key}}.command(l.main.B(), byHash))
	}()
}

// unconfirmedError means that too few servers have confirmed.
type unconfirmedError struct{ confirmed, wanted int64 }

func (s unconfirmedError) Error() string {
	return fmt.Sprintf("%d of %d in time", s.confirmed, s.wanted)
}

// TimedOut reports whether an error of [Link.RunDurable] came after the full timeout of a
// confirmation.
func TimedOut(durable error) bool {
	var s unconfirmedError
	return errors.As(durable, &s)
}

func isUnconfirmed(err error) bool {
	_, ok := err.(unconfirmedError)
	return ok
}

// confirmation reads the answer to WAIT, the number of replicas, or to WAITAOF, the numbers of
// local fsyncs and of replicas. It returns an error if the numbers are too low.
func (b *durableCall) confirmation(reply rueidis.RedisResult) error {
	l := b.link
	n, wanted, err := int64(0), int64(l.o.Durability.Replicas), error(nil)
	if l.o.Durability.AOF {
		var both []int64
		wanted = 1
		if both, err = reply.AsIntSlice(); len(both) > 0 {
			n = both[0]
		}
	} else {
		n, err = reply.AsInt64()
	}
	if err == nil && n < wanted {
		err = unconfirmedError{n, wanted}
	}
	return err
}

// unconfirmed returns the error for writes that were stored but not confirmed.
func (b *durableCall) unconfirmed(err error) error {
	l := b.link
	if err == nil {
		return nil
	}
	what := "its append-only file on disk"
	if n := l.o.Durability.Replicas; n > 0 {
		what = strconv.Itoa(n) + " replicas"
		if n == 1 {
			what = "1 replica"
		}
	}
	return &duly.Error{Code: duly.CodeNotDurable, Cause: err, Message: fmt.Sprintf(
		"redis at %s: stored, but not confirmed by %s (%s); push the same IDs again to confirm it", l.where(), what,
		cause(err))}
}

// durableConns holds the connections for durable calls. Each serves one call at a time.
type durableConns struct {
	mu     sync.Mutex
	idle   map[string][]*durableConn // idle connections by node
	owners map[uint16]string         // last known owner of each slot
	closed bool
}

// maxIdleConns is how many idle connections are kept per node.
const maxIdleConns = 4

// durableConn is a connection, and the channel that reports its end.
type durableConn struct {
	client rueidis.DedicatedClient
	dead   <-chan error
}

// owner returns the node to try first: the last known owner of the slot, or any node, which then
// redirects the call.
func (s *durableConns) owner(l *core, key string) string {
	nodes := l.main.Nodes()
	s.mu.Lock()
	place := s.owners[hashslot.Of(key)]
	s.mu.Unlock()
	// The last known owner may have left the cluster.
	if nodes[place] != nil {
		return place
	}
	for addr := range nodes {
		return addr
	}
	return ""
}

// setOwner records the node that owns the key's slot.
func (s *durableConns) setOwner(key, place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners == nil {
		s.owners = map[uint16]string{}
	}
	s.owners[hashslot.Of(key)] = place
}

// forgetOwner drops an owner that has failed.
func (s *durableConns) forgetOwner(key, place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[hashslot.Of(key)] == place {
		delete(s.owners, hashslot.Of(key))
	}
}

// take returns a connection to the node for one pipeline.
func (s *durableConns) take(l *core, place string) (*durableConn, error) {
	for {
		lane := s.takeIdle(place)
		if lane == nil {
			break
		}
		select {
		// The server may have closed the connection while it was idle.
		case <-lane.dead:
			lane.client.Close()
		default:
			return lane, nil
		}
	}

	client := l.main.Nodes()[place]
	if client == nil {
		// The client library does not know the node yet.
		return nil, rueidis.ErrNoSlot
	}

	dedicated, _ := client.Dedicate()
	return &durableConn{client: dedicated,
		dead: dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})}, nil
}

func (s *durableConns) takeIdle(place string) *durableConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle[place]
	if len(idle) == 0 {
		return nil
	}
	s.idle[place] = idle[:len(idle)-1]
	return idle[len(idle)-1]
}

// put keeps a connection for later if it is good, and closes it otherwise.
func (s *durableConns) put(place string, lane *durableConn, good bool) {
	s.mu.Lock()
	good = good && !s.closed && len(s.idle[place]) < maxIdleConns
	if good {
		if s.idle == nil {
			s.idle = map[string][]*durableConn{}
		}
		s.idle[place] = append(s.idle[place], lane)
	}
	s.mu.Unlock()
	if !good {
		lane.client.Close()
	}
}

func (s *durableConns) close() {
	s.mu.Lock()
	all := s.idle
	// From now on, a call in flight must not put its connection back.
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, idle := range all {
		for _, lane := range idle {
			lane.client.Close()
		}
	}
}
