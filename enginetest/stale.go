package enginetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func staleTests() []test {
	tests := []test{
		{"OneOfFiftyConcurrentAcksSucceeds", []string{"C4.3", "C4.36", "C3.11"}, Options{}, staleFiftyAcks},
		{"MalformedReceiptIsInvalidAndForgedReceiptIsLost", []string{"C4.36", "C1.6"}, Options{}, staleForged},
		{"MixedReceiptOfTwoJobsIsRefused", []string{"C4.37"}, Options{}, staleForeignJob},
		{"ReceiptOfAnotherNamespaceIsRefused", []string{"C4.37", "C1.6", "C1.1"}, Options{}, staleForeignNamespace},
		{"ReceiptStaysInvalidAfterReplaceAndRequeue", []string{"C1.7", "C4.39"}, Options{}, staleAfterReplace},
	}
	for _, life := range laterLives() {
		tests = append(tests, test{
			"ReceiptIsRefusedIfTheJobIs" + life.name, []string{"C1.7", "C3.11", "C3.13", "C3.18", "C4.36", "C4.39"}, Options{},
			func(s *scene) { staleSettles(s, life.begin) },
		})
	}
	return tests
}

// later is a change of a job after the delivery in question.
type later struct {
	name  string
	begin func(s *scene, d duly.Delivery)
}

func laterLives() []later {
	return []later{
		{"Reclaimed", func(s *scene, d duly.Delivery) { s.stall(d) }},
		{"RedeliveredAndRunning", func(s *scene, d duly.Delivery) { s.stall(d); s.take() }},
		{"Nacked", func(s *scene, d duly.Delivery) { s.nack(d, "no") }},
		{"Released", func(s *scene, d duly.Delivery) { s.release(d) }},
		{"ReleasedAndRunning", func(s *scene, d duly.Delivery) { s.release(d); s.take() }},
		{"Snoozed", func(s *scene, d duly.Delivery) { s.snooze(d, time.Hour) }},
		{"AckedByAnotherWorker", func(s *scene, d duly.Delivery) { s.stall(d); s.ack(s.take()) }},
		{"Buried", func(s *scene, d duly.Delivery) { s.bury(d, "no") }},
		{"DeadAfterItsTries", func(s *scene, d duly.Delivery) {
			s.nackFor(d, 0)
			s.nackFor(s.take(), 0)
		}},
		{"Requeued", func(s *scene, d duly.Delivery) { s.bury(d, "no"); s.requeue("x") }},
		{"RequeuedAndRunning", func(s *scene, d duly.Delivery) { s.bury(d, "no"); s.requeue("x"); s.take() }},
		{"DeletedAndPushedAgain", func(s *scene, d duly.Delivery) {
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "x"))
			s.push(duly.Job{ID: "x"})
		}},
		{"DeletedAndPushedAgainAndRunning", func(s *scene, d duly.Delivery) {
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "x"))
			s.push(duly.Job{ID: "x"})
			s.take()
		}},
		{"PurgedAndPushedAgainAndRunning", func(s *scene, d duly.Delivery) {
			_, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateLeased, 0)
			s.must("purge", err)
			s.push(duly.Job{ID: "x"})
			s.take()
		}},
		{"InADestroyedQueue", func(s *scene, d duly.Delivery) { s.must("destroy", s.Engine.Destroy(s.ctx, s.ref())) }},
		{"InAQueueThatWasRecreated", func(s *scene, d duly.Delivery) {
			s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
			s.push(duly.Job{ID: "x"})
			s.take()
		}},
	}
}

// staleSettles calls every operation with the receipt of a delivery that has ended. Each must be
// refused and change nothing.
func staleSettles(s *scene, begin func(s *scene, d duly.Delivery)) {
	s.push(duly.Job{ID: "x", Body: []byte("b"), Retain: time.Hour, Tries: 2, Backoff: "fixed:1m"})
	s.push(duly.Job{ID: "other", Delay: time.Hour})
	d := s.take()
	begin(s, d)

	zero := time.Duration(0)
	for _, o := range []duly.SettleRequest{
		{As: duly.Ack, Result: []byte("late")}, {As: duly.Nack, Error: "late"}, {As: duly.Nack, Delay: &zero},
		{As: duly.Release}, {As: duly.Release, Delay: &zero}, {As: duly.Bury, Error: "late"},
	} {
		o.Receipt = d.Receipt
		s.unchanged("a late "+o.As.String(), func() { s.lost("a late "+o.As.String(), s.settle(o)) })
	}
	s.unchanged("a late extend", func() { s.lost("a late extend", s.extend(d.Receipt, time.Hour)) })
}

func staleFiftyAcks(s *scene) {
	s.push(duly.Job{ID: "x", Retain: time.Hour})
	d := s.take()
	answers := make([]error, 50)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			// Each ack has a different result, which shows which ack has succeeded.
			errs, err := s.Engine.Settle(s.ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack,
				Result: []byte{byte(i)}}})
			if err == nil {
				err = errs[0]
			}
			answers[i] = err
		})
	}
	wg.Wait()

	winner := -1
	for i, err := range answers {
		if err == nil && winner < 0 {
			winner = i
			continue
		}
		s.lost("a second ack", err)
	}
	if winner < 0 {
		s.Fatal("all 50 acks failed, want one to succeed")
	}
	same(s, "the result", s.get("x").Result[0], byte(winner))
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

