package chaos

import (
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

const (
	partitioned = 15 * time.Second
	// cutOff is the bound of docs/promise.md: how long a primary without replicas accepts writes
	// if min-replicas-max-lag is 2.
	cutOff = 4 * second
)

// TestPartitionLosesTheStatedWindow separates the primary and one of two engines from the
// replicas, the Sentinels and the other engine for 15 s. With min-replicas-to-write the old
// primary refuses writes after four seconds. Without it, what the old primary answers is lost
// (fault F2).
//
// C9.5, C11.13
func TestPartitionLosesTheStatedWindow(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("runs with DULY_LONG=1: a partition of 15 s for each setting")
	}
	t.Run("MinReplicas", func(t *testing.T) {
		x := newPartition(t, redistest.Config("min-replicas-to-write 1"), redistest.Config("min-replicas-max-lag 2"))
		began, healthy := x.run()
		if x.accepted > 2*cutOff {
			t.Errorf("the old primary accepted a write %v after the cut", us(x.accepted))
		}
		x.report(window{from: began - second, to: min(healthy, began+2*cutOff)})
	})
	t.Run("NoMinReplicas", func(t *testing.T) {
		x := newPartition(t)
		began, healthy := x.run()
		if x.accepted < cutOff {
			t.Errorf("the old primary accepted writes for only %v, so the run proves nothing", us(x.accepted))
		}
		x.report(window{from: began - second, to: healthy})
	})
}

// partition is a Sentinel's group with two engines. All other processes reach the first primary
// through a proxy. The first engine is on the primary's side. It connects to a fixed address,
// which the test moves to the new primary after the partition, as a changed DNS record does. The
// second engine asks the Sentinels.
type partition struct {
	*testing.T
	*replacements
	f                     *fleet
	toPrimary, toMinority *faultproxy.Proxy
	accepted              int64         // µs from the cut to the last write that the old primary accepted
	served                time.Duration // from the cut to the next push of the other side's engine
	demoted               time.Duration // from the end of the partition until the old primary followed the new one
}

func newPartition(t *testing.T, opts ...redistest.Option) *partition {
	t.Helper()
	x := &partition{T: t}
	behind := redistest.Behind(func(addr string) string {
		x.toPrimary = faultproxy.New(t, addr)
		return x.toPrimary.Addr()
	})

	group := redistest.NewSentinel(t, append(opts, behind)...)
	x.toMinority = faultproxy.New(t, group.Primary().Addr())

	s := lightLoad()
	makeQueues(t, group.URL(), s.queues)
	x.replacements = watchReplacements(t, group)
	x.f = setOutAt(t, []string{"redis://" + x.toMinority.Addr(), group.URL()}, s)
	return x
}

// run separates the primary, ends the partition, and returns when the partition began and when
// every server followed the new primary.
func (x *partition) run() (began, healthy int64) {
	x.Helper()
	restUpTo(x.f.random(), 2*time.Second, 3*time.Second)
	old := x.group.Primary()
	began = at()
	x.toPrimary.Cut(faultproxy.Both)
	redistest.Await(x, "another primary", func() bool { return x.group.Primary() != old })
	x.f.servesThrough(x.f.engines[1])
	x.served = us(at() - began)

	time.Sleep(partitioned - us(at()-began))
	healed := at()
	x.toPrimary.Heal()
	healthy = x.healthy()
	x.demoted = us(healthy - healed)
	x.accepted = x.lastAccepted(old.Addr(), began, healthy) - began

	x.toMinority.Retarget(x.group.Primary().Addr())
	x.toMinority.Reset()
	x.f.everybodyServes()
	x.asked(old, began, healthy, window{from: began - second, to: healthy})
	return began, healthy
}

// lastAccepted returns the time of the last write that a server accepted between two times.
func (x *replacements) lastAccepted(addr string, from, to int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := from
	for _, b := range x.beats[addr] {
		if b.ok && b.sent >= from && b.sent <= to {
			last = b.sent
		}
	}
	return last
}

// report drains the queues, repairs the store once and judges the history. Only what was answered
// in the window, or during a replacement by the Sentinels themselves, may be lost.
func (x *partition) report(stated window) {
	x.Helper()
	x.all[0].window = stated
	x.f.calm = at()
	x.f.comeHome() // without producers there is a free worker for every job, whatever its priority
	repair, err := x.f.engines[1].Check(x.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		x.Fatal(err)
	}

	undone, unasked := x.windows(x.T)
	h := newHistory()
	h.read(x.f.pages.lines())
	v := h.conclude(x.T, x.f.engines[1], trial{undone: undone, calm: x.f.calm, slack: slack}, x.f.shape.queues...)
	answered, lost := h.in([]window{stated})
	x.Logf("the other side pushed again %v after the cut; the old primary accepted writes for %v and followed the "+
		"new one %v after the end of the partition",
		x.served.Round(time.Millisecond), us(x.accepted).Round(time.Millisecond), x.demoted.Round(time.Millisecond))
	x.Logf("%d pushes answered in the window of %v, %d of them lost, %d jobs delivered again after their ack; %d "+
		"replacements by the Sentinels; the repair fixed %d faults",
		answered, us(stated.to-stated.from).Round(time.Millisecond), lost, v.resurrected, unasked, len(repair.Faults))
	if n := x.f.logged("store reset"); n != 0 {
		x.Errorf("%d resets were logged", n)
	}
}
