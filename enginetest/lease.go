package enginetest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func leaseTests() []test {
	return []test{
		{"ReceiptBelongsToOneDelivery", []string{"C1.6", "C1.7"}, Options{}, leaseReceipts},
		{"IsNeverReclaimedEarly", []string{"C1.8", "C1.9", "C3.9"}, Options{}, leaseNotSooner},
		{"IsValidUntilItIsReclaimed", []string{"C1.9"}, Options{}, leaseLateAck},
		{"OfReserveOverridesTheJobs", []string{"C2.27"}, Options{}, leaseOfReserve},
		{"DefaultsToTheJobsLease", []string{"C2.26", "C2.27"}, Options{OneShard: true}, leaseOfJob},
		{"IsExtendedFromNow", []string{"C4.26", "C1.8"}, Options{}, leaseExtended},
		{"ExtensionDefaultsToTheJobsLease", []string{"C4.26"}, Options{}, leaseExtendedByDefault},
		{"ExtensionOfAPlainJobDefaultsToThirtySeconds", []string{"C4.26"}, Options{}, leaseOfPlainJobExtended},
		{"CanBeExtendedUntilItIsReclaimed", []string{"C1.9", "C4.26"}, Options{}, leaseExtendedLate},
		{"StalledJobGoesBehindReadyJobs", []string{"C4.34", "C3.9"}, Options{OneShard: true}, leaseStallGoesBehind},
		{"StallUsesNoTry", []string{"C2.18"}, Options{}, leaseStallUsesNoTry},
		{"JobIsDeadAfterMaxStallsAndOneMore", []string{"C2.18", "C4.32", "C2.17"}, Options{}, leaseTooManyStalls},
		{"StallCountsAsAFailureWithoutAStallLimit", []string{"C2.19", "C4.32"}, Options{}, leaseStallsAsTries},
		{"DeliveriesAreBoundedByTriesAndStalls", []string{"C2.21"}, Options{}, leaseDeliveriesBounded},
		{"ThatIsExtendedInTimeIsNeverReclaimed", []string{"C4.26", "C1.8", "C3.18"}, Options{}, leaseHeartbeat},
		{"EveryStallIsCountedOnce", []string{"C3.9", "C4.58"}, Options{}, leaseStallsCounted},
		{"EndInOrderWithoutAStep", []string{"C4.74"}, Options{Own: true}, leasesEndAlone},
		{"ThatEndTogetherAreReclaimedTogether", []string{"C4.73", "C4.74"}, Options{Own: true, OneShard: true},
			leasesEndTogether},
	}
}

func leaseReceipts(s *scene) {
	s.push(duly.Job{ID: "x"})
	first := s.take()
	s.release(first)
	second := s.take()

	// The first receipt is no longer valid, although the job is leased again.
	if first.Receipt == second.Receipt {
		s.Errorf("two deliveries have the receipt %q, want different receipts", first.Receipt)
	}
	s.lost("ack by the receipt of the delivery that has ended",
		s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Ack}))
	s.is("x", duly.StateLeased)
	s.ack(second)
}

func leaseNotSooner(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	d := s.take()
	sameTime(s, "the lease's end", d.LeaseEnd, s.now().Add(time.Minute))
	sameTime(s, "the lease's end by get", s.get("x").LeaseEnd, d.LeaseEnd)
	// One millisecond before the end of the lease.
	s.Advance(time.Minute - time.Millisecond)
	s.step()
	s.nothing("the lease has a millisecond to go")
	s.is("x", duly.StateLeased)
	s.Advance(2 * time.Millisecond)
	// Get still returns leased, until a call reclaims the job.
	s.is("x", duly.StateLeased)
	same(s, "stalls", s.take().Stalls, 1)
}

func leaseLateAck(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Second})
	d := s.take()
	// Nothing reclaims the job, so the late ack succeeds.
	s.Advance(time.Hour)
	s.ack(d)
	s.gone("x")
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

