package jobs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Reserve and settle work for a group as for a queue. The scripts differ, and so do the batches
// that these senders build.

// newToken returns a random token for a Reserve: 1 to 2⁶³−1.
func newToken() messages.Token {
	var b [8]byte
	rand.Read(b[:])
	return messages.Token(max(1, binary.BigEndian.Uint64(b[:])>>1))
}

// sendGroupReserve returns the sender of batched reserves of a group. All callers of a batch
// share one token. Their receipts differ in the positions.
func (e *Jobs) sendGroupReserve(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	g := messages.GroupOf(q.Ref, s.Index, q.Config)
	return func(ctx context.Context, calls []*Batched) error {
		most, room, hasJobs := roomOf(calls)
		token, consumer := newToken(), ""
		for _, c := range calls {
			// One call can store only one name. Later calls store the names of the other callers.
			if consumer == "" && e.consumers.due(q.View.Group, c.share.consumer, e.Local().Mono()) {
				consumer = c.share.consumer
			}
		}

		// "behind" means that the script made a step and wants to be called again.
		asked := e.Local().Mono()
		r := catalog.Reply{Word: "behind"}
		for r.Word == "behind" {
			var err error
			r, err = e.CallGroupOnce(ctx, q, s, store.ScriptGroupReserve, true,
				token.String(), strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), hasJobs,
				consumer)
			if err != nil {
				// Damaged keys are repaired in the background, so the next call may succeed.
				e.repairer.Repair(catalog.ShardRef{Ref: q.Ref, Index: s.Index}, err)
				return err
			}
		}

		e.consumers.note(q.View.Group, consumer, asked)
		all, more, now, end := g.Deliveries(r.Rest, token)
		// An empty shard lets a new waiter skip its first poll.
		if len(all) < most && more == noMore {
			s.Emptied.Store(int64(asked) + 1)
		}
		if len(all) > 0 {
			e.hub.LeasesGranted(q, s, end, store.Reading{Now: now * 1000, Sent: asked, Received: e.Local().Mono()})
		}
		for _, c := range calls {
			// A caller whose context ended no longer reads its share.
			if c.Claim() {
				n := min(c.Items, len(all))
				c.share.more, c.share.joint = more, len(calls) > 1
				c.share.messages, all = all[:n:n], all[n:]
			}
		}
		// These deliveries were leased for callers that have left. Without a release they would be
		// stuck until their leases end.
		if len(all) > 0 {
			e.Tasks.Go(func() { e.giveBackMessages(q, all) })
		}
		return nil
	}
}

// giveBackMessages releases deliveries whose caller has left.
func (e *Jobs) giveBackMessages(q *catalog.Queue, all []duly.Delivery) {
	t := NewReservation(e, duly.ReserveParams{Namespace: q.Ref.Namespace})
	t.Got = all
	t.Release()
}

// sendGroupSettle returns the sender of batched settles of a group.
func (e *Jobs) sendGroupSettle(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		var acks, others []string
		var ackAt, otherAt []int // indexes of acks and of other outcomes in the batch
		var lost []int
		at := 0
		seen := map[string]bool{} // receipts with an outcome other than an ack

		for _, c := range calls {
			for _, arg := range c.Args {
				receipt, outcome := arg[:messages.HeldSize], arg[messages.HeldSize:]
				switch {
				case seen[receipt] || outcome != "" && slices.Contains(acks, receipt):
					// The first outcome of a receipt counts.
					lost = append(lost, at)
				// A limiter needs the order of the outcomes, which a bitmap does not have.
				case outcome == "" && q.Config.Adapt.Adaptive():
					seen[receipt] = true
					others, otherAt = append(others, messages.PackAck(messages.ReadHeld(receipt))), append(otherAt, at)
				case outcome == "":
					acks, ackAt = append(acks, arg), append(ackAt, at)
				default:
					seen[receipt] = true
					others, otherAt = append(others, outcome), append(otherAt, at)
				}
				at++
			}
		}

		// Acks are most of the outcomes, so they travel as one bitmap per token.
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
		// shareLost walks callers and indexes together.
		slices.Sort(lost)
		shareLost(calls, BatchReply{Lost: lost, durable: durable, closed: r.ClosedByLimiter})
		return nil
	}
}
