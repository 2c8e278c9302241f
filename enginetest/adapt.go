package enginetest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/adaptive"
)

func adaptTests() []test {
	one := Options{OneShard: true}
	return []test{
		{"SettingIsStored", []string{"C18.19", "C18.21", "C18.23"}, one, adaptSetting},
		{"BadSettingsAreInvalid", []string{"C18.19", "C18.20"}, one, adaptInvalid},
		{"WithoutItNothingAdapts", []string{"C18.22"}, one, adaptOff},
		{"OverloadHalvesMaxLeased", []string{"C18.24", "C18.27", "C18.31", "C18.37"}, one, adaptMaxLeased},
		{"OverloadHalvesTheRate", []string{"C18.24", "C18.26"}, one, adaptRate},
		{"FactorStopsAtTheFloor", []string{"C18.25", "C18.37"}, one, adaptFloor},
		{"DecreasesAreASecondApart", []string{"C18.38", "C18.39"}, one, adaptApart},
		{"BlocksDecide", []string{"C18.29", "C18.30", "C18.33", "C18.34", "C18.35"}, one, adaptBlocks},
		{"NeutralOutcomesChangeNothing", []string{"C18.32"}, one, adaptNeutral},
		{"SuccessesRaiseTheFactor", []string{"C18.28", "C18.40", "C18.41", "C18.42", "C18.43", "C18.44", "C18.45", "C18.46"}, one,
			adaptRecovers},
		{"UnusedLimitRaisesNothing", []string{"C18.42", "C18.43"}, one, adaptUnused},
		{"TwentyFailuresStartProbing", []string{"C18.36", "C18.47"}, one, adaptStreak},
		{"ProbeIsOneDelivery", []string{"C18.48", "C18.49"}, one, adaptProbe},
		{"FailedProbesCloseForLonger", []string{"C18.50"}, one, adaptProbesFail},
		{"OtherEndsOfTheProbeCloseForAsLong", []string{"C18.51"}, one, adaptProbesEnd},
		{"OlderDeliveriesChangeNothing", []string{"C18.52"}, one, adaptOlder},
		{"ReopenEndsProbing", []string{"C18.12"}, one, adaptReopen},
		{"WaitSeesTheEndOfAProbeThatRanOut", []string{"C18.48", "C18.51"}, one, adaptProbeRunsOut},
		{"ReserveForgetsAClosingThatHasPassed", []string{"C18.6", "C18.51"}, one, adaptPassed},
		{"ProbeOfAGroupEndsWithItsMessage", []string{"C18.51"}, one, adaptGroup},
		{"EachChangeIsLogged", []string{"C18.57"}, one, adaptLogged},
		{"TokensFollowTheFactor", []string{"C4.119", "C18.24", "C18.26"}, one, tokensAdapted},
		{"TokensFollowTheFactorInProbing", []string{"C4.119", "C4.120"}, one, tokensInProbing},
		{"ExplainNamesTheProbe", []string{"C4.129", "C4.127"}, one, explainProbing},
		{"ProbingClosesTheOtherShards", []string{"C18.53", "C18.54"}, Options{}, adaptShards},
	}
}

// adapts reports whether the engines of the suite have adaptive limits.
func (s Suite) adapts(t *testing.T) (yes bool) {
	t.Run("Adapts", func(t *testing.T) {
		s.onEngine(t, func(ctx context.Context, h *Harness) { yes = adapts(ctx, h.Engine) })
	})
	return yes
}

// adapts reports whether an engine has adaptive limits.
func adapts(ctx context.Context, e duly.Engine) bool {
	o, ok := e.(interface {
		Configure(context.Context, duly.QueueRef, duly.QueueConfig) error
	})
	if !ok {
		return false
	}
	// The group does not exist, so an engine that has the limits changes nothing.
	patch := duly.QueueConfig{MaxLeased: 1, Adapt: duly.Adapt{Floor: 0.5}}
	err := o.Configure(ctx, duly.Q("nothing@nobody"), patch)
	return duly.CodeOf(err) == duly.CodeNotFound
}

