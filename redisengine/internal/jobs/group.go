package jobs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Reserve and settle work for a group as for a queue, with other scripts.

// newToken draws the token of a Reserve: 1 to 2⁶³−1.
func newToken() messages.Token {
	var b [8]byte
	rand.Read(b[:])
	return messages.Token(max(1, binary.BigEndian.Uint64(b[:])>>1))
}

// sendGroupReserve returns the sender of batched reserves of a group. All callers of a
// batch share one token; the receipts differ by their positions.
func (e *Jobs) sendGroupReserve(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	g := messages.GroupOf(q.Ref, s.Index, q.Config)
	return func(ctx context.Context, calls []*Batched) error {
		most := 0
		for _, c := range calls {
			most += c.Items
		}
		room, had := duly.MaxBatchBytes, "0"
		if len(calls) == 1 {
			room = calls[0].share.room
			if calls[0].share.hasJobs {
				had = "1"
			}
		}
		token, consumer := newToken(), ""
		for _, c := range calls {
			if consumer == "" && e.consumers.due(q.View.Group, c.share.consumer, e.Local().Mono()) {
				consumer = c.share.consumer
			}
		}

		asked := e.Local().Mono()
		r := catalog.Reply{Word: "behind"}
		for r.Word == "behind" {
			var err error
			r, err = e.CallGroupOnce(ctx, q, s, store.ScriptGroupReserve, true,
				token.String(), strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), had,
				consumer)
			if err != nil {
				e.repairer.Repair(catalog.ShardRef{Ref: q.Ref, Index: s.Index}, err)
				return err
			}
		}

		e.consumers.note(q.View.Group, consumer, asked)
		all, more, now, end := g.Deliveries(r.Rest, token)
		if len(all) < most && more == noMore {
			s.Emptied.Store(int64(asked) + 1)
		}
		if len(all) > 0 {
			e.hub.LeasesGranted(q, s, end, store.Reading{Now: now * 1000, Sent: asked, Received: e.Local().Mono()})
		}
		for _, c := range calls {
			if c.Claim() {
				n := min(c.Items, len(all))
				c.share.more, c.share.joint = more, len(calls) > 1
				c.share.messages, all = all[:n:n], all[n:]
			}
		}
		if len(all) > 0 { // for callers that have left
			e.Tasks.Go(func() { e.giveBackMessages(q, all) })
		}
		return nil
	}
}

// giveBackMessages releases deliveries without a caller.
func (e *Jobs) giveBackMessages(q *catalog.Queue, all []duly.Delivery) {
	t := NewReservation(e, duly.ReserveParams{Namespace: q.Ref.Namespace})
	t.Got = all
	t.Release()
}

// readMessages adds the deliveries of a shard of a group.
func (t *Reservation) readMessages() {
	for _, d := range t.share.messages {
		t.left--
		t.room -= len(d.Body)
	}
	t.Got = append(t.Got, t.share.messages...)
}

// sendGroupSettle returns the sender of batched settles of a group.
func (e *Jobs) sendGroupSettle(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		var acks, others []string
		var ackAt, otherAt []int // the places of acks and of other outcomes in the call
		var lost []int
		at := 0
		seen := map[string]bool{} // receipts that were given with another outcome than an ack
		for _, c := range calls {
			for _, arg := range c.Args {
				receipt, outcome := arg[:messages.HeldSize], arg[messages.HeldSize:]
				switch {
				case seen[receipt] || outcome != "" && slices.Contains(acks, receipt): // the first outcome counts
					lost = append(lost, at)
				case outcome == "":
					acks, ackAt = append(acks, arg), append(ackAt, at)
				default:
					seen[receipt] = true
					others, otherAt = append(others, outcome), append(otherAt, at)
				}
				at++
			}
		}

		bits := messages.Gather(acks, func(i int) { lost = append(lost, ackAt[i]) })
		args := make([]string, 0, 1+3*len(bits)+len(others))
		args = append(args, strconv.Itoa(len(bits)))
		for _, b := range bits {
			args = append(args, b.Token.String(), strconv.FormatUint(b.First, 10), rueidis.BinaryString(b.Bitmap))
		}
		r, durable, err := e.WriteGroup(ctx, q, s, store.ScriptGroupSettle, append(args, others...)...)
		if err != nil {
			return err
		}

		bitmaps, places := codec.Elements(&r.Rest[0]), codec.Elements(&r.Rest[1])
		for i, b := range bits {
			b.Lost(codec.Text(&bitmaps[i]), func(k int) { lost = append(lost, ackAt[k]) })
		}
		for i := range places {
			lost = append(lost, otherAt[codec.Integer(&places[i])-1])
		}
		slices.Sort(lost)
		shareLost(calls, lost, durable)
		return nil
	}
}

