package jobs

import (
	"context"
	"errors"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// share is what one caller gets of a batched reserve.
type share struct {
	room    int  // bytes of bodies
	hasJobs bool // its caller has jobs of this Reserve already
	handed  codec.Deliveries
	more    int64
}

// What a reserve says of what it has not handed out.
const (
	noMore int64 = iota
	moreSteps
	noRoom // the next job does not go with what was handed out
)

// errUnsent says that a caller has left before its call was sent. No caller of the
// engine ever sees it.
var errUnsent = errors.New("redisengine: left before the call was sent")

// maxShared is how many jobs a caller may want to go with others. More are
// worth a call of their own, which then waits for nobody.
const maxShared = 100

// join asks a shard for a caller, together with others who ask for jobs of the
// same lease: first come, first served.
func (t *Reservation) join(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	t.share = share{room: t.room, hasJobs: len(t.Got) > 0}
	c := newBatched(t.left)
	c.lease, c.share = codec.Micros(t.p.Lease), &t.share
	b := &t.e.Batchers(q, s).Reserve
	do := b.Do
	if t.left > maxShared || len(t.Got) > 0 {
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
func (e *Jobs) sendReserve(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		most := 0
		for _, c := range calls {
			most += c.Items
		}
		room, held := duly.MaxBatchBytes, "0"
		if len(calls) == 1 {
			room = calls[0].share.room
			if calls[0].share.hasJobs { // then its call is never joined with others
				held = "1"
			}
		}
		asked := e.Local().Mono()
		r, err := e.CallOnce(ctx, q, s, store.ScriptReserve, s.Limits,
			strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), held)
		if err != nil {
			e.healer.Repair(catalog.ShardRef{Ref: q.Ref, Index: s.Index}, err)
			return err
		}
		h, more := codec.ReadDeliveries(r.Rest), codec.Integer(&r.Rest[0])
		if h.N < most && more == noMore {
			s.Emptied.Store(int64(asked) + 1)
		}
		if at := h.FirstEnd(); at != 0 {
			e.hub.LeasesGranted(q, s, at, store.Reading{Now: h.Now * 1000, Sent: asked, Received: e.Local().Mono()})
		}
		if deal(calls, &h, more); h.N > 0 {
			e.Tasks.Go(func() { e.giveBack(q, s, h) })
		}
		return nil
	}
}

// deal hands out what a call has brought, in the order in which the callers
// came. What is left was meant for callers who have gone.
func deal(calls []*Batched, h *codec.Deliveries, more int64) {
	for _, c := range calls {
		if c.Claim() {
			c.share.more = more
			c.share.handed = h.Cut(c.Items)
		}
	}
}

// giveBack releases what nobody has taken.
func (e *Jobs) giveBack(q *catalog.Queue, s *catalog.Shard, h codec.Deliveries) {
	t := NewReservation(e, duly.ReserveParams{Namespace: q.Ref.Namespace})
	t.share.handed = h
	if t.read(q, s); len(t.Got) > 0 {
		t.Release()
	}
}