// adaptive configures a queue with an adaptive limit.
func (s *scene) adaptive(floor float64, limits duly.QueueConfig) {
	s.Helper()
	limits.Adapt.Floor = floor
	s.configure(limits)
}

// factor compares the factor in the statistics.
func (s *scene) factor(why string, want float64) {
	s.Helper()
	if got := s.stats().Factor; math.Abs(got-want) > 1e-9 {
		s.Fatalf("%s: the factor is %v, want %v", why, got, want)
	}
}

// overload settles a delivery as an overload that closes nothing.
func (s *scene) overload(d duly.Delivery) {
	s.Helper()
	s.slow(d, 0, "429")
}

// fails reserves n jobs one after the other and settles each of them as a failure.
func (s *scene) fails(n int) {
	s.Helper()
	for range n {
		s.nackFor(s.take(), 0)
	}
	s.Quiet()
}

// works reserves n jobs one after the other and acknowledges them.
func (s *scene) works(n int) {
	s.Helper()
	for range n {
		s.ack(s.take())
	}
}

// probing makes the queue probe. The caller has configured it.
func (s *scene) probing() {
	s.Helper()
	s.fails(20)
	same(s, "the shards in probing", s.stats().Probing, 1)
}

// durable returns n jobs that survive any number of failures.
func durable(n int) []duly.Job {
	jobs := numbered(n, "j")
	for i := range jobs {
		jobs[i].Tries = duly.MaxTries
	}
	return jobs
}

func adaptSetting(s *scene) {
	same(s, "the floor of a new queue", s.config().Adapt.Floor, duly.None)
	s.adaptive(0.05, duly.QueueConfig{MaxLeased: 4})
	same(s, "the floor", s.config().Adapt.Floor, 0.05)
	s.configure(duly.QueueConfig{MaxJobs: 100})
	same(s, "the floor after another change", s.config().Adapt.Floor, 0.05)

	s.pushAll(numbered(3, "j")...)
	s.overload(s.take())
	s.factor("after an overload", 0.5)

	// Another queue has a limiter of its own, or none.
	other := s.on("other")
	same(s, "the floor of another queue", other.config().Adapt.Floor, duly.None)
	other.factor("of another queue", 0)
	other.adaptive(0.3, duly.QueueConfig{MaxLeased: 4})
	other.factor("of another queue with an adaptive limit", 1)
	s.factor("after the change of another queue", 0.5)
	s.configure(duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}})
	same(s, "the floor after its end", s.config().Adapt.Floor, duly.None)
	s.factor("without an adaptive limit", 0)
	same(s, "the leased jobs without an adaptive limit", len(s.takeAll()), 3)

	// A new adaptive limit must not remember the old one.
	s.adaptive(0.05, duly.QueueConfig{})
	s.factor("of a new adaptive limit", 1)
}

func adaptInvalid(s *scene) {
	operator := s.Engine
	for _, floor := range []float64{-2, 0.0009, 1.1, math.NaN(), math.Inf(1)} {
		err := operator.Configure(s.ctx, s.ref(), duly.QueueConfig{MaxLeased: 4, Adapt: duly.Adapt{Floor: floor}})
		s.names("a bad floor", err, duly.CodeInvalid, "adapt")
	}
	err := operator.Configure(s.ctx, s.ref(), duly.QueueConfig{Adapt: duly.Adapt{Floor: 0.1}})
	s.names("an adaptive limit without a limit", err, duly.CodeInvalid, "adapt")

	// The limit cannot be removed while the queue adapts it.
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 4})
	err = operator.Configure(s.ctx, s.ref(), duly.QueueConfig{MaxLeased: duly.None})
	s.names("an end of the only limit", err, duly.CodeInvalid, "adapt")
	same(s, "max leased", s.config().MaxLeased, 4)
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: 5}})
}

