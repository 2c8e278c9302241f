package jobs

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Settle implements duly.Engine.
func (e *Jobs) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.checkReceipts(ctx, namespace, len(outcomes)); err != nil {
		return nil, err
	}
	return e.settle(ctx, namespace, outcomes)
}

// checkReceipts validates an operation on a batch of receipts.
func (e *Jobs) checkReceipts(ctx context.Context, namespace string, items int) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := contract.CheckBatch(items, 0); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// target is a shard to which receipts of a call belong.
type target struct {
	ref   duly.QueueRef
	shard int
}

// receiptGroup has the receipts of one shard: their indexes in the call, and for each of them the
// argument of the script.
type receiptGroup struct {
	target
	places []int
	args   []string
	err    error // the error of all receipts that have no answer
	closed bool  // whether the limiter of the shard has closed it
}

// receiptGroups groups a call's receipts by their shards, which are few.
type receiptGroups struct {
	list []*receiptGroup
	most int // upper bound for the number of receipts in one group
}

func (g *receiptGroups) add(t target, place int, arg string) {
	for _, group := range g.list {
		if group.target == t {
			group.places, group.args = append(group.places, place), append(group.args, arg)
			return
		}
	}
	group := &receiptGroup{target: t}
	// Most calls have receipts of one shard, so the first group gets all the memory.
	if len(g.list) == 0 {
		group.places, group.args = make([]int, 0, g.most), make([]string, 0, g.most)
	}
	group.places, group.args = append(group.places, place), append(group.args, arg)
	g.list = append(g.list, group)
}

// each calls f for every group and returns the call's results. A failed shard is reported at its
// own receipts if another shard has answered. Otherwise the whole call fails.
func (g *receiptGroups) each(results []error, f func(*receiptGroup) error) ([]error, error) {
	if len(g.list) == 0 {
		return results, nil
	}

	catalog.Parallel(g.list, func(one *receiptGroup) error {
		one.err = f(one)
		return nil
	})

	var failed failure
	answered := false
	for _, one := range g.list {
		if one.err != nil {
			failed.note(one.err)
		} else {
			answered = true
		}
	}

	switch {
	case failed.err == nil:
		return results, nil
	case !answered:
		return nil, failed.err
	}

	// The results are copied, because a call that continues without its caller may still write to
	// them.
	answers := make([]error, len(results))
	for _, one := range g.list {
		for _, place := range one.places {
			answers[place] = one.err
		}
	}

	for i := range answers {
		// Only answered receipts are read, for the same reason.
		if answers[i] == nil {
			answers[i] = results[i]
		}
	}

	return answers, nil
}

func (e *Jobs) settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	results := make([]error, len(outcomes))
	groups := receiptGroups{most: len(outcomes)}
	var numbers []byte // arguments of plain acks
	for i := range outcomes {
		o := &outcomes[i]
		if results[i] = contract.ValidateSettle(o); results[i] != nil {
			continue
		}
		// The receipt can be parsed, because the validation has checked its form.
		p, _ := contract.ParseReceipt(o.Receipt)
		var arg string
		ref := duly.QueueRef{Namespace: contract.NamespaceOr(namespace), Name: p.Queue}
		if ref.IsGroup() {
			known := false
			if arg, known = packMessage(ref, o, &p); !known {
				results[i] = duly.ErrLeaseLost
				continue
			}
			// A plain ack is the usual outcome, and its number is enough.
		} else if isPlainAck(o, &p) {
			if numbers == nil {
				// The capacity suffices for all, because strings point into the buffer.
				numbers = make([]byte, 0, codec.NumberSize*len(outcomes))
			}
			numbers = append(numbers, p.Number[:]...)
			arg = rueidis.BinaryString(numbers[len(numbers)-codec.NumberSize:])
		} else {
			arg = packOutcome(o, &p)
		}
		groups.add(target{ref, p.Shard}, i, arg)
	}

	results, err := groups.each(results, func(g *receiptGroup) error { return e.settleGroup(ctx, g, results) })
	e.closeOthers(ctx, &groups, outcomes, results)
	return results, err
}

