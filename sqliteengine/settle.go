package sqliteengine

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Settle implements duly.Engine.
func (e jobAPI) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.checkReceipts(ctx, namespace, len(outcomes)); err != nil {
		return nil, err
	}
	s := &settleCall{ref: duly.QueueRef{Namespace: contract.NamespaceOr(namespace)},
		outcomes: copyOutcomes(ctx, outcomes), results: make([]error, len(outcomes))}
	// Without this check, the call would run a transaction that changes nothing.
	if len(outcomes) == 0 {
		return s.results, nil
	}
	s.validate()
	if err := e.write(ctx, &op{Call: items(len(outcomes)), run: s.run, space: s.space()}); err != nil {
		return nil, err
	}
	return s.results, nil
}

// checkReceipts validates the arguments of a call with receipts.
func (e jobAPI) checkReceipts(ctx context.Context, namespace string, items int) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := contract.CheckBatch(items, 0); err != nil {
		return err
	}
	return e.checkOpen(ctx)
}

// settleCall is one Settle call.
type settleCall struct {
	ref      duly.QueueRef // its namespace
	outcomes []duly.SettleRequest
	parts    []contract.ReceiptParts
	invalid  []error         // errors of receipts that are known before any job is read
	topics   []duly.QueueRef // topics of groups whose deliveries have ended
	results  []error
}

func (s *settleCall) validate() {
	s.parts, s.invalid = make([]contract.ReceiptParts, len(s.outcomes)), make([]error, len(s.outcomes))
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if s.invalid[i] = contract.ValidateSettle(o); s.invalid[i] != nil {
			continue
		}
		// This engine has no shards, so a receipt with a shard is from another engine.
		if s.parts[i], _ = contract.ParseReceipt(o.Receipt); s.parts[i].Shard != 0 {
			s.invalid[i] = duly.ErrLeaseLost
		}
	}
}

// space returns the space class: an error text or a result is added to the store.
func (s *settleCall) space() spaceClass {
	for i := range s.outcomes {
		if o := &s.outcomes[i]; o.Error != "" || len(o.Result) > 0 {
			return spaceSome
		}
	}
	return spaceNone
}

// run settles in order. It may run more than once.
func (s *settleCall) run(t *tx) error {
	s.topics = s.topics[:0]
	for i := range s.outcomes {
		// An invalid receipt fails alone.
		if s.results[i] = s.invalid[i]; s.results[i] != nil {
			continue
		}
		done, err := s.settleOne(t, &s.parts[i], &s.outcomes[i])
		if err != nil {
			return err
		}
		// The job may have ended or been reserved again since the receipt was made.
		if !done {
			s.results[i] = duly.ErrLeaseLost
			continue
		}
		if err := s.trimFirst(t, s.parts[i].Queue); err != nil {
			return err
		}
	}

	return s.trim(t, s.topics)
}

// trimFirst trims a topic at the first ended delivery of its groups, because a bound may
// void later receipts of the same call.
func (s *settleCall) trimFirst(t *tx, queue string) error {
	topic, _, isGroup := duly.QueueRef{Namespace: s.ref.Namespace, Name: queue}.Group()
	if !isGroup || slices.Contains(s.topics, topic) {
		return nil
	}
	s.topics = append(s.topics, topic)
	if !t.voids(topic) {
		return nil
	}
	return s.trim(t, s.topics[len(s.topics)-1:])
}

// trim deletes the messages that no group needs any more.
func (s *settleCall) trim(t *tx, topics []duly.QueueRef) error {
	for _, ref := range topics {
		if topic := t.queue(ref); topic != nil && topic.kind == kindTopic {
			if _, err := topic.asTopic().trimLog(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleOne ends one delivery. It returns false if the receipt is not current.
func (s *settleCall) settleOne(t *tx, p *contract.ReceiptParts, o *duly.SettleRequest) (bool, error) {
	q := t.queue(duly.QueueRef{Namespace: s.ref.Namespace, Name: p.Queue})
	if q == nil {
		return false, nil
	}

	// One statement acks a plain job. It matches no other job. It saves a fifth of the processor
	// time of reserving and acking in batches.
	if o.As == duly.Ack {
		name := "ack_plain"
		if q.group != nil {
			name = "ack_pointer"
		}
		acked, err := t.stmt(name).Int(1, q.id).Blob(2, p.Number[:]).Int(3, int64(p.Delivery-1)).Run()
		if err != nil {
			return false, err
		}
		if acked == 1 {
			q.noteOutcome(p.Number, o, t.time)
			q.counters.Acked++
			q.sizes.Leased--
			// The acked message may have been the first message that the group held.
			if q.group != nil {
				q.group.stale = true
			}
			return true, nil
		}
	}

	j, err := q.current(t, p)
	if err != nil || j == nil {
		return false, err
	}
	if o.Slow != nil && q.group == nil { // the fence of a message is not a number of deliveries
		bounded := contract.BoundSlow(*o, p.Delivery, j.failures, j.stalls)
		o = &bounded
	}
	q.noteOutcome(p.Number, o, t.time)
	if err = j.settle(t, o); err == errGone {
		err = j.missOne(t)
	}
	return true, err
}

// Extend implements duly.Engine.
func (e jobAPI) Extend(ctx context.Context, namespace string, receipts []duly.Receipt,
	lease time.Duration) ([]error, error) {
	if err := contract.ValidateLease(lease); err != nil {
		return nil, err
	}
	if err := e.checkReceipts(ctx, namespace, len(receipts)); err != nil {
		return nil, err
	}
	x := &extendCall{namespace: contract.NamespaceOr(namespace), lease: lease, receipts: copyList(ctx, receipts),
		results: make([]error, len(receipts))}
	if len(receipts) == 0 {
		return x.results, nil
	}
	if err := e.write(ctx, &op{Call: items(len(receipts)), run: x.run}); err != nil {
		return nil, err
	}
	return x.results, nil
}

// extendCall is one Extend call.
type extendCall struct {
	namespace string
	lease     time.Duration
	receipts  []duly.Receipt
	results   []error
}

// run extends in order. It may run more than once.
func (x *extendCall) run(t *tx) error {
	for i, r := range x.receipts {
		if x.results[i] = contract.ValidateReceipt(r); x.results[i] != nil {
			continue
		}
		x.results[i] = duly.ErrLeaseLost
		p, _ := contract.ParseReceipt(r)
		if p.Shard != 0 {
			continue
		}
		q := t.queue(duly.QueueRef{Namespace: x.namespace, Name: p.Queue})
		if q == nil {
			continue
		}
		held, err := x.extend(t, q, &p)
		if err != nil {
			return err
		}
		if held {
			x.results[i] = nil
		}
	}

	return nil
}

// extend sets a new lease end. It returns false if the receipt is not current.
func (x *extendCall) extend(t *tx, q *queue, p *contract.ReceiptParts) (bool, error) {
	lease := x.lease
	// Without a lease in the call, the lease of the job applies, which only its row has.
	if lease == 0 {
		j, err := q.current(t, p)
		if err != nil || j == nil {
			return false, err
		}
		lease = j.Lease
	}

	end := clock.CeilMilli(t.time.Add(lease))
	s := t.stmt("extend_to").Int(1, q.id).Blob(2, p.Number[:]).Int(3, int64(p.Delivery-1)).Int(4, end)
	held, err := s.Run()
	if err != nil || held == 0 {
		return false, err
	}
	// The bound may keep the old lease end, which only costs an early check.
	lower(&q.earliest.leaseEnd, end)
	return true, nil
}