func adaptOff(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 4})
	s.pushAll(durable(4)...)
	s.fails(40)
	s.factor("without an adaptive limit", 0)
	same(s, "the shards in probing", s.stats().Probing, 0)
	same(s, "the leased jobs", len(s.takeAll()), 4)
}

func adaptMaxLeased(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 9})
	s.pushAll(numbered(20, "j")...)
	ds := s.takeAll()
	same(s, "the leased jobs", len(ds), 9)
	s.overload(ds[0])
	s.factor("after an overload", 0.5)

	// Eight jobs are leased, and half of nine is four. Leased jobs must continue.
	s.must("extend", s.extend(ds[8].Receipt, time.Minute))
	for _, d := range ds[1:5] {
		s.nothing("the new limit is in use")
		s.ack(d)
	}
	s.nothing("four jobs are leased")
	s.ack(ds[5])
	same(s, "the jobs below the new limit", len(s.takeAll()), 1)
}

func adaptRate(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{Rate: duly.Rate{PerSecond: 10, Burst: 10}})
	s.pushAll(numbered(40, "j")...)
	ds := s.takeAll()
	same(s, "the burst", len(ds), 10)

	// The bucket gets nine deliveries by the old rate, before the overload halves its size.
	s.Advance(900 * time.Millisecond)
	s.overload(ds[0])
	same(s, "the deliveries after the overload", len(s.takeAll()), 4)
	s.Advance(199 * time.Millisecond)
	s.nothing("a delivery needs 200 ms")
	s.Advance(time.Millisecond)
	same(s, "the deliveries after 200 ms", len(s.takeAll()), 1)
	s.Advance(time.Minute)
	same(s, "the halved burst", len(s.takeAll()), 5)
}

func adaptFloor(s *scene) {
	s.adaptive(0.3, duly.QueueConfig{MaxLeased: 10})
	s.pushAll(numbered(1, "j")...)
	for _, want := range []float64{0.5, 0.3, 0.3} {
		s.Advance(time.Minute)
		s.overload(s.take())
		s.factor("after an overload", want)
	}

	// A higher floor raises the factor.
	s.adaptive(0.4, duly.QueueConfig{})
	s.factor("after a higher floor", 0.4)
}

func adaptApart(s *scene) {
	s.adaptive(0.001, duly.QueueConfig{MaxLeased: 1000})
	s.pushAll(numbered(4, "j")...)
	for _, d := range s.takeAll() {
		s.overload(d)
	}
	s.factor("after four overloads at once", 0.5)
	s.Advance(999 * time.Millisecond)
	s.overload(s.take())
	s.factor("after less than a second", 0.5)
	s.Advance(time.Millisecond)
	s.overload(s.take())
	s.factor("after a second", 0.25)
}

func adaptBlocks(s *scene) {
	s.adaptive(0.001, duly.QueueConfig{MaxLeased: 1000})
	s.pushAll(durable(60)...)
	s.fails(10)
	s.works(10)
	s.factor("after a block with half failures", 1)
	s.fails(11)
	s.works(8)
	s.factor("before the end of a block", 1)
	s.works(1)
	s.factor("after a block with 11 failures of 20", 0.5)

	// An old block starts again.
	s.fails(19)
	s.Advance(time.Minute + time.Millisecond)
	s.works(1)
	s.factor("after an old block", 0.5)
}

func adaptNeutral(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(numbered(100, "j")...)
	for range 21 {
		s.bury(s.take(), "bad")
		s.release(s.take())
		d := s.take()
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), d.ID))
	}
	ds := s.takeAll()
	same(s, "whether enough leases run out", len(ds) > 20, true)
	s.stall(ds[0])
	s.step()
	s.factor("after neutral outcomes", 1)
	same(s, "the shards in probing", s.stats().Probing, 0)
}