// closeOthers closes the other shards of each queue that an outcome or the limiter has closed. A lost
// call is not repeated: such a shard learns from its own deliveries.
func (e *Jobs) closeOthers(
	ctx context.Context, groups *receiptGroups, outcomes []duly.SettleRequest, results []error,
) {
	for _, g := range groups.list {
		closes := slices.ContainsFunc(g.places, func(i int) bool {
			return outcomes[i].Slow != nil && *outcomes[i].Slow > 0 && i < len(results) && results[i] == nil
		})
		// Without an answer, the sender may still write to the group.
		if closes || g.err == nil && g.closed {
			e.closeOtherShards(ctx, g.target)
		}
	}
}

// closeTimeout bounds how long an unreachable shard delays the answer to a settle.
const closeTimeout = time.Second

// closeOtherShards closes the shards of a queue beside the one that is closed.
func (e *Jobs) closeOtherShards(ctx context.Context, closed target) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()

	// The settle has succeeded, so an error here is not its error.
	_ = e.With(ctx, closed.ref, func(q *catalog.Queue) error {
		if q == nil || len(q.Shards) == 1 {
			return nil
		}
		return e.CloseOthers(ctx, q, closed.shard)
	})
}

// isPlainAck reports whether an outcome is the ack of a first delivery without a result.
func isPlainAck(o *duly.SettleRequest, p *contract.ReceiptParts) bool {
	return o.As == duly.Ack && p.Delivery == 1 && len(o.Result) == 0
}

// packOutcome packs any other outcome as the script reads it.
func packOutcome(o *duly.SettleRequest, p *contract.ReceiptParts) string {
	w := codec.Packer(p.Number[:])
	w.Array(6 + messages.SlowParts(o))
	w.Text(o.As.String())
	w.Integer(int64(p.Delivery))
	delay := int64(duly.None)
	if o.Delay != nil {
		delay = codec.Micros(*o.Delay)
	}
	w.Integer(delay)
	w.Text(contract.CutError(o.Error))
	w.Text(string(o.Result))
	w.Text(p.Number.String())
	messages.PackSlow(&w, o)
	return string(w)
}

// packMessage packs an outcome of a group for its sender. It returns false if the receipt can't
// be current.
func packMessage(ref duly.QueueRef, o *duly.SettleRequest, p *contract.ReceiptParts) (arg string, ok bool) {
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

func (e *Jobs) settleGroup(ctx context.Context, g *receiptGroup, results []error) error {
	return e.withReceipts(ctx, g, results, func(q *catalog.Queue, s *catalog.Shard) error {
		j := newBatched(len(g.args))
		j.Args = append(j.Args, g.args...)
		j.Apply = func(r BatchReply) {
			g.closed = r.closed
			for _, i := range r.Lost {
				results[g.places[i]] = duly.ErrLeaseLost
			}

			// The change is stored but not confirmed, so the caller gets the error.
			if r.durable != nil {
				for _, place := range g.places {
					if results[place] == nil {
						results[place] = r.durable
					}
				}
			}
		}

		return join(ctx, &e.Batchers(q, s).Settle, j)
	})
}

// withReceipts calls f with the shard of receipts. If there is no such shard, or a topic has the
// name now, the receipts are lost.
func (e *Jobs) withReceipts(ctx context.Context, g *receiptGroup, results []error,
	f func(q *catalog.Queue, s *catalog.Shard) error) error {
	err := e.With(ctx, g.ref, func(q *catalog.Queue) error {
		s := q.Shard(g.shard)
		if s == nil {
			g.lost(results)
			return nil
		}
		return f(q, s)
	})
	if duly.CodeOf(err) == duly.CodeConflict {
		g.lost(results)
		return nil
	}
	return err
}

func (g *receiptGroup) lost(results []error) {
	for _, place := range g.places {
		results[place] = duly.ErrLeaseLost
	}
}

// sendSettle returns the sender of batched settles.
func (e *Jobs) sendSettle(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		r, durable, err := e.Write(ctx, q, s, store.ScriptSettle, e.batchArgs(q, calls, s.Limits), false)
		if err != nil {
			return err
		}
		readLost(calls, r.Rest, durable, r.ClosedByLimiter)
		return nil
	}
}

