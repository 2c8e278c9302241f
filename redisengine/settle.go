package redisengine

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// Settle implements duly.Engine.
func (e *Engine) Settle(ctx context.Context, namespace string, outcomes []duly.Outcome) ([]error, error) {
	if err := e.receipts(ctx, namespace, len(outcomes)); err != nil {
		return nil, err
	}
	return e.settle(ctx, namespace, outcomes)
}

// receipts begins an operation on a batch of receipts.
func (e *Engine) receipts(ctx context.Context, namespace string, items int) error {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := duly.CheckBatch(items, 0); err != nil {
		return err
	}
	return e.alive(ctx)
}

// target is where receipts of a call belong.
type target struct {
	ref   duly.QueueRef
	shard int
}

// receiptGroup is the places of a call's receipts of one shard, with what the
// script is told of each.
type receiptGroup struct {
	target
	places []int
	args   []string
	err    error // why they are not answered
}

// receiptGroups are a call's receipts by their shards, which are few.
type receiptGroups struct {
	list []*receiptGroup
	most int // receipts that one of them may get
}

func (g *receiptGroups) add(t target, place int, arg string) {
	for _, group := range g.list {
		if group.target == t {
			group.places, group.args = append(group.places, place), append(group.args, arg)
			return
		}
	}
	group := &receiptGroup{target: t}
	if len(g.list) == 0 { // most calls have one shard's
		group.places, group.args = make([]int, 0, g.most), make([]string, 0, g.most)
	}
	group.places, group.args = append(group.places, place), append(group.args, arg)
	g.list = append(g.list, group)
}

// each does something with every group, and tells the call's answer. A shard that
// failed says so at its own receipts if another has answered, else the call says
// it for all of them.
func (g *receiptGroups) each(results []error, f func(*receiptGroup) error) ([]error, error) {
	if len(g.list) == 0 {
		return results, nil
	}
	sideBySide(g.list, func(one *receiptGroup) error {
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
	told := make([]error, len(results))
	for _, one := range g.list {
		for _, place := range one.places {
			told[place] = one.err
		}
	}
	for i := range told {
		if told[i] == nil { // else a call that goes on without its caller may still write there
			told[i] = results[i]
		}
	}
	return told, nil
}

func (e *Engine) settle(ctx context.Context, namespace string, outcomes []duly.Outcome) ([]error, error) {
	results := make([]error, len(outcomes))
	groups := receiptGroups{most: len(outcomes)}
	var numbers []byte // of acks that say no more
	for i := range outcomes {
		o := &outcomes[i]
		if results[i] = o.Validate(); results[i] != nil {
			continue
		}
		p, _ := o.Receipt.Parts()
		var arg string
		if plainAck(o, &p) {
			if numbers == nil {
				numbers = make([]byte, 0, numberSize*len(outcomes)) // room for all: what was taken from it stays in place
			}
			numbers = append(numbers, p.Number[:]...)
			arg = rueidis.BinaryString(numbers[len(numbers)-numberSize:])
		} else {
			arg = packOutcome(o, &p)
		}
		groups.add(target{duly.QueueRef{Namespace: duly.NamespaceOr(namespace), Name: p.Queue}, p.Shard}, i, arg)
	}
	return groups.each(results, func(g *receiptGroup) error { return e.settleGroup(ctx, g, results) })
}

// numberSize is the length of a job's number; an outcome that says no more is
// an ack of a first delivery.
const numberSize = len(duly.Number{})

// plainAck tells of an ack of a first delivery without a result.
func plainAck(o *duly.Outcome, p *duly.ReceiptParts) bool {
	return o.As == duly.Ack && p.Delivery == 1 && len(o.Result) == 0
}

// packOutcome is any other outcome as the script reads it.
func packOutcome(o *duly.Outcome, p *duly.ReceiptParts) string {
	w := packer(p.Number[:])
	w.array(6)
	w.text(o.As.String())
	w.integer(int64(p.Delivery))
	delay := int64(duly.None)
	if o.Delay != nil {
		delay = micros(*o.Delay)
	}
	w.integer(delay)
	w.text(duly.CutError(o.Error))
	w.text(string(o.Result))
	w.text(p.Number.String())
	return string(w)
}

func (e *Engine) settleGroup(ctx context.Context, g *receiptGroup, results []error) error {
	return e.with(ctx, g.ref, func(q *queue) error {
		s := q.shard(g.shard)
		if s == nil {
			g.lost(results)
			return nil
		}
		j := newBatched(len(g.args))
		j.args = append(j.args, g.args...)
		j.answered = func(r batchReply) {
			for _, i := range r.lost {
				results[g.places[i]] = duly.ErrLeaseLost
			}
			if r.durable != nil {
				for _, place := range g.places {
					if results[place] == nil {
						results[place] = r.durable
					}
				}
			}
		}
		return join(ctx, &e.gear(q, s).settle, j)
	})
}

// shard is a shard by its number, nil if the queue has none such.
func (q *queue) shard(i int) *shard {
	if q == nil || i >= len(q.shards) {
		return nil
	}
	return q.shards[i]
}

func (g *receiptGroup) lost(results []error) {
	for _, place := range g.places {
		results[place] = duly.ErrLeaseLost
	}
}

// sendSettle runs the joint settle of many callers.
func (e *Engine) sendSettle(q *queue, s *shard) func(context.Context, []*batched) error {
	return func(ctx context.Context, calls []*batched) error {
		r, durable, err := e.write(ctx, q, s, scriptSettle, e.batchArgs(q, calls, s.limits), false)
		if err != nil {
			return err
		}
		answerLost(calls, r.rest, durable)
		return nil
	}
}

// answerLost tells each caller which of its items are among the places that a
// script has answered, all of them in their order.
func answerLost(calls []*batched, places []rueidis.RedisMessage, durable error) {
	lost := make([]int, len(places))
	for i := range places {
		lost[i] = int(integer(&places[i])) - 1
	}
	from := 0
	for _, c := range calls {
		n := 0
		for n < len(lost) && lost[n] < from+c.Items {
			lost[n] -= from
			n++
		}
		c.answered(batchReply{lost: lost[:n], durable: durable})
		lost, from = lost[n:], from+c.Items
	}
}

// Extend implements duly.Engine.
func (e *Engine) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	if err := duly.ValidateLease(lease); err != nil {
		return nil, err
	}
	if err := e.receipts(ctx, namespace, len(receipts)); err != nil {
		return nil, err
	}
	results := make([]error, len(receipts))
	groups := receiptGroups{most: len(receipts)}
	for i, r := range receipts {
		if results[i] = r.Validate(); results[i] != nil {
			continue
		}
		p, _ := r.Parts()
		arg := string(p.Number[:]) + strconv.FormatUint(p.Delivery, 10)
		groups.add(target{duly.QueueRef{Namespace: duly.NamespaceOr(namespace), Name: p.Queue}, p.Shard}, i, arg)
	}
	return groups.each(results, func(g *receiptGroup) error { return e.extendGroup(ctx, g, lease, results) })
}

func (e *Engine) extendGroup(ctx context.Context, g *receiptGroup, lease time.Duration, results []error) error {
	return e.with(ctx, g.ref, func(q *queue) error {
		s := q.shard(g.shard)
		if s == nil {
			g.lost(results)
			return nil
		}
		args := append([]string{s.limits, strconv.FormatInt(micros(lease), 10)}, g.args...)
		r, err := e.call(ctx, q, s, scriptExtend, args...)
		if err != nil {
			return err
		}
		for i := range r.rest {
			results[g.places[integer(&r.rest[i])-1]] = duly.ErrLeaseLost
		}
		return nil
	})
}