func leaseOfReserve(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 1, Lease: 2 * time.Second})
	s.must("reserve", err)
	sameTime(s, "the lease's end", ds[0].LeaseEnd, s.now().Add(2*time.Second))
	same(s, "the job's own lease", ds[0].Lease, time.Minute)

	s.Advance(2*time.Second - time.Millisecond)
	s.nothing("it is leased")
	s.Advance(2 * time.Millisecond)
	// The next Reserve sets no lease, so the job's own applies.
	d := s.take()
	sameTime(s, "the next lease's end", d.LeaseEnd, s.now().Add(time.Minute))
}

func leaseOfJob(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Lease: 7 * time.Second}})
	s.pushAll(duly.Job{}, duly.Job{Lease: duly.MinLease}, duly.Job{Lease: duly.MaxLease})
	for _, want := range []time.Duration{7 * time.Second, duly.MinLease, duly.MaxLease} {
		sameTime(s, "the lease's end", s.take().LeaseEnd, s.now().Add(want))
	}
}

func leaseExtended(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	d := s.take()
	// The extension counts from now, not from the end of the lease.
	s.Advance(50 * time.Second)
	s.must("extend", s.extend(d.Receipt, 2*time.Minute))
	sameTime(s, "the lease's end", s.get("x").LeaseEnd, s.now().Add(2*time.Minute))
	s.Advance(2*time.Minute - time.Millisecond)
	s.nothing("the lease was extended")
	// An extension does not change the receipt.
	s.ack(d)
}

func leaseExtendedByDefault(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 1, Lease: time.Second})
	s.must("reserve", err)
	// Without a duration the job's own lease applies, not that of the Reserve.
	s.must("extend", s.extend(ds[0].Receipt, 0))
	sameTime(s, "the lease's end", s.get("x").LeaseEnd, s.now().Add(time.Minute))
	s.Advance(time.Minute + time.Millisecond)
	same(s, "stalls", s.take().Stalls, 1)
}

func leaseOfPlainJobExtended(s *scene) {
	id := s.push(duly.Job{}) // without an option: not even an ID of its own
	d := s.take()
	s.Advance(10 * time.Second)
	s.must("extend", s.extend(d.Receipt, 0))
	sameTime(s, "the lease's end", s.get(id).LeaseEnd, s.now().Add(duly.DefaultLease))
	s.ack(d)
}

func leaseExtendedLate(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Second})
	d := s.take()
	// The lease is over but was not taken back, so it can still be extended.
	s.Advance(time.Hour)
	s.must("extend", s.extend(d.Receipt, time.Minute))
	s.nothing("the lease was extended before it was taken back")
	s.Advance(time.Hour)
	s.step()
	s.lost("extend of a lease that was taken back", s.extend(d.Receipt, time.Minute))
}

func leaseStallGoesBehind(s *scene) {
	s.push(duly.Job{ID: "stalled", Lease: time.Minute, Backoff: "fixed:1h"})
	s.take()
	s.Advance(30 * time.Second)
	s.push(duly.Job{ID: "ready"})
	s.Advance(31 * time.Second)
	// A stalled job is ready at once: the backoff applies to failures only.
	s.step()
	s.sizes(duly.Sizes{Ready: 2})
	sameTime(s, "its due", s.get("stalled").Due, s.now())
	s.takes("ready", "stalled")
}

func leaseStallUsesNoTry(s *scene) {
	s.push(duly.Job{ID: "x", Tries: 1})
	s.stall(s.take())
	d := s.take()
	s.counts(d, 1, 0, 1)
	// The stall has not used the only try. The failure does.
	s.nack(d, "no")
	s.is("x", duly.StateDead)
}

func leaseTooManyStalls(s *scene) {
	s.push(duly.Job{ID: "x", MaxStalls: 2})
	for range 3 {
		s.stall(s.take())
	}

	info := s.get("x")
	same(s, "its state", info.State, duly.StateDead)
	same(s, "its stalls", info.Stalls, 3)
	same(s, "its failures", info.Failures, 0)
	same(s, "its last error", info.LastError, contract.StallReason(3))
	sameTime(s, "its end", info.FinishedAt, s.now())
	s.counted(duly.Counters{Pushed: 1, Delivered: 3, Stalled: 3, Dead: 1})
}