// readLost gives each caller the indexes of its lost items. The script's answer has them in
// order.
func readLost(calls []*Batched, places []rueidis.RedisMessage, durable error, closed bool) {
	lost := make([]int, len(places))
	for i := range places {
		lost[i] = int(codec.Integer(&places[i])) - 1
	}
	shareLost(calls, BatchReply{Lost: lost, durable: durable, closed: closed})
}

// shareLost gives each caller its lost items. The indexes into the batch count from 0 and are in
// order. Each caller gets a part of the slices, with its own indexes. If the limiter has closed the
// shard, the first caller closes the others.
func shareLost(calls []*Batched, all BatchReply) {
	from := 0
	for i, c := range calls {
		n := 0
		for n < len(all.Lost) && all.Lost[n] < from+c.Items {
			// The slice is reused: each index is changed once, by its owner.
			all.Lost[n] -= from
			n++
		}

		part := all
		part.Lost, part.closed = all.Lost[:n], all.closed && i == 0
		if all.states != nil {
			part.states, all.states = all.states[:n], all.states[n:]
		}
		c.Apply(part)
		all.Lost, from = all.Lost[n:], from+c.Items
	}
}

// Extend implements duly.Engine.
func (e *Jobs) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error,
	error) {
	if err := contract.ValidateLease(lease); err != nil {
		return nil, err
	}
	if err := e.checkReceipts(ctx, namespace, len(receipts)); err != nil {
		return nil, err
	}
	results := make([]error, len(receipts))
	groups := receiptGroups{most: len(receipts)}
	for i, r := range receipts {
		if results[i] = contract.ValidateReceipt(r); results[i] != nil {
			continue
		}
		p, _ := contract.ParseReceipt(r)
		ref := duly.QueueRef{Namespace: contract.NamespaceOr(namespace), Name: p.Queue}
		arg := string(p.Number[:]) + strconv.FormatUint(p.Delivery, 10)
		if topic, _, ok := ref.Group(); ok {
			h, known := messages.HeldOf(topic, &p)
			if arg = h.String(); !known {
				results[i] = duly.ErrLeaseLost
				continue
			}
		}
		groups.add(target{ref, p.Shard}, i, arg)
	}
	return groups.each(results, func(g *receiptGroup) error { return e.extendGroup(ctx, g, lease, results) })
}

func (e *Jobs) extendGroup(ctx context.Context, g *receiptGroup, lease time.Duration, results []error) error {
	return e.withReceipts(ctx, g, results, func(q *catalog.Queue, s *catalog.Shard) error {
		if q.View != nil {
			return e.extendMessages(ctx, q, s, g, lease, results)
		}
		args := append([]string{s.Limits, strconv.FormatInt(codec.Micros(lease), 10)}, g.args...)
		r, err := e.Call(ctx, q, s, store.ScriptExtend, args...)
		if err != nil {
			return err
		}
		for i := range r.Rest {
			results[g.places[codec.Integer(&r.Rest[i])-1]] = duly.ErrLeaseLost
		}
		return nil
	})
}

// extendMessages extends leases in a shard of a group.
func (e *Jobs) extendMessages(
	ctx context.Context, q *catalog.Queue, s *catalog.Shard, g *receiptGroup, lease time.Duration, results []error,
) error {
	lost := func(i int) { results[g.places[i]] = duly.ErrLeaseLost }
	var twice []int // repeated receipts, which get the answer of their first occurrence
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
