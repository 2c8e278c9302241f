package link

import (
	"context"
	"slices"
	"strconv"
	"time"
)

const (
	// MaxBlock bounds one blocking call. A blocked connection is not asked
	// whether somebody is there, so a dead one is noticed by the end of the call.
	MaxBlock = 5 * time.Second
	// blockGrace is how much later than asked for a blocking call may end.
	blockGrace = 2 * time.Second
	// laneIdle is how long a connection for blocking is kept without a call.
	laneIdle = 30 * time.Second
	// minBlock is the shortest time: 0 is for ever to the server.
	minBlock = time.Millisecond
)

// blocks are the blocking calls.
type blocks struct{ *core }

// Group tells which keys may stand in one blocking call: those with equal
// groups. On one server these are all keys; on a cluster those of one hash slot.
func (l *blocks) Group(key string) string {
	if l.o.Mode != Cluster {
		return ""
	}
	return strconv.Itoa(int(slot(key)))
}

// Block waits until one of the sorted sets has a member, takes the one of the
// lowest score, and answers it with the key of its set. ok is false if the time
// is over (at most MaxBlock), or if it was ended by [Link.Unblock]. All keys
// are of the group, and one call per group is on its way at a time: a second
// one waits for its turn.
//
// A member that was taken is answered also when the context has ended
// meanwhile; it is lost only with the connection or the process, or if the
// server does not answer within a second after that.
func (l *blocks) Block(ctx context.Context, group string, keys []string, timeout time.Duration) (key, member string, score float64, ok bool, err error) {
	b := l.waiting.blocker(l.core, group)
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return "", "", 0, false, ctx.Err()
	}
	if err := l.enter(ctx); err != nil {
		<-b.turn
		return "", "", 0, false, err
	}
	call := &blocking{link: l.core, blocker: b, keys: slices.Clone(keys), over: make(chan struct{}), timeout: max(minBlock, min(timeout, MaxBlock))}
	done := make(chan popped, 1)
	b.begin(call)
	go func() {
		defer l.calls.Done()
		p := call.run()
		b.end()
		done <- p
	}()
	var p popped
	select {
	case p = <-done:
	case <-ctx.Done():
		p = l.leave(ctx, group, done)
	}
	return p.key, p.member, p.score, p.ok, p.err
}

// popped is what a blocking call has brought.
type popped struct {
	key, member string
	score       float64
	ok          bool
	err         error
}

// leaveWait is how long a caller that leaves waits for what its call has taken.
const leaveWait = time.Second

// leave ends a blocking call whose caller leaves.
func (l *blocks) leave(ctx context.Context, group string, done <-chan popped) popped {
	l.Unblock(group)
	timer := l.clock.NewTimer(leaveWait)
	defer timer.Stop()
	select {
	case p := <-done:
		if !p.ok {
			p.err = ctx.Err()
		}
		return p
	case <-timer.C:
		return popped{err: unanswered(ctx)}
	}
}

// Unblock ends the blocking call of the group that is on its way, if there is
// one; it does not wait for that. A call that begins at the same moment may be
// ended instead, as if its time were over.
func (l *blocks) Unblock(group string) {
	call := l.waiting.current(group)
	if call == nil {
		return
	}
	id := call.ending()
	if id == 0 {
		return
	}
	if l.enter(context.Background()) != nil {
		call.asked()
		return
	}
	go func() {
		defer l.calls.Done()
		call.unblock(id)
	}()
}
