package link

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/hashslot"
)

const (
	// MaxBlock bounds one blocking call. The client library does not ping a blocked
	// connection, so a dead one is noticed only when the call ends.
	MaxBlock = 5 * time.Second
	// blockGrace is how much longer than its timeout a blocking call may take.
	blockGrace = 2 * time.Second
	// connIdle is how long an unused connection is kept.
	connIdle = 30 * time.Second
	// minBlock is the shortest timeout, because the server takes 0 as no limit.
	minBlock = time.Millisecond
)

// blockingCalls makes blocking calls.
type blockingCalls struct {
	*core
	blockers blockers
}

// Group returns the group of a key. The keys of one blocking call must be of one group. On one
// server all keys are of one group, in a cluster those of one hash slot.
func (l *blockingCalls) Group(key string) string {
	if l.o.Mode != Cluster {
		return ""
	}
	return strconv.Itoa(int(hashslot.Of(key)))
}

// Block waits until one of the sorted sets has a member, removes the member with the lowest
// score, and returns it with the key of its set. It returns false after the timeout (at most
// MaxBlock), or after [Link.Unblock]. All keys must be of the group. One call per group runs at a
// time. A second one waits for its turn.
//
// A removed member is returned even if the context has ended meanwhile. It is lost only with the
// connection or the process, or if the server does not answer within a second after the context
// ended.
func (l *blockingCalls) Block(
	ctx context.Context, group string, keys []string, timeout time.Duration,
) (key, member string, score float64, ok bool, err error) {
	b := l.blockers.blocker(l.core, group)
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return "", "", 0, false, ctx.Err()
	}

	if err := l.enter(ctx); err != nil {
		<-b.turn
		return "", "", 0, false, err
	}

	// The keys are copied, because the call may outlive its caller.
	call := &blockingCall{
		link: l.core, blocker: b, keys: slices.Clone(keys), over: make(chan struct{}),
		timeout: max(minBlock, min(timeout, MaxBlock)),
	}
	// The buffer lets the call end after its caller has left.
	done := make(chan popResult, 1)
	b.begin(call)
	// The call may remove a member after its caller has left, so it runs on its own.
	go func() {
		defer l.calls.Done()
		p := call.run()
		b.end()
		done <- p
	}()

	var p popResult
	select {
	case p = <-done:
	case <-ctx.Done():
		p = l.leave(ctx, group, done)
	}

	return p.key, p.member, p.score, p.ok, p.err
}

// popResult is the result of a blocking call.
type popResult struct {
	key, member string
	score       float64
	ok          bool
	err         error
}

// leaveWait is how long a caller whose context has ended waits for a removed member.
const leaveWait = time.Second

// leave ends a blocking call whose caller's context has ended.
func (l *blockingCalls) leave(ctx context.Context, group string, done <-chan popResult) popResult {
	l.Unblock(group)
	timer := l.clock.NewTimer(leaveWait)
	defer timer.Stop()
	select {
	case p := <-done:
		// A member that was removed in the meantime must reach the caller.
		if !p.ok {
			p.err = ctx.Err()
		}
		return p
	case <-timer.C:
		return popResult{err: unanswered(ctx)}
	}
}

// Unblock ends the group's blocking call in flight, if any. It does not wait for the end. If a
// call begins at the same time, Unblock may end that call as if its timeout were over.
func (l *blockingCalls) Unblock(group string) {
	call := l.blockers.current(group)
	if call == nil {
		return
	}
	id := call.ending()
	if id == 0 {
		return
	}
	if l.enter(context.Background()) != nil {
		// The link is closed, and blockers.end ends the call.
		call.asked()
		return
	}
	go func() {
		defer l.calls.Done()
		call.unblock(id)
	}()
}

// blockConn is a connection for the blocking calls of one group, one at a time.
type blockConn struct {
	client rueidis.DedicatedClient
	id     int64  // number that the server gave the connection
	place  string // address of the primary; "" in a cluster, where the slot decides
}