// adaptRecovers compares the factor with that of the reference at each outcome.
func adaptRecovers(s *scene) {
	const leased = 10
	s.adaptive(0.01, duly.QueueConfig{MaxLeased: leased})
	s.pushAll(numbered(700, "j")...)
	ref, limits := adaptive.New(), adaptive.ConfigOf(s.config())

	// All allowed jobs are leased while each of them takes 100 ms.
	held, index := []duly.Delivery(nil), 0
	moment := func() adaptive.Moment { return adaptive.Moment{Now: s.now().UnixMilli(), Leased: len(held)} }
	fill := func() {
		for len(held) < ref.MaxLeased(limits) {
			d := s.take()
			ref.Deliver(limits, moment(), s.parts(d).Number)
			held = append(held, d)
		}
	}
	end := func(class adaptive.Class) {
		d := held[0]
		ref.Settle(limits, moment(), s.parts(d).Number, class)
		if held = held[1:]; class == adaptive.Overload {
			s.overload(d)
		} else {
			s.ack(d)
		}
		s.factor("after outcome "+time.Duration(index).String(), ref.Factor)
		index++
	}

	fill()
	for range 30 { // a good block, so the full limit is known to work
		s.Advance(10 * time.Millisecond)
		end(adaptive.Success)
		fill()
	}
	for range 3 {
		s.Advance(time.Second)
		end(adaptive.Overload)
	}
	same(s, "whether the overloads lower the factor", s.stats().Factor < 0.2, true)
	for len(held) > ref.MaxLeased(limits) {
		end(adaptive.Success)
	}
	for range 600 {
		fill()
		s.Advance(100 * time.Millisecond / time.Duration(len(held)))
		end(adaptive.Success)
	}
	same(s, "whether the factor has risen", s.stats().Factor > 0.9, true)
}

func adaptUnused(s *scene) {
	s.adaptive(0.01, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(numbered(200, "j")...)
	s.overload(s.take())
	s.factor("after an overload", 0.5)

	// Two jobs at a time are far below half of the limit.
	for range 90 {
		s.Advance(100 * time.Millisecond)
		s.works(2)
	}
	s.factor("while the limit is not used", 0.5)
}

func adaptStreak(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(2)...)
	s.fails(19)
	s.works(1)
	s.fails(19)
	same(s, "the shards in probing after 19 failures", s.stats().Probing, 0)
	s.fails(1)
	same(s, "the shards in probing after 20 failures", s.stats().Probing, 1)
	s.factor("in probing", 0.1)
	s.closedUntil("probing begins", s.now().Add(time.Second), adaptive.Reason)
}

func adaptProbe(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(20)...)
	s.probing()
	w := s.wait()
	s.Advance(999 * time.Millisecond)
	s.nothing("the queue is closed for 1 ms more")
	w.sleeps("the queue is closed for 1 ms more")
	s.Advance(time.Millisecond)
	w.woke("the probe may go")
	probe := s.take()
	s.nothing("the probe is leased")
	w = s.wait()
	s.Advance(10 * time.Second)
	w.sleeps("the probe is leased")

	s.ack(probe)
	w.woke("the probe was acknowledged")
	same(s, "the shards in probing", s.stats().Probing, 0)
	s.factor("after a good probe", 0.1)
	same(s, "the jobs at the floor", len(s.takeAll()), 10)
}

// probeEnds ends the next probe, and checks for how long the queue is then closed.
func (s *scene) probeEnds(how string, end func(d duly.Delivery), want time.Duration) {
	s.Helper()
	d := s.take()
	end(d)
	s.Quiet()
	s.step()
	s.closedUntil("after "+how, s.now().Add(want), adaptive.Reason)
	s.Advance(want)
}

func adaptProbesFail(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(2)...)
	s.probing()
	s.Advance(time.Second)
	for i, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		end := func(d duly.Delivery) { s.nackFor(d, 0) }
		if i%2 == 1 {
			end = s.overload
		}
		s.probeEnds("a failed probe", end, seconds*time.Second)
	}
}