// shareLost gives each caller its lost items. The places count from 0 and are in order.
func shareLost(calls []*Batched, lost []int, durable error) {
	from := 0
	for _, c := range calls {
		var own []int
		for len(lost) > 0 && lost[0] < from+c.Items {
			own = append(own, lost[0]-from)
			lost = lost[1:]
		}
		from += c.Items
		c.Apply(BatchReply{Lost: own, durable: durable})
	}
}

// packMessage packs an outcome of a group for its sender. It returns false if the receipt
// can't be current.
func packMessage(ref duly.QueueRef, o *duly.Outcome, p *duly.ReceiptParts) (arg string, ok bool) {
	topic, _, _ := ref.Group()
	h, ok := messages.HeldOf(topic, p)
	if !ok {
		return "", false
	}
	if o.As == duly.Ack {
		return h.String(), true
	}
	return h.String() + messages.PackOutcome(h, o, p.Number.String()), true
}

// extendMessages moves the ends of leases in a shard of a group.
func (e *Jobs) extendMessages(ctx context.Context, q *catalog.Queue, s *catalog.Shard, g *receiptGroup, lease time.Duration, results []error) error {
	lost := func(i int) { results[g.places[i]] = duly.ErrLeaseLost }
	var twice []int // a receipt that is there twice gets the same answer twice
	bits := messages.Gather(g.args, func(i int) { twice = append(twice, i) })
	args := []string{strconv.FormatInt(codec.Micros(lease), 10)}
	for _, b := range bits {
		args = append(args, b.Token.String(), strconv.FormatUint(b.First, 10), string(b.Bitmap), b.Places())
	}
	r, err := e.CallGroup(ctx, q, s, store.ScriptGroupExtend, args...)
	if err != nil {
		return err
	}
	for i, m := range codec.Elements(&r.Rest[0]) {
		bits[i].Lost(codec.Text(&m), lost)
	}
	for _, i := range twice {
		results[g.places[i]] = results[g.places[slices.Index(g.args, g.args[i])]]
	}
	return nil
}

// consumers remembers when the name of a consumer was last stored in a group, so that a
// Reserve writes it once a minute.
type consumers struct {
	mu     sync.Mutex
	stored map[consumer]time.Duration
}

type consumer struct {
	group string // its birth mark
	name  string
}

const (
	consumerPause = 50 * time.Second
	maxNoted      = 10_000
)

// due reports whether the group has to store the name.
func (c *consumers) due(g *catalog.Group, name string, now time.Duration) bool {
	if name == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.stored[consumer{g.Birth, name}]
	return !known || now-at >= consumerPause
}

// note remembers that the group stores the name.
func (c *consumers) note(g *catalog.Group, name string, now time.Duration) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored == nil || len(c.stored) >= maxNoted {
		c.stored = map[consumer]time.Duration{}
	}
	c.stored[consumer{g.Birth, strings.Clone(name)}] = now
}

// checkGroups returns an error for a Reserve of an unknown group or of a topic, before
// anything is leased.
func (e *Jobs) checkGroups(ctx context.Context, p duly.ReserveParams) error {
	for _, name := range p.Queues {
		ref := duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		q := e.Cache.Get(ref)
		if q == nil && ref.IsGroup() {
			var err error
			if q, err = e.Find(ctx, ref); err != nil {
				return err
			}
			if q == nil {
				return e.Unknown(ctx, ref)
			}
		}

		if q != nil && q.Topic != nil {
			return duly.IsTopic(ref)
		}

		if q != nil && q.View != nil {
			if err := q.Config.Group.CheckTarget(ref, p.Target); err != nil {
				return err
			}
		}
	}
	return nil
}