func leaseStallsAsTries(s *scene) {
	s.push(duly.Job{ID: "x", MaxStalls: duly.None, Tries: 3, Backoff: "fixed:0s"})
	s.stall(s.take())
	// One failure and two stalls use up the three tries.
	s.nack(s.take(), "no")
	s.is("x", duly.StateReady)
	s.stall(s.take())
	s.is("x", duly.StateDead)
	s.counted(duly.Counters{Pushed: 1, Delivered: 3, Failed: 1, Stalled: 2, Dead: 1})
}

func leaseDeliveriesBounded(s *scene) {
	const tries, stalls = 4, 3
	s.push(duly.Job{ID: "x", Tries: tries, MaxStalls: stalls, Backoff: "fixed:0s"})
	deliveries := 0
	// The job stalls as often as allowed and then fails until it is dead. Releases do not count.
	for i := 0; s.get("x").State == duly.StateReady; i++ {
		d := s.take()
		switch {
		case i == 0:
			s.release(d)
			continue
		case d.Stalls < stalls:
			s.stall(d)
		default:
			s.nack(d, "no")
		}
		deliveries++
	}
	same(s, "the deliveries", deliveries, tries+stalls)
	s.is("x", duly.StateDead)
}

// leaseHeartbeat extends a lease of 30 s for half an hour. The queue is stepped all the time.
func leaseHeartbeat(s *scene) {
	s.push(duly.Job{ID: "x", Lease: 30 * time.Second, Tries: 1, MaxStalls: 1})
	d := s.take()
	for range 180 {
		s.Clock.Advance(10 * time.Second)
		s.step()
		s.nothing("the lease is extended every ten seconds")
		s.must("extend", s.extend(d.Receipt, 30*time.Second))
	}
	s.ack(d)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

func leaseStallsCounted(s *scene) {
	jobs := numbered(50, "j")
	for i := range jobs {
		jobs[i].Lease = time.Second
	}
	s.pushAll(jobs...)
	s.reserve(50)
	s.Advance(2 * time.Second)
	// Repeated steps must not count a stall twice.
	s.step()
	s.step()
	s.must("sweep", s.Maintainer.Sweep(s.ctx))
	s.counted(duly.Counters{Pushed: 50, Delivered: 50, Stalled: 50})
	s.sizes(duly.Sizes{Ready: 50})
	same(s, "the jobs delivered again", len(s.takeAll()), 50)
}

// leasesEndAlone leaves two leases to the engine's own timers. Each lease is taken back at its end,
// whichever began first.
func leasesEndAlone(s *scene) {
	const short, long = 10 * time.Second, time.Minute
	for _, leases := range [][]time.Duration{{short, long}, {long, short}} {
		n := s.on("first-" + leases[0].String())
		for _, lease := range leases {
			n.push(duly.Job{Lease: lease})
			n.take()
		}

		n.Advance(short - time.Millisecond)
		// No step happens here: only the engine's timers reclaim the leases.
		same(n, "sizes before the first end", n.stats().Sizes, duly.Sizes{Leased: 2})
		n.Advance(time.Millisecond)
		same(n, "sizes at the first end", n.stats().Sizes, duly.Sizes{Ready: 1, Leased: 1})
		n.Advance(long - short)
		same(n, "sizes at the last end", n.stats().Sizes, duly.Sizes{Ready: 2})
	}
}

// leasesEndTogether lets more leases end at one time than one step reclaims.
func leasesEndTogether(s *scene) {
	const many = 3000
	for range many / duly.MaxBatch {
		s.pushAll(make([]duly.Job, duly.MaxBatch)...)
		s.reserve(duly.MaxBatch)
	}

	s.Advance(duly.DefaultLease)
	same(s, "sizes at the moment of the end", s.stats().Sizes, duly.Sizes{Ready: many})
}
