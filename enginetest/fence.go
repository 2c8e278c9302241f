package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func fenceTests() []test {
	return []test{
		{"ReceiptHoldsShardNumberAndDelivery", []string{"C11.7", "C1.6"}, Options{}, fenceParts},
		{"MadeIDIsTheNumberOfItsFirstPushOnly", []string{"C11.8", "C11.9", "C11.10"}, Options{}, fenceNumbers},
		{"OwnIDGetsANewNumberPerPush", []string{"C11.8", "C11.10"}, Options{}, fenceOwnID},
		{"JobWithAnOwnIDIsNotFoundByItsNumber", []string{"C11.10", "C2.4"}, Options{}, fenceNumberIsNoID},
		{"DeliveryNumberRisesWithEveryDelivery", []string{"C11.11"}, Options{}, fenceCounts},
		{"DeliveryNumberNeverFalls", []string{"C11.12", "C1.7"}, Options{}, fenceNeverDown},
	}
}

// parts parses a receipt. Every engine uses the same format.
func (s *scene) parts(d duly.Delivery) contract.ReceiptParts {
	s.Helper()
	p, ok := contract.ParseReceipt(d.Receipt)
	if !ok {
		s.Fatalf("the receipt %q has no valid format", d.Receipt)
	}
	return p
}

func fenceParts(s *scene) {
	id := s.push(made(duly.Job{}))
	p := s.parts(s.take())
	same(s, "the queue", p.Queue, s.queue)
	same(s, "the shard", p.Shard, contract.ShardOf(id, s.config().Shards))
	same(s, "the number", p.Number.String(), id)
	same(s, "the delivery", p.Delivery, 1)
}

func fenceNumbers(s *scene) {
	j := made(duly.Job{})
	s.push(j)
	d := s.take()
	same(s, "the number of the first try", s.parts(d).Number.String(), j.ID)
	s.ack(d)

	j.Made = false // this is a repeat: the first push may have been stored and finished
	s.push(j)
	again := s.take()
	same(s, "the ID of the repeat", again.ID, j.ID)
	if s.parts(again).Number.String() == j.ID {
		s.Errorf("the repeated push has the number %s of the first one, want a new number", j.ID)
	}
	s.is(j.ID, duly.StateLeased)
	s.ack(again)
	s.gone(j.ID)

}

func fenceOwnID(s *scene) {
	seen := map[duly.Number]bool{}
	for range 5 {
		s.push(duly.Job{ID: "order-17"})
		d := s.take()
		n := s.parts(d).Number
		if seen[n] {
			s.Errorf("the number %s was given to two jobs, want a new number for each", n)
		}
		seen[n] = true
		s.ack(d)
	}

	// Numbers stay unique even after the queue is destroyed.
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.push(duly.Job{ID: "order-17"})
	if n := s.parts(s.take()).Number; seen[n] {
		s.Errorf("the number %s was given again after Destroy, want a new number", n)
	}
}

// fenceNumberIsNoID uses the number of a job with an own ID as if it were an ID. Only the ID
// finds the job.
func fenceNumberIsNoID(s *scene) {
	for _, isMade := range []bool{false, true} {
		n := s.on(fmt.Sprintf("made-%t", isMade))
		n.push(duly.Job{ID: "order-17"})
		d := n.take()
		id := n.parts(d).Number.String()
		n.snooze(d, time.Hour)

		n.gone(id)
		n.refused("delete by the number", n.Engine.Delete(n.ctx, n.ref(), id), duly.CodeNotFound)
		n.refused("promote by the number", n.Engine.Promote(n.ctx, n.ref(), id), duly.CodeNotFound)
		n.refused("update by the number", n.update(id, duly.Update{Tries: 2}), duly.CodeNotFound)

		// A second job may have the first job's number as its ID. Both live side by side.
		n.push(duly.Job{ID: id, Made: isMade})
		n.is(id, duly.StateReady)
		n.is("order-17", duly.StateDelayed)

		n.must("delete of the second job", n.Engine.Delete(n.ctx, n.ref(), id))
		n.gone(id)
		n.is("order-17", duly.StateDelayed)
	}
}

func fenceCounts(s *scene) {
	s.push(duly.Job{ID: "x", Backoff: "fixed:0s"})
	// Every way to end a delivery without ending the job.
	ends := []func(d duly.Delivery){
		func(d duly.Delivery) { s.nack(d, "no") }, s.release, s.stall,
		func(d duly.Delivery) { s.snooze(d, time.Second); s.Advance(time.Second) },
		func(d duly.Delivery) { s.bury(d, "no"); s.requeue("x") },
	}

	for i, end := range ends {
		d := s.take()
		same(s, "the delivery", s.parts(d).Delivery, uint64(i+1))
		end(d)
	}
	same(s, "the delivery", s.parts(s.take()).Delivery, uint64(len(ends)+1))
}

func fenceNeverDown(s *scene) {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "x", Merge: replace, Backoff: "fixed:0s"})
	last := uint64(0)
	// Every way to change a job between two deliveries, also with a clock that goes back.
	for _, change := range []func(d duly.Delivery){
		func(d duly.Delivery) { s.bury(d, "no"); s.requeue("x") },
		func(d duly.Delivery) {
			s.release(d)
			s.must("update", s.update("x", duly.Update{Tries: 3, Body: []byte("new"), Delay: ptr(time.Duration(0))}))
		},
		func(d duly.Delivery) { s.release(d); s.merges(duly.Job{Merge: replace}, "x") },
		func(d duly.Delivery) {
			s.snooze(d, time.Hour)
			s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "x"))
		},
		func(d duly.Delivery) { s.Clock.Step(-time.Hour); s.release(d); s.Clock.Step(time.Hour) },
	} {
		d := s.take()
		if n := s.parts(d).Delivery; n <= last {
			s.Errorf("delivery %d came after delivery %d, want increasing numbers", n, last)
		}
		last = s.parts(d).Delivery
		change(d)
	}
	same(s, "the last delivery", s.parts(s.take()).Delivery, last+1)
}
