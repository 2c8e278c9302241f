package redisengine

import (
	"context"
	"errors"
	"strconv"

	"github.com/dulymq/duly"
)

// share is what one caller gets of a batched reserve.
type share struct {
	room   int  // bytes of bodies
	held   bool // its caller has jobs of this Reserve already
	handed handed
	more   int64
}

// What a reserve says of what it has not handed out.
const (
	noMore int64 = iota
	moreSteps
	fullUp // the next job does not go with what was handed out
)

// errUnsent says that a caller has left before its call was sent. No caller of the
// engine ever sees it.
var errUnsent = errors.New("redisengine: left before the call was sent")

// mostShared is how many jobs a caller may want to go with others. More are
// worth a call of their own, which then waits for nobody.
const mostShared = 100

// join asks a shard for a caller, together with others who ask for jobs of the
// same lease: first come, first served.
func (t *taking) join(ctx context.Context, q *queue, s *shard) error {
	t.share = share{room: t.room, held: len(t.got) > 0}
	c := newBatched(t.left)
	c.lease, c.share = micros(t.p.Lease), &t.share
	b := &t.e.gear(q, s).reserve
	do := b.Do
	if t.left > mostShared || len(t.got) > 0 {
		do = b.DoAlone
	}

	err := do(ctx, c)
	switch {
	case c.Answered():
		c.free()
	case err != nil && err == ctx.Err():
		return errUnsent
	}
	return err
}

// sendReserve runs the joint reserve of many callers. It is waited for even if
// all of them leave, for the reply may hand out leases.
func (e *Engine) sendReserve(q *queue, s *shard) func(context.Context, []*batched) error {
	return func(ctx context.Context, calls []*batched) error {
		most := 0
		for _, c := range calls {
			most += c.Items
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
func deal(calls []*batched, h *handed, more int64) {
	for _, c := range calls {
		if c.Claim() {
			c.share.more = more
			c.share.handed = h.cut(c.Items)
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
