package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
)

// TestSentinelClientsLeaveADemotedPrimary demotes the primary of a Sentinel's group while it
// runs, and later stops one until it is replaced. The clients continue at the next primary
// without help. They send nothing to a server that returns as a primary for a moment (fault F9).
//
// C9.5, C11.13
func TestSentinelClientsLeaveADemotedPrimary(t *testing.T) {
	t.Parallel()
	group := redistest.NewSentinel(t)
	s := lightLoad()
	makeQueues(t, group.URL(), s.queues)
	x := &sentinelTrial{T: t, replacements: watchReplacements(t, group), f: setOut(t, group.URL(), 2, s)}
	r := x.f.random()
	for range counts(1, 20) {
		restUpTo(r, 300*time.Millisecond, time.Second)
		x.demote()
		if testing.Short() {
			continue
		}
		restUpTo(r, 300*time.Millisecond, time.Second)
		x.freeze()
	}
	x.f.rest()
	x.healthy()
	x.f.comeHome()
	report, err := x.f.engines[0].Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	h.read(x.f.pages.lines())
	undone, unasked := x.windows(t)
	v := h.conclude(t, x.f.engines[0], trial{undone: undone, calm: x.f.calm, slack: slack}, s.queues...)
	stated := map[string][]window{"demoted": x.demotions, "stopped": x.freezes,
		"replaced unasked": undone[len(undone)-unasked:]}
	for what, windows := range stated {
		answered, lost := h.in(windows)
		t.Logf("%d primaries %s: %d pushes answered in the windows, %d of them lost", len(windows), what, answered, lost)
	}
	t.Logf("pushing again at most %v after a demotion and %v after a stopped primary was replaced; %d READONLY "+
		"errors; %d pushes answered: "+
		"%d lost, %d delivered again after their ack; the repair mended %d faults",
		x.demoted.Round(time.Millisecond), x.frozen.Round(time.Millisecond), x.readonly, v.answered, v.lost, v.resurrected,
		len(report.Faults))
	if x.demoted > 20*time.Second || x.frozen > 20*time.Second { // ten times the promised 2 s
		t.Errorf("no push was answered for %v after a demotion, for %v after a freeze", x.demoted, x.frozen)
	}
	if n := x.f.logged("store reset"); n != 0 {
		t.Errorf("%d resets were logged", n)
	}
}

// sentinelTrial is a group of servers behind Sentinels whose primary changes under load.
type sentinelTrial struct {
	*testing.T
	*replacements
	f                  *fleet
	demotions, freezes []window
	demoted, frozen    time.Duration // the longest time without an answered push after the change
	readonly           int
}

// demote makes another server the primary. The old one accepts writes until the Sentinels change
// its role. These writes are lost.
func (x *sentinelTrial) demote() {
	x.Helper()
	old := x.group.Primary()
	old.Must("FUNCTION", "FLUSH")
	began := at()
	x.group.Demote()
	x.demoted = max(x.demoted, x.f.serves())
	ended := x.healthy()
	x.demotions = append(x.demotions, window{from: began - second, to: ended})
	x.asked(old, began, ended, x.demotions[len(x.demotions)-1])
	x.Logf("%s was demoted in %d…%d", old.Addr(), began, ended)
	x.readonly += errorsOf(old, "READONLY")
	x.f.serves()
}

// freeze stops the primary until another one has taken its place, and then continues it.
func (x *sentinelTrial) freeze() {
	x.Helper()
	old := x.group.Primary()
	began := at()
	old.Pause()
	x.freezes = append(x.freezes, window{from: began - second, to: at()})
	// A client whose Sentinel does not know of the change may connect to the old server, which
	// still regards itself as the primary.
	redistest.Await(x, "every Sentinel knows the other primary", func() bool {
		return !slices.ContainsFunc(x.group.Sentinels(), func(one *redistest.Server) bool {
			place, err := one.Do(x.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.PrimaryName)
			return err != nil || strings.HasSuffix(old.Addr(), ":"+fmt.Sprint(place.([]any)[1]))
		})
	})
	begun := time.Now()
	x.f.everybodyServes()
	x.frozen = max(x.frozen, time.Since(begun))
	continued := at()
	x.asked(old, began, continued, x.freezes[len(x.freezes)-1])
	old.Continue() // the old server still regards itself as the primary
	x.f.everybodyServes()
	x.healthy()
	x.Logf("%s was stopped in %d…%d, and became a replica by %d", old.Addr(), began, continued, at())
	x.f.everybodyServes()
}

// everybodyServes pushes through each engine until a push is answered.
func (f *fleet) everybodyServes() {
	f.t.Helper()
	for i := range f.engines {
		f.servesThrough(f.engines[i])
	}
}