func adaptProbesEnd(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(8)...)
	s.probing()
	s.Advance(time.Second)
	fail := func(d duly.Delivery) { s.nackFor(d, 0) }
	s.probeEnds("a failed probe", fail, time.Second)
	s.probeEnds("a failed probe", fail, 2*time.Second)

	s.probeEnds("a release", s.release, 2*time.Second)
	s.probeEnds("a bury", func(d duly.Delivery) { s.bury(d, "bad") }, 2*time.Second)
	s.probeEnds("a delete", func(d duly.Delivery) {
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), d.ID))
	}, 2*time.Second)

	// After a stall the closing begins at the end of the lease, whenever the engine notes it.
	probe := s.take()
	s.stall(probe)
	s.step()
	s.closedUntil("after a stall", probe.LeaseEnd.Add(2*time.Second), adaptive.Reason)
	s.Advance(2 * time.Second)
	s.probeEnds("a failed probe", fail, 4*time.Second)
}

func adaptOlder(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(10)...)
	older := s.reserve(3)
	s.probing()
	closed := s.now().Add(time.Second)
	s.ack(older[0])
	s.nackFor(older[1], 0)
	s.factor("in probing", 0.1)
	same(s, "the shards in probing", s.stats().Probing, 1)
	s.closedUntil("older deliveries end", closed, adaptive.Reason)

	// An older delivery must not end the probe either.
	s.Advance(time.Second)
	probe := s.take()
	s.ack(older[2])
	s.nothing("the probe is leased")
	s.ack(probe)
	same(s, "the shards in probing", s.stats().Probing, 0)
}

func adaptReopen(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(20)...)
	s.probing()
	s.configure(duly.QueueConfig{Reopen: true})
	same(s, "the shards in probing", s.stats().Probing, 0)
	s.closedUntil("reopened", time.Time{}, "")
	same(s, "the jobs at the floor", len(s.takeAll()), 10)
}

// adaptGroup ends the probe of a group by a Seek, and by a bound that drops its message.
func adaptGroup(s *scene) {
	if !s.hasTopics() {
		s.Skip("the engine has no topics")
	}
	s.configureTopic(duly.TopicConfig{MaxCount: 2, Keep: time.Hour, Overflow: duly.OverflowDrop})
	g := s.group("g")
	g.adaptive(0.1, duly.QueueConfig{MaxLeased: 100, Defaults: duly.Defaults{Tries: duly.MaxTries}})
	s.send("a", "b")
	g.probing()
	s.Advance(time.Second)
	g.probeEnds("a failed probe", func(d duly.Delivery) { g.nackFor(d, 0) }, time.Second)
	g.probeEnds("a seek", func(duly.Delivery) { g.seek(duly.FromStart) }, time.Second)

	g.take()
	s.send("c", "d") // the topic drops the message of the probe
	same(s, "whether the group is open", g.stats().Closing.Until.IsZero(), true)
	next := g.take()
	g.nothing("the next delivery is the probe")
	g.ack(next)
	same(s, "the shards in probing", g.stats().Probing, 0)
}

func adaptShards(s *scene) {
	if !s.Sharded {
		s.Skip("the engine keeps a queue in one shard")
	}
	s.configure(duly.QueueConfig{Shards: 4, MaxLeased: 400, Adapt: duly.Adapt{Floor: 0.5}})
	s.pushAll(durable(40)...)

	// One of four shards has 20 failures in a row at the latest after 77 of them.
	for n := 0; s.stats().Probing == 0; n++ {
		if n == 77 {
			s.Fatal("no shard is in probing after 77 failures")
		}
		s.fails(1)
	}
	st := s.stats()
	same(s, "the shards in probing", st.Probing, 1)
	s.factor("the lowest of the shards", 0.5)
	s.closedUntil("probing begins", s.now().Add(time.Second), adaptive.Reason)
	s.nothing("every shard is closed")
	s.Advance(time.Second)

	// The shard in probing delivers its probe, and the others deliver all of their jobs.
	ds := s.takeAll()
	same(s, "whether the other shards are open", len(ds) > 1 && len(ds) < 40, true)
}