// forgeries returns texts that are not the receipt of the delivery. A string that can't be parsed
// is invalid, the others are lost.
func forgeries(r duly.Receipt) []duly.Receipt {
	text := string(r)
	out := []duly.Receipt{
		"", " ", ":", ":::", "x", "\x00", r + " ", " " + r, r + "0", r + ":", r + "\x00", r + r,
		duly.Receipt(strings.Repeat("A", 100_000)), duly.Receipt(strings.ToLower(text)),
		"jobs:0:7ZZZZZZZZZZZZZZZZZZZZZZZZZ:1",
		"\xff\xfe", "'; DROP TABLE jobs; --", "../../jobs",
	}
	// Tries every prefix of the receipt, and every receipt with one character replaced.
	for i := range text {
		out = append(out, duly.Receipt(text[:i]), duly.Receipt(text[:i]+"!"+text[i+1:]))
	}

	// These are receipts of the right format with one part changed.
	if p, ok := contract.ParseReceipt(r); ok {
		for _, change := range []func(p *contract.ReceiptParts){
			func(p *contract.ReceiptParts) { p.Delivery++ },
			func(p *contract.ReceiptParts) { p.Delivery += 1 << 32 },
			func(p *contract.ReceiptParts) { p.Delivery = 1<<63 - 1 },
			func(p *contract.ReceiptParts) { p.Shard++ },
			func(p *contract.ReceiptParts) { p.Number[15]++ },
			func(p *contract.ReceiptParts) { p.Number[0]++ },
			func(p *contract.ReceiptParts) { p.Number = duly.NewNumber() },
			func(p *contract.ReceiptParts) { p.Queue += "x" },
		} {
			forged := p
			change(&forged)
			out = append(out, forged.Receipt())
		}
	}
	return out
}

func staleForged(s *scene) {
	s.push(duly.Job{ID: "x"})
	d := s.take()
	s.unchanged("a forged receipt", func() {
		want := map[bool]string{}
		for _, r := range forgeries(d.Receipt) {
			// Some changes result in the receipt itself, which is skipped.
			if r == d.Receipt {
				continue
			}
			_, decoded := contract.ParseReceipt(r)
			err := s.settle(duly.SettleRequest{Receipt: r, As: duly.Ack})
			s.refusedReceipt(fmt.Sprintf("ack by %.60q", string(r)), err, decoded)
			s.refusedReceipt(fmt.Sprintf("extend by %.60q", string(r)), s.extend(r, time.Minute), decoded)
			if want[decoded] == "" && err != nil {
				want[decoded] = err.Error()
			}
			// All texts must be equal, because a difference would reveal something about other
			// jobs.
			if err != nil && err.Error() != want[decoded] {
				s.Errorf("ack by %.60q returns %q, want %q as for the other forged receipts", string(r), err, want[decoded])
			}
		}
	})
	s.ack(d)
}

func (s *scene) refusedReceipt(what string, err error, decoded bool) {
	s.Helper()
	if decoded {
		s.lost(what, err)
		return
	}
	s.names(what, err, duly.CodeInvalid, "receipt")
}

// staleForeignJob combines parts of the receipts of several jobs.
func staleForeignJob(s *scene) {
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c", Queue: "other"})
	a, b := s.take(), s.take()
	s.release(b)
	b = s.take() // uses the second delivery, so that the delivery numbers differ
	c := s.on("other").take()
	pa, ok1 := contract.ParseReceipt(a.Receipt)
	pb, ok2 := contract.ParseReceipt(b.Receipt)
	pc, ok3 := contract.ParseReceipt(c.Receipt)
	if !ok1 || !ok2 || !ok3 {
		s.Skip("this engine's receipts have another format")
	}

	s.unchanged("a receipt put together of two", func() {
		for _, forged := range []contract.ReceiptParts{
			{Queue: pa.Queue, Shard: pa.Shard, Number: pa.Number, Delivery: pb.Delivery},
			{Queue: pb.Queue, Shard: pb.Shard, Number: pb.Number, Delivery: pa.Delivery},
			{Queue: pc.Queue, Shard: pa.Shard, Number: pa.Number, Delivery: pa.Delivery},
			{Queue: pa.Queue, Shard: pc.Shard, Number: pc.Number, Delivery: pc.Delivery},
		} {
			s.lost("ack by it", s.settle(duly.SettleRequest{Receipt: forged.Receipt(), As: duly.Ack}))
		}
	})
	s.ack(a)
	s.ack(b)
	s.on("other").ack(c)
}

func staleForeignNamespace(s *scene) {
	a, b := s.in("a"), s.in("b")
	a.push(duly.Job{ID: "x"})
	b.push(duly.Job{ID: "x"})
	d := a.take()
	b.take()
	// Both namespaces have the same queue and job ID.
	b.unchanged("a receipt of another namespace", func() {
		b.lost("ack by it", b.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
		b.lost("extend by it", b.extend(d.Receipt, time.Hour))
	})
	s.lost("ack in the default namespace", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	a.ack(d)
}

// staleAfterReplace resets all of a job except its delivery number.
func staleAfterReplace(s *scene) {
	replace := duly.Merge{Key: "k", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "x", Merge: replace})
	first := s.take()
	s.release(first)
	s.merges(duly.Job{Merge: replace}, "x")
	second := s.take()
	s.lost("ack by the receipt of before", s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Ack}))
	s.bury(second, "no")
	s.requeue("x")
	third := s.take()
	for _, d := range []duly.Delivery{first, second} {
		s.lost("ack by a receipt of before", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	}
	s.ack(third)
}
