package redisengine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
)

// newLimitedGroup returns a group with an adaptive limit, and a topic of n messages.
func newLimitedGroup(t *testing.T, n int) *limited {
	l := newLimited(t)
	l.queue = "t@g"
	_, err := l.e.CreateGroup(t.Context(), l.ref(), duly.FromStart)
	must(t, err)
	must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{
		MaxLeased: 100, Adapt: duly.Adapt{Floor: 0.1},
		Defaults: duly.Defaults{Tries: duly.MaxTries, Backoff: "fixed:0s", Lease: time.Minute},
	}))
	var all []duly.Message
	for range n {
		all = append(all, duly.Message{Topic: "t", Body: []byte("m")})
	}
	_, err = l.e.Publish(t.Context(), all)
	must(t, err)
	return l
}

func (l *limited) groupKey(kind string) string { return l.prefix + ":{default/t/0}:@g:" + kind }

// C18.33: the outcomes of a call count in their order, although a call without a limiter sends its
// acks together.
func TestOutcomesOfAGroupCountInCallOrder(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ack     int // index of the ack among 21 outcomes
		probing int
	}{"AckBreaksTheStreak": {19, 0}, "AckComesTooLate": {20, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimitedGroup(t, 21)
			var outcomes []duly.SettleRequest
			for i, d := range l.takeAll() {
				as := duly.Nack
				if i == tt.ack {
					as = duly.Ack
				}
				outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: as})
			}
			// The first outcome of a receipt counts.
			outcomes = append(outcomes, outcomes[tt.ack])
			errs, err := l.e.Settle(t.Context(), "", outcomes)
			must(t, err)
			if len(errs) != 22 || errors.Join(errs[:21]...) != nil || !errors.Is(errs[21], duly.ErrLeaseLost) {
				t.Errorf("the outcomes are answered %v", errs)
			}
			if s := l.stats(); s.Probing != tt.probing || s.Counters.Acked != 1 || s.Counters.Failed != 20 {
				t.Errorf("the stats are %+v, want %d in probing", s, tt.probing)
			}
		})
	}
}

// C18.51: a probe of a group ends at the end of its lease, which an Extend moves. A probe is in a range
// if the group had not delivered the message before.
func TestProbeOfAGroupRunsOut(t *testing.T) {
	t.Parallel()
	for _, held := range []int{1, 20} { // messages that the group has taken before the probe
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			t.Parallel()
			l := newLimitedGroup(t, 30)
			var ds []duly.Delivery
			for len(ds) < 20 {
				got, err := l.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{l.queue}, Max: held})
				must(t, err)
				for _, d := range got {
					l.settle(d, duly.Nack)
				}
				ds = append(ds, got...)
			}
			l.clock.Advance(time.Second)
			probe := l.take()
			errs, err := l.e.Extend(t.Context(), "", []duly.Receipt{probe.Receipt}, time.Hour)
			must(t, errors.Join(append(errs, err)...))
			l.clock.Advance(time.Hour - time.Millisecond)
			if len(l.takeAll()) != 0 {
				t.Error("the group delivers a message beside the extended probe")
			}
			l.clock.Advance(time.Millisecond)
			if s := l.stats(); len(l.takeAll()) != 0 || s.Probing != 1 {
				t.Errorf("the group delivers a message while it is closed after the stall: %+v", s)
			}
			closed := l.stats().Closing
			if want := l.clock.Now().Add(time.Second); !closed.Until.Equal(want) || closed.Reason != adaptive.Reason {
				t.Errorf("the closing is %+v, want until %s", closed, want)
			}
			l.clock.Advance(time.Second)
			l.settle(l.take(), duly.Ack)
			if s := l.stats(); s.Probing != 0 || s.Factor != 0.1 {
				t.Errorf("after a good probe the stats are %+v", s)
			}
		})
	}
}

// A waiting caller learns that a bound of the topic has dropped the message of the probe.
func TestWaitOfAGroupSeesALostProbe(t *testing.T) {
	t.Parallel()
	l := newLimitedGroup(t, 1)
	must(t, l.e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{MaxCount: 1, Overflow: duly.OverflowDrop}))
	l.probe()
	_, err := l.e.Publish(t.Context(), []duly.Message{{Topic: "t", Body: []byte("next")}})
	must(t, err)

	ready, err := l.e.Wait(t.Context(), duly.WaitParams{Queues: []string{l.queue}})
	if must(t, err); !ready {
		t.Error("the caller is not woken, so no Reserve ends the lost probe")
	}
	if d := l.take(); string(d.Body) != "next" {
		t.Errorf("the next probe is %q", d.Body)
	}
}

// C18.61: Check finds a group that waits for a probe which is not leased.
func TestCheckFindsALostProbeOfAGroup(t *testing.T) {
	t.Parallel()
	l := newLimitedGroup(t, 3)
	l.probe()
	text := l.server.Must("HGET", l.groupKey("tally"), "limiter").(string)
	at := strings.Index(text, ";")
	l.server.Must("HSET", l.groupKey("tally"), "limiter", text[:at]+";01234567890")
	for _, repair := range []bool{false, true} {
		r, err := l.e.Check(t.Context(), contract.CheckParams{Repair: repair})
		must(t, err)
		found := func(f contract.Fault) bool { return f.Kind == "limiter_wrong" && f.Queue == l.ref().Normal() }
		if len(r.Faults) != 1 || !slices.ContainsFunc(r.Faults, found) {
			t.Errorf("with repair %t Check returned %+v", repair, r.Faults)
		}
	}
	if s := l.stats(); s.Closing.Until.IsZero() || s.Probing != 1 {
		t.Errorf("after the repair the stats are %+v", s)
	}
	l.clock.Advance(time.Second)
	l.take()
}

// A resumed group wakes waiting calls for the messages that it holds. One call configures all groups of a shard, so the
// numbers of another group do not count.
func TestResumeMarksEachGroup(t *testing.T) {
	t.Parallel()
	l := newLimitedGroup(t, 1)
	_, err := l.e.CreateGroup(t.Context(), duly.Q("t@z"), duly.FromStart)
	must(t, err)
	for group, as := range map[string]duly.Settlement{"t@g": duly.Release, "t@z": duly.Ack} {
		ds, err := l.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{group}, Max: 1})
		must(t, err)
		_, err = l.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: as}})
		must(t, err)
	}

	marked := func() string { return fmt.Sprint(l.server.Must("ZSCORE", l.groupKey("marker"), "now")) }
	before := marked()
	must(t, l.e.Pause(t.Context(), l.ref()))
	paused := marked()
	must(t, l.e.Resume(t.Context(), l.ref()))
	if resumed := marked(); before != "1" || paused == "1" || resumed != "1" {
		t.Errorf("the marker is %s, in the pause %s, then %s", before, paused, resumed)
	}
}