// blockingCall is one blocking call.
type blockingCall struct {
	link    *core
	blocker *blocker
	keys    []string
	timeout time.Duration
	over    chan struct{} // closed when the call has ended

	mu     sync.Mutex
	id     int64 // number of the connection that blocks; 0 before the call blocks
	early  bool  // whether the call must end before its timeout
	asking bool  // whether unblock is asking the server to end the call
}

// run blocks, with retries, until there is a member or the timeout is over.
func (c *blockingCall) run() popResult {
	// The caller's context is not used: a member removed just before its end would be lost.
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout+blockGrace)
	defer cancel()
	p := Backoff{ctx: ctx, clock: c.link.clock, pause: firstPause, end: c.link.clock.Mono() + c.timeout}
	for {
		reused := c.blocker.conn != nil
		msg, err := c.try(ctx)
		if err == nil || rueidis.IsRedisNil(err) {
			// A refusal after this success is a new one, so it is logged again.
			c.blocker.logged = ""
		}
		if err == nil {
			return c.read(msg)
		}
		if rueidis.IsRedisNil(err) {
			return popResult{}
		}
		if !migrating(err) {
			c.blocker.drop()
		}
		v := verdictOf(err)
		// A reused connection may have been closed long before this call used it.
		again := v.class == idle || v.class == unknown && reused
		if v.refresh {
			c.link.refresh()
		}
		if !again || c.ended() || c.link.closed.Load() || !p.Wait() {
			return popResult{err: c.refused(ctx, v, err)}
		}
	}
}

// refused returns the error of a call that is not retried. Waiters call again and again, so a
// refusal is logged once, until it changes.
func (c *blockingCall) refused(ctx context.Context, v verdict, err error) error {
	l, b := c.link, c.blocker
	converted := l.asError(v, err)
	if v.class != refused || b.logged == err.Error() {
		return converted
	}

	b.logged = err.Error()
	l.log.Error("redis: waiting for wake-ups fails; due jobs are found by polling every two seconds",
		slog.String("error", l.explain(ctx, converted, c.keys).Error()), slog.String("server says", b.logged))
	return converted
}

// migrating reports whether the slot is moving to another node while this one still owns it. A
// move may take long, so the connection is kept.
func migrating(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, asks := e.IsAsk()
	return asks || e.IsTryAgain()
}

// try blocks once. It creates a connection if there is none.
func (c *blockingCall) try(ctx context.Context) (rueidis.RedisMessage, error) {
	b := c.blocker
	client, err := c.link.waitClient()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}

	place := c.link.primary(client)
	// After a failover the old connection would wait on a replica.
	if b.conn != nil && b.conn.place != place {
		b.drop()
	}

	if b.conn == nil {
		dedicated, _ := client.Dedicate()
		b.conn = &blockConn{client: dedicated, place: place}
		id, err := dedicated.Do(ctx, dedicated.B().ClientId().Build().SetSlot(c.keys[0])).AsInt64()
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		b.conn.id = id
	}

	// Unblock came before the call was sent, so there is nothing to end at the server.
	if !c.starting(b.conn.id) {
		return rueidis.RedisMessage{}, rueidis.Nil
	}

	seconds := c.timeout.Seconds()
	return b.conn.client.Do(ctx, b.conn.client.B().Bzpopmin().Key(c.keys...).Timeout(seconds).Build()).ToMessage()
}

// read returns the key, member and score of a reply to BZPOPMIN.
func (c *blockingCall) read(msg rueidis.RedisMessage) popResult {
	items, err := msg.ToArray()
	if err == nil && len(items) != 3 {
		err = contract.Errorf(duly.CodeInternal, "BZPOPMIN answered %d items", len(items))
	}
	if err != nil {
		v := verdict{
			code:   duly.CodeInternal,
			advice: "the reply to BZPOPMIN has an unexpected form; check whether the URL points to Redis itself or to a proxy",
		}
		return popResult{err: c.link.fault("block", v, err)}
	}
	p := popResult{ok: true}
	p.key, _ = items[0].ToString()
	p.member, _ = items[1].ToString()
	p.score, p.err = items[2].AsFloat64()
	return p
}

// starting records the connection that is about to block. It returns false if the call must end
// first.
func (c *blockingCall) starting(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	return !c.early
}

