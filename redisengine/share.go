package redisengine

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// share is what one caller gets of a joint reserve. Its caller may leave at any
// moment, so its state says who has the say:
//
//	unsent → underway → dealt    the caller takes what it was dealt, however late
//	unsent → departed            nothing is asked for it
//	underway → departed          what it would have got goes to others, or back
type share struct {
	ctx    context.Context // of the caller
	state  uint32
	room   int  // bytes of bodies
	held   bool // its caller has jobs of this Reserve already
	handed handed
	more   int64
}

const (
	unsent uint32 = iota
	underway
	dealt
	departed
)

// What a reserve says of what it has not handed out.
const (
	noMore int64 = iota
	moreSteps
	fullUp // the next job does not go with what was handed out
)

func (s *share) to(from, next uint32) bool { return atomic.CompareAndSwapUint32(&s.state, from, next) }

// send tells whether its caller still wants something, just before it is sent.
func (s *share) send() bool { return s.ctx.Err() == nil && s.to(unsent, underway) }

// deal tells whether its caller still wants something. From then on it takes
// what it gets.
func (s *share) deal() bool { return s.ctx.Err() == nil && s.to(underway, dealt) }

// errUnsent and errLeft say that a caller has left before its call was sent, and
// while it was on its way. No caller of the engine ever sees them.
var (
	errUnsent = errors.New("redisengine: left before the call was sent")
	errLeft   = errors.New("redisengine: left")
)

// leave ends a caller's wait; nil: it was dealt something, and has to take it.
func (s *share) leave() error {
	switch {
	case s.to(unsent, departed):
		return errUnsent
	case s.to(underway, departed):
		return errLeft
	}
	return nil
}

// mostShared is how many jobs a caller may want to go with others. More are
// worth a call of their own, which then waits for nobody.
const mostShared = 100

// join asks a shard for a caller, together with others who ask for jobs of the
// same lease: first come, first served.
func (t *taking) join(ctx context.Context, q *queue, s *shard) error {
	t.share = share{ctx: ctx, room: t.room, held: len(t.got) > 0}
	j := newJoint(t.left)
	j.lease, j.share = micros(t.p.Lease), &t.share
	begun, l := false, &t.e.gear(q, s).reserve
	if t.left > mostShared || len(t.got) > 0 {
		begun = t.e.work.begin(func() { l.alone(j) })
	} else {
		begun = l.enter(t.e, j)
	}
	if !begun {
		return duly.ErrClosed
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if err := t.share.leave(); err != nil {
			return err
		}
		<-j.done
	}
	err := j.err
	j.free()
	return err
}

// alone sends one caller's call by itself.
func (l *lane) alone(j *joint) {
	if j.share.send() {
		j.err = l.send(context.Background(), []*joint{j})
		j.done <- struct{}{}
	}
}

// sendReserve runs the joint reserve of many callers. It is waited for even if
// all of them leave, for the reply may hand out leases.
func (e *Engine) sendReserve(q *queue, s *shard) func(context.Context, []*joint) error {
	return func(ctx context.Context, calls []*joint) error {
		most := 0
		for _, c := range calls {
			most += c.items
		}
		room, held := duly.MaxBatchBytes, "0"
		if len(calls) == 1 {
			room = calls[0].share.room
			if calls[0].share.held { // then its call is never joined with others
				held = "1"
			}
		}
		asked := e.local().Mono()
		r, err := e.callOnce(ctx, q, s, scriptReserve, s.limits,
			strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), held)
		if err != nil {
			e.heal(part{q.ref, s.index}, err)
			return err
		}
		h, more := readHanded(r.rest), integer(&r.rest[0])
		if h.n < most && more == noMore {
			s.emptied.Store(int64(asked) + 1)
		}
		if at := h.ending(); at != 0 {
			e.hub.leased(q, s, at, reading{h.now * 1000, asked, e.local().Mono()})
		}
		if deal(calls, &h, more); h.n > 0 {
			e.work.begin(func() { e.giveBack(q, s, h) })
		}
		return nil
	}
}

// deal hands out what a call has brought, in the order in which the callers
// came. What is left was meant for callers who have gone.
func deal(calls []*joint, h *handed, more int64) {
	for _, c := range calls {
		if s := c.share; s.deal() {
			s.more = more
			s.handed = h.cut(c.items)
		}
	}
}

// giveBack releases what nobody has taken.
func (e *Engine) giveBack(q *queue, s *shard, h handed) {
	t := newTaking(e, duly.ReserveParams{Namespace: q.ref.Namespace})
	t.share.handed = h
	if t.read(q, s); len(t.got) > 0 {
		t.release()
	}
}