func (c *blockingCall) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.early
}

// ending records that the call must end, and returns the connection that blocks. It returns 0 if no
// connection blocks yet, or if a goroutine is already asking the server. That goroutine repeats its
// request until the call has ended.
func (c *blockingCall) ending() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.early = true
	if c.asking || c.id == 0 {
		return 0
	}
	c.asking = true
	return c.id
}

// asked records that no goroutine asks the server any more, although the call has not ended.
func (c *blockingCall) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
}

// unblock asks the server to end the call. If the call has not reached the server yet, it asks
// again. A server whose writes are paused (CLIENT PAUSE, CLUSTER FAILOVER, FAILOVER, SHUTDOWN)
// delays the call. Releases before summer 2025 crash when such a call is unblocked. unblock
// therefore first sends a write that changes nothing. A paused server delays this write, and with
// it the CLIENT UNBLOCK that follows.
func (c *blockingCall) unblock(id int64) {
	ctx, cancel := context.WithTimeout(context.Background(), MaxBlock+blockGrace)
	defer cancel()
	client, err := c.link.waitClient()
	if err != nil {
		c.asked()
		return
	}

	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		replies := client.DoMulti(ctx, client.B().Unlink().Key(c.link.fenceKey(c.keys[0])).Build(),
			client.B().ClientUnblock().ClientId(id).Build().SetSlot(c.keys[0]))
		if n, err := replies[1].AsInt64(); err == nil && n == 1 {
			return
		}
		timer := c.link.clock.NewTimer(pause)
		select {
		case <-c.over:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			c.asked()
			return
		case <-timer.C:
		}
	}
}

// blockers holds one blocker per group.
type blockers struct {
	mu       sync.Mutex
	blockers map[string]*blocker
}

// blocker makes the blocking calls of one group, one at a time.
type blocker struct {
	turn   chan struct{} // holds one value while a call is in flight
	conn   *blockConn    // used by the call that has the turn; nil before the first call
	idle   clock.Timer   // closes an unused connection
	logged string        // the last refusal that was logged; used by the call that has the turn

	mu   sync.Mutex
	call *blockingCall // the call in flight, or nil
}

func (w *blockers) blocker(l *core, group string) *blocker {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.blockers[group]
	if b == nil {
		b = &blocker{turn: make(chan struct{}, 1)}
		b.idle = l.clock.AfterFunc(connIdle, func() { b.retire() })
		if w.blockers == nil {
			w.blockers = map[string]*blocker{}
		}
		w.blockers[group] = b
	}
	return b
}

func (w *blockers) current(group string) *blockingCall {
	w.mu.Lock()
	b := w.blockers[group]
	w.mu.Unlock()
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.call
}

// end ends the calls in flight when the link is closed.
func (w *blockers) end(l *core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.blockers {
		b.mu.Lock()
		call := b.call
		b.mu.Unlock()
		if call == nil {
			continue
		}
		if id := call.ending(); id != 0 {
			// A closed link refuses enter, so l.calls counts this goroutine instead.
			l.calls.Go(func() { call.unblock(id) })
		}
	}
}

// close closes the connections. No call may be in flight.
func (w *blockers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.blockers {
		b.idle.Stop()
		b.retire()
	}
}

func (b *blocker) begin(call *blockingCall) {
	b.idle.Stop()
	b.mu.Lock()
	b.call = call
	b.mu.Unlock()
}

func (b *blocker) end() {
	b.mu.Lock()
	// Unblock stops asking the server when over is closed.
	close(b.call.over)
	b.call = nil
	b.mu.Unlock()
	// The timer is set before the turn ends. Otherwise it could run during the next call.
	b.idle.Reset(connIdle)
	<-b.turn
}

// retire closes an idle connection.
func (b *blocker) retire() {
	select {
	case b.turn <- struct{}{}:
		b.drop()
		<-b.turn
	// A call uses the connection. It restarts the timer when it ends.
	default:
	}
}

// drop closes the connection. The caller must have the turn.
func (b *blocker) drop() {
	if b.conn != nil {
		b.conn.client.Close()
		b.conn = nil
	}
}
